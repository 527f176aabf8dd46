"""Requests that are passed on to partitions in the order in which they came: batches, settlements, commits.

Such a request has an item for each partition. All are passed on without waiting, if their partitions are known and
have room; the answer is put together from the replies, in whatever turn they come. So a request of this kind needs
no task. If a partition is unknown or has no room, or too much of the client is under way, the rest of the request
is returned as a coroutine, and nothing else is taken from the client until that has ended.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from goqueue.actors.front.bounds import RequestLoad
from goqueue.actors.front.responders import Haste, Responder, Rest
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.runtime.messages import Reply, Request
from goqueue.core.security.quotas import charge
from goqueue.errors import GoQueueError
from goqueue.net.wire.errors import GoingAway
from goqueue.net.wire.kinds import Answer


class PartitionItem(Protocol):
    @property
    def topic(self) -> bytes: ...
    @property
    def partition(self) -> int: ...


ItemT = TypeVar("ItemT", bound=PartitionItem)
PieceT = TypeVar("PieceT")


class OrderedRequest(ABC, Generic[ItemT, PieceT]):
    """`size` is what the request adds to a load of its session until it is answered."""

    kind: ClassVar[str]
    haste: Haste = Haste.AT_ONCE
    """When the answer is sent, if no others follow in this turn."""

    __slots__ = ("_items", "_load", "_pieces", "_remaining", "_responder", "_size", "count", "session")

    def __init__(
        self,
        session: BrokerSession,
        items: Sequence[ItemT],
        load: RequestLoad,
        size: int,
        responder: Responder,
    ) -> None:
        self.session = session
        self.count = len(items)
        """What the request is charged with, beside its size."""
        self._items = items
        self._load = load
        self._size = size
        self._responder = responder
        self._pieces: list[PieceT | None] = [None] * len(items)
        self._remaining = len(items)

    @abstractmethod
    def question(self, item: ItemT) -> Request[Any] | None:
        """What its partition is asked; None if there is nothing to ask. Raises if the item is wrong in itself."""

    @abstractmethod
    def asked(self, number: int, question: Any, reply: Reply[Any]) -> None:
        """The partition has the question: see to it that `settle` is called for the item."""

    @abstractmethod
    def refused(self, error: GoQueueError) -> PieceT:
        """The piece of an item that was not passed on."""

    def unasked(self) -> PieceT:
        """The piece of an item without a question."""
        raise AssertionError("every item of this kind asks something")

    @abstractmethod
    def whole(self, pieces: tuple[PieceT, ...]) -> Answer: ...

    def pass_on(self) -> Rest | None:
        if not self._load.add_at_once(self._size):
            return self._pass_on_when_room()
        if not self._items:
            self._finish()
        for number, item in enumerate(self._items):
            if not self._pass_at_once(number, item):
                return self._pass_on_from(number)
        return None

    def settle(self, number: int, piece: PieceT) -> None:
        self._pieces[number] = piece
        self._remaining -= 1
        if not self._remaining:
            self._finish()

    def _finish(self) -> None:
        load = self._load
        load.remove(self._size)
        throttle_ms = charge(self.session.principal, self.kind, self._size, self.count)
        answer = self.whole(tuple(self._pieces))  # type: ignore[arg-type]  # each has its piece
        self._responder.answer(answer, throttle_ms, Haste.WITH_TURN if load.amount else self.haste)

    def _pass_at_once(self, number: int, item: ItemT) -> bool:
        """False if it has to wait."""
        try:
            question = self.question(item)
            if question is None:
                self.settle(number, self.unasked())
                return True
            partition = self.session.known_partition(item.topic, item.partition)
            reply = None if partition is None else partition.ask_at_once(question)
        except GoQueueError as error:
            self.settle(number, self.refused(error))
            return True
        if reply is None:
            return False
        self.asked(number, question, reply)
        return True

    async def _pass_on_when_room(self) -> None:
        await self._load.add(self._size)
        if not self._items:
            self._finish()
        await self._pass_on_from(0)

    async def _pass_on_from(self, number: int) -> None:
        try:
            while number < len(self._items):
                if not self._pass_at_once(number, self._items[number]):
                    await self._pass_when_room(number, self._items[number])
                number += 1
        finally:  # items are left if the caller was cancelled: nothing of them was done
            for left in range(number, len(self._items)):
                self.settle(left, self.refused(GoingAway("the connection ended; repeat it on a new one")))

    async def _pass_when_room(self, number: int, item: ItemT) -> None:
        try:
            question = self.question(item)
            assert question is not None, "it would not have to wait"
            partition = await self.session.partition(item.topic, item.partition)
            reply = await partition.ask(question)
        except GoQueueError as error:
            self.settle(number, self.refused(error))
        else:
            self.asked(number, question, reply)

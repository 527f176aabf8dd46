"""A broker of our own for consumers: one topic, one group, told by a test what to do."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import trio

from goqueue.client.consuming.options import ConsumerOptions
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.link.link import Link, Pending
from goqueue.client.link.share import OnAnswer
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import encode_record
from goqueue.errors import GoQueueError, StaleGeneration, UnknownMember
from goqueue.net.wire import groups as wire
from goqueue.net.wire.failures import error_body
from goqueue.net.wire.groups import Because, Why
from goqueue.net.wire.kinds import Request
from goqueue.net.wire.messages import Done
from goqueue.nursery import PlainNursery
from goqueue.types import Priority
from tests.client.callers import BareCaller
from tests.client.reading.test_message import sealed

UUID = bytes(range(16))


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def values_of(messages: Iterable[Any]) -> list[bytes]:
    return [message.value for message in messages]


def runs_of(offsets: Iterable[int], attempts: dict[int, int]) -> tuple[wire.DeliveryRun, ...]:
    runs: list[wire.DeliveryRun] = []
    for offset in offsets:
        if runs and runs[-1].last + 1 == offset and runs[-1].attempt == attempts[offset]:
            runs[-1] = runs[-1]._replace(last=offset)
        else:
            runs.append(wire.DeliveryRun(offset, offset, attempts[offset]))
    return tuple(runs)


class FakePartition:
    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.ready: deque[int] = deque()
        self.attempts: dict[int, int] = {}
        self.leases: dict[tuple[int, int], float] = {}
        """By nonce and offset: when it ends."""
        self.done: dict[int, str] = {}
        self.error: GoQueueError | None = None
        self.priorities: dict[int, Priority] = {}
        """Those that are not normal."""

    def publish(self, *values: bytes) -> None:
        self.ready.extend(range(len(self.values), len(self.values) + len(values)))
        self.values += values

    def take(self, nonce: int, count_max: int, until: float) -> wire.ReceivedPartition:
        offsets = sorted(self.ready.popleft() for _ in range(min(count_max, len(self.ready))))
        for offset in offsets:
            self.attempts[offset] = self.attempts.get(offset, 0) + 1
            self.leases[nonce, offset] = until
        data = b""
        if offsets:
            first = offsets[0]
            records = [
                encode_record(
                    each - first, 0, self.values[each], priority=self.priorities.get(each, Priority.NORMAL)
                )
                for each in range(first, offsets[-1] + 1)
            ]
            data = sealed(*records, base_offset=first)
        return wire.ReceivedPartition(None, nonce, runs_of(offsets, self.attempts), False, False, data)

    def _record(self, first: int, offset: int) -> bytes:
        priority = self.priorities.get(offset, Priority.NORMAL)
        return encode_record(offset - first, 0, self.values[offset], priority=priority)

    def expire(self, now: float) -> None:
        for (nonce, offset), until in list(self.leases.items()):
            if until <= now:
                self.give_back(nonce, offset)

    def give_back(self, nonce: int, offset: int) -> None:
        del self.leases[nonce, offset]
        self.ready.append(offset)

    def release(self, nonce: int, offset: int) -> None:
        self.give_back(nonce, offset)
        self.attempts[offset] -= 1

    def settle(self, asked: wire.SettleDelivery, now: float) -> list[int]:
        """The stale ones."""
        stale = []
        for run in asked.runs:
            for offset in range(run.first, run.last + 1):
                if (asked.nonce, offset) in self.leases and self.attempts[offset] == run.attempt:
                    self._settle_one(asked, offset, now)
                elif not (asked.action == Action.ACK and self.done.get(offset) == f"ACK {asked.nonce}"):
                    stale.append(offset)
        return stale

    def _settle_one(self, asked: wire.SettleDelivery, offset: int, now: float) -> None:
        if asked.action == Action.BEGIN:
            return
        if asked.action == Action.EXTEND:
            self.leases[asked.nonce, offset] = now + (asked.delay_ms or 0) / 1000
        elif asked.action == Action.RELEASE:
            self.release(asked.nonce, offset)
        else:
            del self.leases[asked.nonce, offset]
            self.done[offset] = f"{Action(asked.action).name} {asked.nonce}"


class FakeLink:
    """As far as a consumer knows of a connection."""

    receives_are_many = heartbeats_are_many = is_over = False
    has_settlement_room = True

    def __init__(self, broker: "FakeBroker") -> None:
        self._broker = broker

    def settle_at_end_of_turn(self, call: Callable[[], None]) -> None:
        async def at_end_of_turn() -> None:
            self._broker.turn_ends += 1
            call()

        self._broker.spawn(at_end_of_turn)

    def post_settlement(self, request: wire.Settle, on_answer: OnAnswer, *, at_once: bool = False) -> None:
        async def ask() -> None:
            with trio.CancelScope(shield=True):  # a connection outlives the cancellation of a block
                try:
                    on_answer(await self._broker.call(request, wire.Settled))
                except GoQueueError as error:
                    on_answer(error)

        self._broker.spawn(ask)

    def hand_over(self) -> bool:
        return True

    def ask_ahead(self, request: wire.Receive) -> Pending | None:
        """What fails goes the way that repeats, which tells of it."""
        if wire.Receive in self._broker.failures:
            return None
        pending = Pending()

        async def ask() -> None:
            try:
                pending.settle(await self._broker.call(request, wire.Received))
            except GoQueueError as error:
                pending.settle(error)

        self._broker.spawn(ask)
        return pending


class FakeBroker(BareCaller):
    """What a consumer takes for its client."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__()
        self.link: Link | None = cast(Link, FakeLink(self))
        self.partitions = [FakePartition() for _ in range(partitions)]
        self.assigned = list(range(partitions))
        self.generation = 1
        self.members: set[str] = set()
        self.holders: dict[int, str] = {}
        """The member of each delivery, by its nonce."""
        self.asked: list[Any] = []
        self.turn_ends = 0
        """How often something was sent at the end of a turn."""
        self.failures: dict[type, GoQueueError] = {}
        """What the next request of a kind is answered with."""
        self.extra: dict[str, Any] = {}
        """Flags of the next deliveries: `is_alone`, `alone_waits`."""
        self.because = Because("nobody knows", {"reason": "in_flight"})
        self.answers: dict[type, Callable[[Any], Awaitable[Any]]] = {
            wire.JoinGroup: self._join,
            wire.Heartbeat: self._beat,
            wire.LeaveGroup: self._leave,
            wire.Receive: self._receive,
            wire.Settle: self._settle,
            Why: self._why,
        }
        self._nonce = 0
        self._changed = trio.Event()
        self.tasks: trio.Nursery | None = None

    def spawn(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        assert self.tasks is not None
        self.tasks.start_soon(task, *arguments)

    def publish(self, *values: bytes, partition: int = 0) -> None:
        self.partitions[partition].publish(*values)
        self.change()

    def change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def assign(self, *partitions: int) -> None:
        self.assigned, self.generation = list(partitions), self.generation + 1
        self.change()

    def of_kind(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.asked if isinstance(request, kind)]

    def said(self, action: Action) -> list[wire.SettleDelivery]:
        return [each for settle in self.of_kind(wire.Settle) for each in settle.deliveries if each.action == action]

    async def call(self, request: Request, kind: type[Any]) -> Any:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        failure = self.failures.pop(type(request), None)
        if failure is not None:
            raise failure
        answer = await self.answers[type(request)](request)
        assert isinstance(answer, kind)
        return answer

    async def _join(self, request: wire.JoinGroup) -> wire.Membership:
        self.members.add(request.member)
        return self._membership(request.member)

    async def _beat(self, request: wire.Heartbeat) -> wire.Membership:
        with trio.move_on_after(request.max_wait_ms / 1000):
            while request.member in self.members and request.generation == self.generation:
                await self._changed.wait()
        if request.member not in self.members:
            raise UnknownMember("who is that? join again")
        return self._membership(request.member)

    async def _leave(self, request: wire.LeaveGroup) -> Done:
        """What it holds is given back, uncounted, and its receives that wait take nothing any more."""
        self.members.discard(request.member)
        for partition in self.partitions:
            for nonce, offset in [lease for lease in partition.leases if self.holders[lease[0]] == request.member]:
                partition.release(nonce, offset)
        self.change()
        return Done()

    def _membership(self, member: str) -> wire.Membership:
        assignment = tuple(wire.AssignedPartition("orders", UUID, number) for number in self.assigned)
        return wire.Membership(member, self.generation, {}, assignment, ())

    async def _receive(self, request: wire.Receive) -> wire.Received:
        with trio.move_on_after(request.max_wait_ms / 1000):
            while not self._has_something(request):
                with trio.move_on_after(0.5):  # leases end by themselves
                    await self._changed.wait()
        await trio.lowlevel.checkpoint()
        return wire.Received(tuple(self._received(request, each.partition) for each in request.partitions))

    def _has_something(self, request: wire.Receive) -> bool:
        for partition in self.partitions:
            partition.expire(trio.current_time())
        asked = [self.partitions[each.partition] for each in request.partitions]
        return bool(self.extra) or any(each.ready or each.error for each in asked)

    def _received(self, request: wire.Receive, number: int) -> wire.ReceivedPartition:
        partition = self.partitions[number]
        is_owner = number in self.assigned and request.member in self.members
        error = partition.error or (None if is_owner else StaleGeneration("not yours"))
        if error is not None:
            return wire.ReceivedPartition(error_body(error), 0, (), False, False, b"")
        self._nonce += 1
        self.holders[self._nonce] = request.member
        until = trio.current_time() + request.visibility_ms / 1000
        extra, self.extra = self.extra, {}
        return partition.take(self._nonce, request.messages_max, until)._replace(**extra)

    async def _settle(self, request: wire.Settle) -> wire.Settled:
        now = trio.current_time()
        answers = []
        for asked in request.deliveries:
            partition = self.partitions[asked.partition]
            partition.expire(now)
            if partition.error is not None:
                answers.append(wire.SettledDelivery(error_body(partition.error)))
            else:
                stale = partition.settle(asked, now)
                answers.append(wire.SettledDelivery(None, runs_of(stale, partition.attempts)))
        self.change()
        return wire.Settled(tuple(answers))

    async def _why(self, _: Why) -> Because:
        return self.because


@asynccontextmanager
async def at_work(broker: FakeBroker) -> AsyncIterator[None]:
    async with PlainNursery() as broker.tasks:
        yield
        broker.tasks.cancel_scope.cancel()


@asynccontextmanager
async def consuming(broker: FakeBroker, **options: Any) -> AsyncIterator[QueueConsumer]:
    """A consumer of the one topic."""
    options = {"topics": "orders", "group": "billing", **options}
    async with at_work(broker), QueueConsumer(broker, ConsumerOptions(**options)) as consumer:
        yield consumer

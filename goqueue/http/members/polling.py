"""A poll of a member: waits for messages of its partitions, and is a sign of life as long as it is open.

Two things run at the same time: the receive, or in a stream the fetch, and one heartbeat after the other. When one
brings another assignment, what waits is ended, and is asked again of the partitions that the member has now. When
the client goes away, what waits is ended, too; what a partition was just handing out is given back, uncounted.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import trio

from goqueue.client.consuming.delivery import Origin, ReceivedDelivery, open_delivery, runs_of
from goqueue.client.consuming.names import DeliveredNames
from goqueue.client.reading.message import Message, Slice
from goqueue.core.ledger.settlements import Action
from goqueue.errors import (
    CorruptMessage,
    Fenced,
    GoQueueError,
    OffsetOutOfRange,
    StaleGeneration,
    UnknownGroup,
    UnknownMember,
)
from goqueue.http.members.seats import Seat
from goqueue.net.wire.errors import GoingAway
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.groups import (
    AskOffsets,
    AssignedPartition,
    GroupOffsets,
    Receive,
    Received,
    ReceivePartition,
    Settle,
    SettleDelivery,
)
from goqueue.net.wire.messages import Fetch, Fetched, FetchPartition
from goqueue.nursery import PlainNursery
from goqueue.types import Microseconds

HEARTBEAT_SECONDS = 3.0
REST_SECONDS = 1.0
"""A partition that cannot be read is not asked again for this long."""
FETCH_BYTES_MAX = 1024 * 1024
FATAL = (UnknownMember, UnknownGroup, Fenced)
"""The member is none any more."""
OUTDATED = (StaleGeneration,)
"""A partition has not heard of the newest assignment yet, or this member has not."""


@dataclass(frozen=True, slots=True)
class PollRequest:
    """What a poll asks for."""

    count: int
    size: int
    wait_seconds: float
    visibility_seconds: float
    generation: int | None
    """The one that the member believes in; None: whatever is the newest."""


@dataclass(slots=True)
class Polled:
    messages: list[Message] = field(default_factory=list)
    errors: dict[tuple[str, int], GoQueueError] = field(default_factory=dict)
    """Partitions that give nothing, and why."""


class Poll:
    def __init__(self, seat: Seat, wanted: PollRequest, now: Microseconds, request_id: str) -> None:
        self.result = Polled()
        self._seat = seat
        self._wanted = wanted
        self._now = now
        self._request_id = request_id
        self._deadline = trio.current_time() + wanted.wait_seconds
        self._deliveries: list[ReceivedDelivery] = []
        self._resting: dict[tuple[bytes, int], float] = {}
        self._is_over = False
        """The client is gone, or the broker is going away."""

    def end(self) -> None:
        """Take nothing any more."""
        self._is_over = True
        self._seat.session.polls.end()

    async def run(self) -> None:
        seat = self._seat
        with trio.move_on_at(self._deadline) as patience:
            await seat.turn.acquire()
        if patience.cancelled_caught:
            return
        try:
            await self._refresh()
            while not self._is_over:
                if await self._try() or trio.current_time() >= self._deadline:
                    break
        except GoingAway:
            self._is_over = True
        finally:
            seat.turn.release()

    async def give_back(self) -> None:
        """Nobody gets what was taken."""
        for delivery in self._deliveries:
            _, _, uuid, partition, nonce = delivery.origin
            runs = runs_of(delivery, delivery.messages)
            named = SettleDelivery(uuid, partition, nonce, Action.RELEASE, runs, None, "", 0, ())
            await self._seat.ask(Settle(self._seat.group, (named,)), self._request_id)
        self._deliveries.clear()

    def keep(self) -> None:
        """The member gets what was taken: it holds it from now on."""
        until = trio.current_time() + self._wanted.visibility_seconds
        for delivery in self._deliveries:
            self._seat.hold(delivery, until)

    # Membership

    async def _refresh(self) -> None:
        """Whoever names a generation has to know the newest."""
        seat, believed = self._seat, self._wanted.generation
        membership = await seat.beat(seat.generation)
        seat.adopt(membership)
        if membership.generation != seat.generation or membership.revoked:
            await self._confirm()
        if believed is not None and believed != seat.newest:
            raise StaleGeneration(
                f"generation {believed} of group {seat.group} is no longer the newest; go on with {seat.newest}",
                generation=seat.newest,
                assignment=assignment_in_json(seat.assignment),
            )

    async def _confirm(self) -> None:
        """In a queue what was revoked is let go of at once; in a stream only when the member says so itself."""
        if self._seat.mode != "stream":
            self._seat.adopt(await self._seat.beat(self._seat.generation))

    async def _stay_alive(self) -> None:
        """Until the assignment changes, which ends what waits."""
        seat = self._seat
        while True:
            begun_at = trio.current_time()
            try:
                membership = await seat.beat(
                    seat.newest if seat.mode != "stream" else seat.generation, self._beat_wait()
                )
            except GoingAway:
                return
            except FATAL:
                raise
            except GoQueueError:
                await trio.sleep(REST_SECONDS)
                continue
            if (membership.generation, membership.assignment) != (seat.newest, seat.assignment):
                seat.adopt(membership)
                await self._confirm()
                seat.session.polls.end()
                return
            await trio.sleep_until(begun_at + HEARTBEAT_SECONDS)

    def _beat_wait(self) -> float:
        """A stream that has not confirmed the newest generation would be answered at once, again and again."""
        return 0.0 if self._seat.generation != self._seat.newest else HEARTBEAT_SECONDS

    # One try

    async def _try(self) -> bool:
        """Whether there is something to answer with."""
        partitions = self._partitions()
        async with PlainNursery() as nursery:
            nursery.start_soon(self._stay_alive)
            with self._ended_by_change():
                if not partitions:
                    await trio.sleep(min(REST_SECONDS, max(0.0, self._deadline - trio.current_time())))
                elif self._seat.mode == "stream":
                    await self._fetch(partitions)
                else:
                    await self._receive(partitions)
            nursery.cancel_scope.cancel()
        return bool(self.result.messages)

    @contextmanager
    def _ended_by_change(self) -> Iterator[None]:
        try:
            yield
        except GoingAway:
            if self._is_over or self._seat.session.is_sent_away:
                raise

    def _partitions(self) -> list[AssignedPartition]:
        now = trio.current_time()
        return [
            each for each in self._seat.assignment if self._resting.get((each.uuid, each.partition), 0.0) <= now
        ]

    def _wait_ms(self) -> int:
        left = self._deadline - trio.current_time()
        if self._resting:
            left = min(left, REST_SECONDS)
        return math.ceil(1_000 * max(0.0, left))

    def _note(self, partition: AssignedPartition, error: GoQueueError) -> None:
        self._resting[partition.uuid, partition.partition] = trio.current_time() + REST_SECONDS
        if not isinstance(error, OUTDATED):
            self.result.errors[partition.topic, partition.partition] = error

    # Queues

    async def _receive(self, partitions: list[AssignedPartition]) -> None:
        seat, wanted = self._seat, self._wanted
        seat.expire(trio.current_time())
        count, size = seat.room(wanted.count)
        asked = Receive(
            seat.group,
            seat.member,
            seat.generation,
            self._wait_ms(),
            count,
            min(size, wanted.size),
            math.ceil(1_000 * wanted.visibility_seconds),
            bool(seat.held),
            tuple([ReceivePartition(each.uuid, each.partition) for each in partitions]),
            count,
            seat.instance,
        )
        answer = cast(Received, await seat.ask(asked, self._request_id))
        for partition, received in zip(partitions, answer.partitions, strict=True):
            if received.error is not None:
                error = error_of(received.error)
                if isinstance(error, FATAL):
                    raise error
                self._note(partition, error)
            elif received.runs or received.sets:
                origin = Origin(seat.group, partition.topic, partition.uuid, partition.partition, received.nonce)
                try:
                    delivery = open_delivery(
                        origin, DeliveredNames(received.runs, received.sets), received.data, None
                    )
                except CorruptMessage as error:
                    self._note(partition, error)
                else:
                    self._deliveries.append(delivery)
                    self.result.messages += delivery.messages

    # Streams

    async def _fetch(self, partitions: list[AssignedPartition]) -> None:
        seat = self._seat
        await self._begin(partitions)
        readable = [each for each in partitions if (each.uuid, each.partition) in seat.positions]
        if not readable:
            await trio.sleep(REST_SECONDS)
            return
        places = [
            FetchPartition(each.uuid, each.partition, 0, seat.positions[each.uuid, each.partition])
            for each in readable
        ]
        size = min(self._wanted.size, FETCH_BYTES_MAX)
        asked = Fetch(self._wait_ms(), size, tuple(places), seat.group, seat.member, seat.instance)
        answer = cast(Fetched, await seat.ask(asked, self._request_id))
        for partition, found in zip(readable, answer.partitions, strict=True):
            place = (partition.uuid, partition.partition)
            if place not in seat.positions:  # another assignment came meanwhile
                continue
            if found.error is not None:
                self._meet(partition, error_of(found.error))
                continue
            self._take(partition, found.data, found.next_offset)

    def _take(self, partition: AssignedPartition, data: bytes, next_offset: int) -> None:
        seat, place, messages = self._seat, (partition.uuid, partition.partition), self.result.messages
        for message in Slice(partition.topic, partition.partition, data).messages(
            seat.positions[place], None, self._now
        ):
            if len(messages) >= self._wanted.count:
                return
            messages.append(message)
            seat.positions[place] = message.offset + 1
        seat.positions[place] = max(seat.positions[place], next_offset)

    async def _begin(self, partitions: list[AssignedPartition]) -> None:
        """Where the group goes on with partitions that came newly."""
        seat = self._seat
        new = [each for each in partitions if (each.uuid, each.partition) not in seat.positions]
        if not new:
            return
        asked = AskOffsets(seat.group, tuple([ReceivePartition(each.uuid, each.partition) for each in new]))
        answer = cast(GroupOffsets, await seat.ask(asked, self._request_id))
        for partition, found in zip(new, answer.partitions, strict=True):
            if found.error is None:
                seat.positions[partition.uuid, partition.partition] = found.offset
            else:
                self._note(partition, error_of(found.error))

    def _meet(self, partition: AssignedPartition, error: GoQueueError) -> None:
        start = error.details.get("start")
        place = (partition.uuid, partition.partition)
        if isinstance(error, OffsetOutOfRange) and isinstance(start, int) and self._seat.positions[place] < start:
            self._seat.positions[place] = start  # retention was faster
        else:
            self._note(partition, error)


def assignment_in_json(assignment: tuple[AssignedPartition, ...]) -> list[dict[str, Any]]:
    return [{"topic": each.topic, "partition": each.partition} for each in assignment]

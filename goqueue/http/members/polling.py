"""A poll of a member: waits for messages of its partitions, and is a sign of life as long as it is open.

Two things run at the same time: the receive, or in a stream the fetch, and one heartbeat after the other. When one
brings another assignment, what waits is ended, and is asked again of the partitions that the member has now. When
the client goes away, what waits is ended, too; what a partition was just handing out is given back, uncounted.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import trio

from goqueue.client.consuming.delivery import Origin, open_delivery
from goqueue.client.consuming.names import DeliveredNames
from goqueue.client.reading.message import Message, Slice
from goqueue.core.groups.member import HEARTBEATS_PER_SESSION
from goqueue.errors import (
    CorruptMessage,
    Fenced,
    GoQueueError,
    OffsetOutOfRange,
    StaleGeneration,
    UnknownGroup,
    UnknownMember,
)
from goqueue.http.members.seats import Seat, no_seat
from goqueue.http.members.taken import TakenDeliveries
from goqueue.http.messages.outgoing import Form, delivered_in_json, message_in_json
from goqueue.http.messages.reading import size_of
from goqueue.net.wire.errors import GoingAway
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.groups import (
    AskOffsets,
    AssignedPartition,
    GroupOffsets,
    Receive,
    Received,
    ReceivedPartition,
    ReceivePartition,
)
from goqueue.net.wire.messages import Fetch, Fetched, FetchPartition
from goqueue.nursery import PlainNursery
from goqueue.types import Microseconds, Offset

HEARTBEAT_SECONDS = 3.0
REST_SECONDS = 1.0
"""A partition that cannot be read is not asked again for this long."""
FETCH_BYTES_MAX = 1024 * 1024
SHOWN_AT_ONCE, SHOWN_BYTES_AT_ONCE = 64, 64 * 1024
"""Messages of an answer that are made JSON before others may run."""
FATAL = (UnknownMember, UnknownGroup, Fenced)
"""The member is none any more, says its group."""
OUTDATED = (StaleGeneration, UnknownMember, UnknownGroup)
"""A partition has not heard of the group's newest assignment yet, or this member has not; the group knows."""


@dataclass(frozen=True, slots=True)
class PollRequest:
    """What a poll asks for."""

    count: int
    size: int
    wait_seconds: float
    visibility_seconds: float
    generation: int | None
    """The one that the member believes in; None: whatever is the newest."""


class Poll:
    def __init__(self, seat: Seat, wanted: PollRequest, now: Microseconds, request_id: str) -> None:
        self.errors: dict[tuple[str, int], GoQueueError] = {}
        """Partitions that give nothing, and why."""
        self._seat = seat
        self._wanted = wanted
        self._now = now
        self._request_id = request_id
        self._deadline = trio.current_time() + wanted.wait_seconds
        self._taken = TakenDeliveries(seat, request_id, wanted.size)
        self._read: list[Message] = []
        """Messages of a stream."""
        self._read_size = 0
        self._begun: dict[tuple[bytes, int], Offset] = {}
        """Where a stream stood before."""
        self._resting: dict[tuple[bytes, int], float] = {}
        self._for_turn = trio.CancelScope(deadline=self._deadline)
        self._lost: GoQueueError | None = None
        """Why the member is none any more."""
        self._is_over = False
        """The client is gone, or the broker is going away."""

    def end(self) -> None:
        """Take nothing any more."""
        self._is_over = True
        self._for_turn.cancel()
        self._seat.wake_poll()

    async def run(self) -> None:
        if not await self._take_turn():
            return
        try:
            await self._run()
        except GoingAway:
            self._is_over = True
        finally:
            self._seat.turn.release()

    async def _take_turn(self) -> bool:
        """A poll that does not wait has its turn all the same, if no other one is open."""
        turn = self._seat.turn
        with suppress(trio.WouldBlock):
            turn.acquire_nowait()
            return True
        with self._for_turn:
            await turn.acquire()
        return not self._for_turn.cancelled_caught

    async def _run(self) -> None:
        if self._seat.is_gone:
            raise no_seat(self._seat.group, self._seat.member)
        if not self._is_over:
            await self._check_generation()
        while not self._is_over:
            if await self._try() or trio.current_time() >= self._deadline:
                break

    async def _check_generation(self) -> None:
        """Whoever names a generation has to know the newest."""
        seat, believed = self._seat, self._wanted.generation
        await seat.refresh()
        if believed is not None and believed != seat.newest:
            raise StaleGeneration(
                f"generation {believed} of group {seat.group} is no longer the newest; go on with {seat.newest}",
                generation=seat.newest,
                assignment=assignment_in_json(seat.assignment),
            )

    # What becomes of the messages

    @property
    def has_messages(self) -> bool:
        return bool(self._taken.kept or self._read)

    @property
    def shown_at_once(self) -> int:
        """The number of messages that are made JSON in one step: large ones one by one."""
        count = len(self._read) + sum(len(messages) for _, messages in self._taken.kept)
        size = self._read_size + self._taken.size
        return max(1, min(SHOWN_AT_ONCE, SHOWN_BYTES_AT_ONCE * count // max(1, size)))

    def in_json(self, form: Form) -> Iterator[dict[str, Any]]:
        """The messages, one by one."""
        for delivery, messages in self._taken.kept:
            yield from delivered_in_json(delivery, messages, form)
        for message in self._read:
            yield message_in_json(message, form)

    def keep(self) -> None:
        """The member gets what was taken: it holds it from now on."""
        self._taken.hold(trio.current_time() + self._wanted.visibility_seconds)

    async def give_back(self) -> None:
        """Nobody gets what was taken."""
        self.rewind()
        await self._taken.give_back()

    def rewind(self) -> None:
        """A stream goes on where it was: its answer was not sent whole."""
        positions = self._seat.positions
        for place, offset in self._begun.items():
            if place in positions:
                positions[place] = min(positions[place], offset)

    # Membership

    async def _stay_alive(self) -> None:
        """One heartbeat after the other. The end of what waits is repeated: it may be missed while it takes."""
        seat, asked = self._seat, (self._seat.newest, self._seat.assignment)
        interval = min(HEARTBEAT_SECONDS, seat.session_seconds / HEARTBEATS_PER_SESSION)
        while self._lost is None:
            begun_at = trio.current_time()
            try:
                if not self._is_over:
                    await seat.refresh(self._beat_wait(interval))
            except FATAL as error:
                self._lost = error
            except GoQueueError:
                await trio.sleep(min(REST_SECONDS, interval))
            if self._lost or self._is_over or asked != (seat.newest, seat.assignment):
                seat.wake_poll()
            await trio.sleep_until(begun_at + interval)

    def _beat_wait(self, interval: float) -> float:
        """A stream that has not confirmed the newest generation would be answered at once, again and again."""
        return 0.0 if self._seat.generation != self._seat.newest else interval

    # One try

    async def _try(self) -> bool:
        """Whether there is something to answer with."""
        async with PlainNursery() as nursery:
            nursery.start_soon(self._stay_alive)
            with self._ended_by_change():
                await self._ask()
            nursery.cancel_scope.cancel()
        await self._taken.give_back_rest()
        if self._lost is not None and not self.has_messages:
            raise self._lost
        return self.has_messages

    @contextmanager
    def _ended_by_change(self) -> Iterator[None]:
        try:
            yield
        except GoingAway:
            if self._is_over or self._seat.session.is_sent_away:
                raise

    async def _ask(self) -> None:
        """Nothing may come at once, too: no partition can be asked, or the member has to settle something first."""
        partitions, until = self._partitions(), trio.current_time() + self._wait_ms() / 1_000
        if partitions and self._seat.mode == "stream":
            await self._fetch(partitions)
        elif partitions:
            await self._receive(partitions)
        left = min(until - trio.current_time(), REST_SECONDS)
        if not self.has_messages and self._lost is None and left > 0:
            await self._seat.wait_for_change(left)

    def _partitions(self) -> list[AssignedPartition]:
        now, assignment = trio.current_time(), self._seat.assignment
        places = {(each.uuid, each.partition) for each in assignment}
        self._resting = {place: until for place, until in self._resting.items() if until > now and place in places}
        return [each for each in assignment if (each.uuid, each.partition) not in self._resting]

    def _wait_ms(self) -> int:
        """Until the poll ends, or a partition that rests is asked again."""
        until = min([self._deadline, *self._resting.values()])
        return math.ceil(1_000 * max(0.0, until - trio.current_time()))

    def _note(self, partition: AssignedPartition, error: GoQueueError) -> None:
        if isinstance(error, Fenced):
            self._lost = error
            return
        self._resting[partition.uuid, partition.partition] = trio.current_time() + REST_SECONDS
        if not isinstance(error, OUTDATED):
            self.errors[partition.topic, partition.partition] = error

    def _note_good(self, partition: AssignedPartition) -> None:
        self._resting.pop((partition.uuid, partition.partition), None)
        self.errors.pop((partition.topic, partition.partition), None)

    # Queues

    async def _receive(self, partitions: list[AssignedPartition]) -> None:
        seat, wanted = self._seat, self._wanted
        count, size = seat.holding.room(trio.current_time(), wanted.count)
        asked = Receive(
            seat.group,
            seat.member,
            seat.generation,
            self._wait_ms(),
            count,
            min(size, wanted.size),
            math.ceil(1_000 * wanted.visibility_seconds),
            bool(seat.holding),
            tuple([ReceivePartition(each.uuid, each.partition) for each in partitions]),
            count,
            seat.instance,
        )
        answer = cast(Received, await seat.ask(asked, self._request_id))
        for partition, received in zip(partitions, answer.partitions, strict=True):
            if received.error is not None:
                self._note(partition, error_of(received.error))
                continue
            self._note_good(partition)
            if received.runs or received.sets:
                self._open(partition, received)

    def _open(self, partition: AssignedPartition, received: ReceivedPartition) -> None:
        origin = Origin(self._seat.group, partition.topic, partition.uuid, partition.partition, received.nonce)
        names = DeliveredNames(received.runs, received.sets)
        try:
            delivery = open_delivery(origin, names, received.data, owner=None)
        except CorruptMessage as error:
            self._note(partition, error)
        else:
            self._taken.add(delivery, received.data)

    # Streams

    async def _fetch(self, partitions: list[AssignedPartition]) -> None:
        seat = self._seat
        await self._begin(partitions)
        readable = [each for each in partitions if (each.uuid, each.partition) in seat.positions]
        if not readable:
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
            self._note_good(partition)
            self._take(partition, found.data, found.next_offset)

    def _take(self, partition: AssignedPartition, data: bytes, next_offset: int) -> None:
        place, messages = (partition.uuid, partition.partition), self._read
        positions, found = self._seat.positions, Slice(partition.topic, partition.partition, data)
        self._begun.setdefault(place, positions[place])
        for message in found.messages(positions[place], None, self._now):
            size = size_of(message)
            if messages and (len(messages) >= self._wanted.count or size > self._wanted.size - self._read_size):
                return
            messages.append(message)
            self._read_size += size
            positions[place] = message.offset + 1
        positions[place] = max(positions[place], next_offset)

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

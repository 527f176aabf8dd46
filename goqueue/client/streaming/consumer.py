"""A consumer of a group in stream mode: each partition in the order of its offsets, and offsets that are committed.

Five tasks run beside the program: one stays a member and lets go of partitions (membership.py), one asks where to
go on with those that came, one fetches (fetching.py), one commits what is handled, each 5 seconds (commits.py), and
one says why nothing comes, when that takes long (client/consuming/explaining.py). What is fetched lies with its
partition (partition.py) until it is handed out, so a call may be cancelled at any time.

A message is handled once the program has asked for more behind it. So it is one flow that reads: when several tasks
share a consumer, the next one that asks says that all before is handled.
"""

import inspect
import logging
from collections.abc import Sequence
from contextlib import suppress

import trio

from goqueue.client.consuming.consumer import (
    GRACE_SECONDS,
    ITERATION_AHEAD,
    Consumer,
    ConsumerState,
    check_receive,
)
from goqueue.client.consuming.delivery import OF_TRIO, DeliveredMessage, Kinds, LeasedMessage
from goqueue.client.consuming.explaining import Explaining, Paused
from goqueue.client.consuming.options import SKIP, ConsumerOptions, OnPartitions, Start
from goqueue.client.link.arguments import check_any_partition, refusal
from goqueue.client.link.caller import Caller
from goqueue.client.streaming.commits import STALE_SECONDS_MAX, Commits, Committing, first_error
from goqueue.client.streaming.fetching import PAUSE_SECONDS, Fetching
from goqueue.client.streaming.inflight import Elsewhere, InFlight
from goqueue.client.streaming.membership import StreamMembership
from goqueue.client.streaming.partition import Key, StreamOwner, StreamPartition, stream_of
from goqueue.client.streaming.seeking import chosen, offset_of
from goqueue.core.groups.ownership import LETTING_GO_SECONDS_MAX
from goqueue.core.waiting.idle import IdleTime
from goqueue.errors import Closed, GoQueueError, StaleGeneration, UnknownGroup
from goqueue.net.wire.groups import AssignedPartition
from goqueue.types import Seconds

logger = logging.getLogger("goqueue.client")

OUTDATED = (StaleGeneration, UnknownGroup)
"""A partition does not know yet what this member was told: that is under way, and no news for the program."""


class StreamConsumer(Consumer):
    def __init__(self, client: Caller, options: ConsumerOptions) -> None:
        super().__init__(client, options)
        self._streams: dict[Key, StreamPartition] = {}
        self._membership = StreamMembership(
            client, options, self._note_assignment, self._fail, on_join=self._doubt, let_go=self._let_go
        )
        self._commits = Commits(client, options.group, self._membership)
        self._fetching = Fetching(client, self._streams.values, options.max_in_flight_bytes, self._wake, self._fail)
        self._owner = self._owned_by(self, OF_TRIO)
        self._in_flight = InFlight(self._streams, self._look_again)
        self._committing = Committing(self._streams, self._commits, self._in_flight, self._note_doubt)
        self._loop_at: StreamPartition | None = None
        """Where `async for` took its last message."""
        self._news, self._assigned = trio.Event(), trio.Event()
        self._quiet = IdleTime()
        self._explaining = Explaining(client, options.group, self.member_id, self._quiet, paused=self._paused)
        self._failure: Exception | None = None
        self._calling = trio.Lock()
        """The program hears of one change at a time."""

    def serve_stream(self, owner: object, kinds: Kinds, elsewhere: Elsewhere) -> None:
        """For another surface: whose messages these are, of which classes, and where they lie."""
        self._owner = self._owned_by(owner, kinds)
        self._in_flight.elsewhere = elsewhere

    def _owned_by(self, owner: object, kinds: Kinds) -> StreamOwner:
        skips = self._options.misfits == SKIP
        member = self.member_id, self._membership.instance
        return StreamOwner(self._options.group, *member, owner, kinds, self._codec, skips)

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._membership.run)
                nursery.start_soon(self._begin_partitions)
                nursery.start_soon(self._fetching.run, self._owner)
                nursery.start_soon(self._explaining.run)
                nursery.start_soon(self._explaining.tell_left_out, self._membership)
                if self._options.auto_commit:
                    nursery.start_soon(self._committing.run)

    async def _leave(self) -> None:
        """What cannot be committed comes again, so it is not tried for long."""
        was_open, self._state = self._state is ConsumerState.OPEN, ConsumerState.CLOSED
        self._scope.cancel()
        self._wake()
        with self._leaving():
            if was_open:
                await self._committing.finish(self._streams.values(), by_itself=self._options.auto_commit)
            with suppress(GoQueueError):
                await self._membership.leave()

    # Receiving

    async def receive(
        self, max_messages: int = 500, timeout: Seconds = 30, *, visibility_timeout: Seconds | None = None
    ) -> list[DeliveredMessage]:
        """What is there, at least one message; [] after `timeout` seconds. All before is handled.

        Cancelling it loses nothing.
        """
        self._check_open()
        seconds, _ = check_receive(max_messages, timeout, None)
        if visibility_timeout is not None:
            raise refusal('visibility_timeout is for mode "queue": in mode "stream" there are no leases')
        self._in_flight.end_work()
        if messages := self._take(max_messages, is_work=True):
            self._note_arrival()
            return messages
        is_behind = any(stream.is_behind and not stream.is_paused for stream in self._streams.values())
        with trio.move_on_after(max(seconds, GRACE_SECONDS if is_behind else 0)):
            return await self._next(max_messages)
        return []

    async def __anext__(self) -> DeliveredMessage:
        message = self._next_of_the_same()
        return message if message is not None else await self._next_of_any()

    def _next_of_the_same(self) -> DeliveredMessage | None:
        """The next message of the loop's partition, while nothing else has to be looked at."""
        is_plain = self._in_flight.is_nobody_waiting and self._failure is None and self._membership.fenced is None
        if self._loop_at is None or not is_plain or self._state is not ConsumerState.OPEN:
            return None
        return self._loop_at.take_next()

    async def _next_of_any(self) -> DeliveredMessage:
        self._check_open()
        self._in_flight.end_work()
        [message] = await self._next(1)
        self._loop_at = stream_of(message)
        return message

    async def next_batch(self) -> list[DeliveredMessage]:
        """What an iteration would hand out one by one, for a surface that does so itself."""
        self._check_open()
        self._in_flight.end_work()
        return await self._next(ITERATION_AHEAD, is_work=False)

    async def _next(self, count_max: int, *, is_work: bool = True) -> list[DeliveredMessage]:
        while not (messages := self._take(count_max, is_work)):
            self._quiet.begin_wait(trio.current_time())
            try:
                await self._news.wait()
            finally:
                self._quiet.end_wait(trio.current_time())
            self._check_open()
        self._note_arrival()
        return messages

    def _note_arrival(self) -> None:
        if self._quiet.has_begun:
            self._quiet.arrived(trio.current_time())

    def _take(self, count_max: int, is_work: bool) -> list[DeliveredMessage]:
        """Messages of as many partitions as are needed. A partition that gave some goes behind the others."""
        self._loop_at = None  # what others are given meanwhile is handled when the loop asks for more
        self._raise_failure()
        taken: list[DeliveredMessage] = []
        for stream in [each for each in self._streams.values() if each.is_read]:
            some = stream.take(count_max - len(taken))
            if some and is_work:
                stream.begin_work(some[0].offset)
            if some:
                self._streams[stream.key] = self._streams.pop(stream.key)
            taken += some
            if len(taken) == count_max:
                break
        self._fetching.note_taken()
        return taken

    def _raise_failure(self) -> None:
        """What ended the reading of a partition ends all, until somebody seeks, pauses it or resets the group."""
        if self._membership.fenced is not None:
            raise self._membership.fenced
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        for stream in self._streams.values():
            if stream.is_read and stream.is_at_trouble and stream.trouble is not None:
                raise stream.trouble

    def take_back(self, messages: Sequence[LeasedMessage]) -> None:
        """They reached nobody, and wait for the next call."""
        self._in_flight.take_back(messages)

    @property
    def extends_at_work(self) -> bool:
        return False

    # Committing

    async def commit(self, message: LeasedMessage | None = None) -> None:
        """All that was handed out so far is done, or up to this message of its partition. `StaleGeneration` when
        a partition has gone to another member: the messages come again there, and the others are committed."""
        self._check_open()
        if self._membership.fenced is not None:
            raise self._membership.fenced  # no partition will ever take it: it is not tried for long
        await self._committing.commit(message)

    # Partitions that come and go

    def _note_assignment(self) -> None:
        for assigned in self._membership.assignment:
            key = (assigned.topic, assigned.partition)
            if key not in self._streams or self._streams[key].assigned != assigned:
                self._streams[key] = StreamPartition(assigned)
            self._streams[key].stay()
        self._assigned.set()
        self._look_again()

    def _doubt(self) -> None:
        """Others may have had the partitions meanwhile: where to go on is asked again."""
        for stream in self._streams.values():
            stream.is_known = False
        self._assigned.set()

    def _note_doubt(self) -> None:
        self._assigned.set()

    async def _begin_partitions(self) -> None:
        while True:
            self._assigned = trio.Event()
            await self._tell_assigned()
            unknown = [stream for stream in self._streams.values() if not stream.is_known]
            error = await self._learn(unknown) if unknown else None
            if error is not None:
                self._fail(error)
            if any(stream in unknown and not stream.is_known for stream in self._streams.values()):
                await trio.sleep(PAUSE_SECONDS)
            elif all(stream.is_known for stream in self._streams.values()):
                await self._assigned.wait()

    async def _tell_assigned(self) -> None:
        async with self._calling:
            new = [stream for stream in self._streams.values() if not stream.is_open]
            await self._tell(self._options.on_assigned, new)
            for stream in new:
                stream.is_open = True

    async def _learn(self, streams: Sequence[StreamPartition]) -> GoQueueError | None:
        try:
            answers = await self._commits.ask(streams)
        except GoQueueError as error:
            return error
        errors = [each for each in answers if isinstance(each, GoQueueError) and not isinstance(each, OUTDATED)]
        for stream, answer in zip(streams, answers, strict=True):
            if not isinstance(answer, GoQueueError) and not stream.learn(answer.offset, answer.resets):
                self._in_flight.move(stream, answer.offset)
                logger.warning("%r was moved to offset %d by others; going on there", stream, answer.offset)
        self._look_again()
        return first_error(errors)

    async def _let_go(self, lost: Sequence[AssignedPartition]) -> None:
        """Nothing more is handed out; what was is finished, told, committed. Then it is another member's."""
        leaving = [stream for stream in self._streams.values() if stream.assigned in lost]
        for stream in leaving:
            stream.is_leaving = True
        self._in_flight.withdraw(leaving)
        self._fetching.look_again()
        await self._in_flight.until_handled(leaving)
        async with self._calling:
            untold = [stream for stream in leaving if stream.is_open and not stream.is_revoked]
            await self._tell(self._options.on_revoked, untold)
            for stream in untold:
                stream.is_revoked = True
        with trio.move_on_after(LETTING_GO_SECONDS_MAX):
            is_auto = self._options.auto_commit
            await self._committing.finish(leaving, by_itself=is_auto, patience=STALE_SECONDS_MAX)
        for stream in leaving:
            self._streams.pop(stream.key, None)
        self._committing.note_released(leaving)

    async def _tell(self, callback: OnPartitions | None, streams: Sequence[StreamPartition]) -> None:
        """An error of the program's own reaches it where it receives."""
        if callback is None or not streams:
            return
        try:
            answer = callback(sorted(stream.key for stream in streams))
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:
            self._failure = error
            self._wake()

    def _fail(self, error: GoQueueError) -> None:
        """Whoever waits hears of it."""
        if self._quiet.is_waiting:
            self._failure = error
            self._wake()

    def _look_again(self) -> None:
        """Something else may be fetched now, and what was fetched may be handed out to whoever waits."""
        self._fetching.look_again()
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    # Places

    async def seek(self, partition: int, to: Start, *, topic: str | None = None) -> None:
        """Go on at an offset, `earliest`, `latest` or a time. The next commit says that the group stands there."""
        self._check_open()
        [stream] = self._chosen(check_any_partition(partition), topic)
        offset = await offset_of(self._client, stream.assigned, to)
        self._in_flight.move(stream, offset)
        self._look_again()

    async def pause(self, partition: int | None = None, *, topic: str | None = None) -> None:
        """Hand out nothing of this partition, or of all that it has now, until `resume`."""
        self._check_open()
        streams = self._chosen(partition, topic)
        for stream in streams:
            stream.is_paused = True
        self._in_flight.withdraw(streams)
        for stream in streams:
            stream.step_back()
        self._fetching.look_again()

    async def resume(self, partition: int | None = None, *, topic: str | None = None) -> None:
        """Hand out messages of this partition again, or of all that it has."""
        self._check_open()
        for stream in self._chosen(partition, topic):
            stream.is_paused = False
        self._look_again()

    def _paused(self) -> Paused:
        paused = sorted(repr(stream) for stream in self._streams.values() if stream.is_paused)
        return Paused(tuple(paused), len(self._streams))

    def _chosen(self, partition: int | None, topic: str | None) -> list[StreamPartition]:
        return chosen(self._streams, self._options.subscription, partition, topic)

    def _closed(self) -> Closed:
        return Closed("the consumer is closed; what it had not committed comes again")

"""A connection of a client: requests in, answers out, as the session allows.

Three things run side by side. The reader takes frames and puts each request where it belongs: batches go to
their partitions in the order in which they came, and a partition without room makes the reader wait, which in
the end makes the client wait. Each request waits for its own answer, so a long poll delays nobody. The writer
sends what the session has to say; when the client does not read, the reader stops reading, so memory stays
bounded.

Whatever a client sends, it harms only itself: an error goes to its request or ends its connection (G14).
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

import msgpack
import trio

from goqueue.actors.backup import SnapshotView, TakeSnapshot
from goqueue.actors.broker import Broker
from goqueue.actors.fetching import Question, await_the_first, fetch_what_is_there, leads_on
from goqueue.actors.partitionrequests import DeleteBefore, OffsetAtTime, Produce, Produced
from goqueue.actors.ref import ActorRef
from goqueue.actors.statistics import CountTopics
from goqueue.actors.topics import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    DescribeTopics,
    FindPartition,
    TopicView,
)
from goqueue.core.batch import Producer
from goqueue.errors import Closed, GoQueueError
from goqueue.net import messages as wire
from goqueue.net.errors import ConnectionLost, GoingAway, ProtocolError, TooManyRequests
from goqueue.net.events import HelloReceived, RequestReceived, SessionClosed
from goqueue.net.failures import error_body
from goqueue.net.parts import Room
from goqueue.net.serversession import ServerSession
from goqueue.net.session import State
from goqueue.net.transport import Transport, post_lone_frame
from goqueue.storage.logviews import LogSlice
from goqueue.types import Acks

BYTES_WAITING_MAX = 2 * 1024 * 1024
"""Of answers that the client has not taken; then nothing more is read from it."""
UNSETTLED_BYTES_MAX = 64 * 1024 * 1024
"""Of batches that are not answered yet; then nothing more is read from it either."""
FETCH_BYTES_MAX = 1024 * 1024
"""Of one answer, unless its first batch alone is larger."""
READS_MAX = 2
"""Fetches of one connection that read at once."""
QUESTIONS_MAX = 16_384
"""Partitions that the fetches of one connection ask at once; each may wait long, and waits in a task of its own."""
LEAVING_MAX = 16
"""Connections that end in one turn of the event loop: thousands that end at once hold up nobody."""
UNFINISHED_BYTES_MAX = 256 * 1024 * 1024
"""Of messages that come in parts and are not whole, of all connections together."""
HELLO_SECONDS_MAX = 10.0
LAST_WORDS_SECONDS_MAX = 1.0
ENDINGS = (ConnectionLost, ProtocolError, Closed)
PRODUCER_ID_BITS = 62
"""Of chance: two producers never get the same id."""


class Common:
    """What all connections of a broker share, so that many of them are no more of a burden than they may be."""

    def __init__(self) -> None:
        self.leaving = trio.CapacityLimiter(LEAVING_MAX)
        self.room = Room(UNFINISHED_BYTES_MAX)


class Connection:
    def __init__(self, broker: Broker, transport: Transport, common: Common | None = None) -> None:
        self._common = common or Common()
        self._broker = broker
        self._statistics = broker.statistics
        self._transport = transport
        self._session = ServerSession(broker.cluster, broker.node, room=self._common.room)
        self._partitions: dict[tuple[bytes, int], ActorRef] = {}
        self._something_to_send = trio.Event()
        self._waiting_for_sent = trio.lowlevel.ParkingLot()
        self._polls: dict[trio.CancelScope, None] = {}
        self._reads = trio.CapacityLimiter(READS_MAX)
        self._questions = 0
        self._unsettled_bytes = 0
        self._waiting_for_settled = trio.lowlevel.ParkingLot()
        self._is_sending = False
        self._has_ended = False

    async def run(self) -> None:
        """Until either end closes. Never raises for what the other end does."""
        self._statistics.accepted += 1
        self._statistics.connections += 1
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, nursery.cancel_scope)
                with suppress(*ENDINGS):
                    await self._read(nursery)
                async with self._common.leaving:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        finally:
            self._has_ended = True
            self._session.forget_parts()
            self._statistics.connections -= 1
            self._waiting_for_sent.unpark_all()
        with trio.move_on_after(LAST_WORDS_SECONDS_MAX), suppress(*ENDINGS):
            await self._flush()
        await self._transport.aclose()

    @property
    def bytes_waiting(self) -> int:
        """Of answers that the client has not taken."""
        return self._session.bytes_waiting

    async def go_away(self, reason: str) -> None:
        """Take no more requests; return when those under way are answered. Who waits for more is sent away."""
        if self._session.state is State.OPEN:
            self._session.go_away(reason)
            self._something_to_send.set()
            for poll in list(self._polls):
                poll.cancel()
            while not (self._has_ended or (self._session.is_drained and not self._is_sending)):
                await self._waiting_for_sent.park()

    # Frames

    async def _read(self, nursery: trio.Nursery) -> None:
        with trio.CancelScope(deadline=trio.current_time() + HELLO_SECONDS_MAX) as patience:
            while (frame := await self._transport.receive()) is not None:
                event = self._session.receive(frame)
                if isinstance(event, HelloReceived):
                    self._session.welcome()
                    patience.deadline = math.inf
                elif isinstance(event, RequestReceived):
                    await self._take(event.correlation, event.request, nursery)
                elif isinstance(event, SessionClosed):
                    return
                if self._session.bytes_waiting:
                    self._something_to_send.set()
                    await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        while self._session.bytes_waiting > BYTES_WAITING_MAX:
            await self._waiting_for_sent.park()

    async def _write(self, connection: trio.CancelScope) -> None:
        with suppress(*ENDINGS):
            while True:
                await self._something_to_send.wait()
                self._something_to_send = trio.Event()
                await self._flush()
        connection.cancel()

    async def _flush(self) -> None:
        await self._transport.drain()
        while (frame := self._session.next_frame()) is not None:
            self._is_sending = True
            await self._transport.send(frame)
            self._is_sending = False
            self._waiting_for_sent.unpark_all()

    # Requests

    async def _take(self, correlation: int, request: wire.Request, nursery: trio.Nursery) -> None:
        """Batches go to their partitions here, in the order of the frames; everything else may take its time."""
        self._statistics.requests += 1
        if isinstance(request, wire.Produce):
            size = sum(len(batch.body) for batch in request.batches)
            await self._wait_for_settled(size)
            answer = _Answer(correlation, len(request.batches), partial(self._answer_produce, size))
            for number, batch in enumerate(request.batches):
                await self._post(batch, Acks(request.acks), answer, number)
        elif isinstance(request, wire.Fetch):
            nursery.start_soon(self._serve_fetch, correlation, request)
        else:
            nursery.start_soon(self._serve, correlation, request)

    async def _post(self, batch: wire.ProduceBatch, acks: Acks, answer: "_Answer", number: int) -> None:
        try:
            ref = await self._partition(batch.topic, batch.partition)
            producer = Producer(batch.producer_id, batch.producer_epoch, batch.base_sequence)
            reply = await ref.ask(Produce(batch.body, batch.record_count, batch.attributes, producer, acks))
        except GoQueueError as error:
            self._statistics.note_outcome(error)
            answer.settle(number, wire.ProducedBatch(None, 0, error_body(error)))
            return
        if acks is Acks.NONE:
            answer.settle(number, wire.ProducedBatch(None, 0))
            reply.then(lambda settled: self._statistics.note_outcome(settled.outcome))
        else:
            reply.then(lambda settled: answer.settle(number, self._produced(settled.outcome)))

    def _produced(self, outcome: Produced | BaseException) -> wire.ProducedBatch:
        self._statistics.note_outcome(outcome)
        return _produced(outcome)

    async def _wait_for_settled(self, more: int) -> None:
        while self._unsettled_bytes and self._unsettled_bytes + more > UNSETTLED_BYTES_MAX:
            await self._waiting_for_settled.park()
        self._unsettled_bytes += more

    def _answer_produce(self, size: int, correlation: int, answer: wire.Produced) -> None:
        self._unsettled_bytes -= size
        self._waiting_for_settled.unpark_all()
        is_lone = not self._session.bytes_waiting and not self._unsettled_bytes
        self._session.answer(correlation, answer)
        if is_lone and post_lone_frame(self._session, self._transport):
            self._waiting_for_sent.unpark_all()
        else:
            self._something_to_send.set()

    async def _serve(self, correlation: int, request: wire.Request) -> None:
        try:
            answer = await _ANSWERED[type(request)](self, request)
        except GoQueueError as error:
            self._session.refuse(correlation, error)
        else:
            self._session.answer(correlation, answer)
        self._something_to_send.set()

    async def _partition(self, topic: bytes, number: int) -> ActorRef:
        ref = self._partitions.get((topic, number))
        if ref is None or ref.is_down:
            ref = await self._broker.topics.call(FindPartition(UUID(bytes=topic), number))
            self._partitions[topic, number] = ref
        return ref

    async def _create_topic(self, request: wire.CreateTopic) -> wire.Topics:
        token = UUID(bytes=request.token) if request.token is not None else None
        return _topics(
            await self._broker.topics.call(CreateTopic(request.name, request.partitions, request.config, token))
        )

    async def _alter_topic(self, request: wire.AlterTopic) -> wire.Topics:
        return _topics(await self._broker.topics.call(AlterTopic(request.name, request.config)))

    async def _add_partitions(self, request: wire.AddPartitions) -> wire.Topics:
        return _topics(await self._broker.topics.call(AddPartitions(request.name, request.partitions)))

    async def _describe_topics(self, request: wire.DescribeTopics) -> wire.Topics:
        return _topics(*await self._broker.topics.call(DescribeTopics(request.names)))

    async def _delete_topic(self, request: wire.DeleteTopic) -> wire.Done:
        uuid = UUID(bytes=request.uuid) if request.uuid is not None else None
        await self._broker.topics.call(DeleteTopic(request.name, uuid))
        return wire.Done()

    async def _purge(self, request: wire.Purge) -> wire.Done:
        [topic] = await self._broker.topics.call(DescribeTopics((request.name,)))
        for view in topic.partitions:
            ref = await self._partition(topic.uuid.bytes, view.partition)
            await ref.call(DeleteBefore(None))
        return wire.Done()

    async def _delete_before(self, request: wire.DeleteBefore) -> wire.Done:
        [topic] = await self._broker.topics.call(DescribeTopics((request.name,)))
        ref = await self._partition(topic.uuid.bytes, request.partition)
        await ref.call(DeleteBefore(request.offset))
        return wire.Done()

    async def _init_producer(self, request: wire.InitProducer) -> wire.ProducerReady:
        if request.producer_id:
            return wire.ProducerReady(request.producer_id, request.epoch + 1)
        return wire.ProducerReady(self._broker.environment.random.getrandbits(PRODUCER_ID_BITS) + 1, 0)

    async def _serve_fetch(self, correlation: int, request: wire.Fetch) -> None:
        count = len(request.partitions)
        self._questions += count
        try:
            with trio.CancelScope() as poll:
                self._polls[poll] = None
                self._check_questions()
                await self._poll(correlation, request)
            if poll.cancelled_caught:
                raise GoingAway("this broker is going away; ask again on a new connection")
        except GoQueueError as error:
            self._session.refuse(correlation, error)
        finally:
            self._polls.pop(poll, None)
            self._questions -= count
        self._something_to_send.set()

    def _check_questions(self) -> None:
        if self._questions > QUESTIONS_MAX:
            raise TooManyRequests(f"fetches ask {self._questions} partitions at once; ask {QUESTIONS_MAX} at most")

    async def _poll(self, correlation: int, request: wire.Fetch) -> None:
        deadline = trio.current_time() + request.max_wait_ms / 1_000
        questions = [
            Question(await self._partition(each.topic, each.partition), each.offset) for each in request.partitions
        ]
        while not await self._answer_fetch(correlation, questions, request.bytes_max, deadline):
            await await_the_first(questions, deadline)

    async def _answer_fetch(
        self, correlation: int, questions: Sequence[Question], bytes_max: int, deadline: float
    ) -> bool:
        """Read and answer, if there is something. Few read at once, and only when the client takes its answers:
        however many fetches are asked, those that are served hold a bounded number of bytes."""
        async with self._reads:
            await self._wait_for_room()
            answers = await fetch_what_is_there(questions, min(bytes_max, FETCH_BYTES_MAX))
            if any(map(leads_on, questions, answers)) or trio.current_time() >= deadline:
                self._statistics.note_fetched([each.offset for each in questions], answers)
                self._session.answer(correlation, wire.Fetched(tuple(map(_fetched, answers))))
                return True
            return False

    async def _offset_at_time(self, request: wire.OffsetAtTime) -> wire.OffsetFound:
        ref = await self._partition(request.topic, request.partition)
        return wire.OffsetFound(await ref.call(OffsetAtTime(request.timestamp)))

    async def _take_snapshot(self, _: wire.TakeSnapshot) -> wire.Snapshot:
        return _snapshot(await self._broker.topics.call(TakeSnapshot()), self._broker)

    async def _stats(self, _: wire.Stats) -> wire.StatsReport:
        return wire.StatsReport(self._statistics.report(await self._broker.topics.call(CountTopics())))


class _Answer:
    """The answer to a produce request, put together as its batches are settled."""

    __slots__ = ("_batches", "_correlation", "_remaining", "_send")

    def __init__(self, correlation: int, count: int, send: Callable[[int, wire.Produced], None]) -> None:
        self._correlation = correlation
        self._batches: list[wire.ProducedBatch] = [_UNKNOWN] * count
        self._remaining = count
        self._send = send
        if not count:
            send(correlation, wire.Produced(()))

    def settle(self, number: int, produced: wire.ProducedBatch) -> None:
        self._batches[number] = produced
        self._remaining -= 1
        if not self._remaining:
            self._send(self._correlation, wire.Produced(tuple(self._batches)))


_UNKNOWN = wire.ProducedBatch(None, 0)


def _produced(outcome: Produced | BaseException) -> wire.ProducedBatch:
    if isinstance(outcome, Produced):
        return wire.ProducedBatch(outcome.base_offset, outcome.append_time)
    assert isinstance(outcome, GoQueueError), "an actor refuses with typed errors, and its death is one"
    return wire.ProducedBatch(None, 0, error_body(outcome))


_ANSWERED: dict[type[Any], Callable[[Connection, Any], Awaitable[Any]]] = {
    wire.CreateTopic: Connection._create_topic,
    wire.AlterTopic: Connection._alter_topic,
    wire.AddPartitions: Connection._add_partitions,
    wire.DescribeTopics: Connection._describe_topics,
    wire.DeleteTopic: Connection._delete_topic,
    wire.Purge: Connection._purge,
    wire.DeleteBefore: Connection._delete_before,
    wire.InitProducer: Connection._init_producer,
    wire.OffsetAtTime: Connection._offset_at_time,
    wire.Stats: Connection._stats,
    wire.TakeSnapshot: Connection._take_snapshot,
}


def _topics(*views: TopicView) -> wire.Topics:
    return wire.Topics(tuple(map(_described, views)))


def _described(view: TopicView) -> wire.TopicDescription:
    partitions = tuple(
        wire.PartitionDescription(
            each.partition, each.leader_epoch, each.start, each.end, error_body(each.error) if each.error else None
        )
        for each in view.partitions
    )
    return wire.TopicDescription(view.name, view.uuid.bytes, view.config, partitions)


def _snapshot(view: SnapshotView, broker: Broker) -> wire.Snapshot:
    topics = tuple(
        wire.TopicPoint(
            topic.name,
            topic.uuid.bytes,
            tuple(
                wire.PartitionPoint(number, each.leader_epoch, each.start, each.end)
                for number, each in enumerate(topic.partitions)
            ),
        )
        for topic in view.topics
    )
    return wire.Snapshot(view.time, msgpack.packb(view.metadata), topics, broker.cluster, broker.node)


def _fetched(answer: LogSlice | GoQueueError) -> wire.FetchedPartition:
    if isinstance(answer, GoQueueError):
        return wire.FetchedPartition(error_body(answer), 0, 0, 0, 0, (), b"")
    mark = answer.high_watermark
    return wire.FetchedPartition(None, answer.log_start, mark, mark, answer.next_offset, (), bytes(answer.data))

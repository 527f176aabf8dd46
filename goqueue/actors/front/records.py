"""Produce and fetch requests, without groups.

A fetch asks all of its partitions for batches. If none has any, all are asked to report when they do, and the first
that does ends the wait of the others. A waiting fetch holds no bytes: it asks again once there is room for the
answer.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import trio

from goqueue.actors.delivery.requests import StreamReader
from goqueue.actors.front.ordered import OrderedRequest
from goqueue.actors.front.responders import Responder, Rest
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.partition.requests import AwaitMore, Fetch, OffsetAtTime, Produce, Produced
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.log.producerids import NUMBER_BITS
from goqueue.core.log.producers import check_id_from_client
from goqueue.core.records.batch import Producer
from goqueue.errors import GoQueueError
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import error_body
from goqueue.storage.log.views import LogSlice
from goqueue.types import Acks, Offset


@dataclass(frozen=True, slots=True)
class FetchQuestion:
    partition: ActorRef
    offset: Offset
    reader: StreamReader | None = None


async def fetch_what_is_there(questions: Sequence[FetchQuestion], bytes_max: int) -> list[LogSlice | GoQueueError]:
    """An answer or an error for each, in order. Later ones get the bytes that earlier ones leave."""
    answers: list[LogSlice | GoQueueError] = []
    room = bytes_max
    for question in questions:
        answer = await _fetch(question, max(0, room))
        if isinstance(answer, LogSlice) and answers and len(answer.data) > room:
            answer = replace(answer, data=b"", next_offset=question.offset)
        room -= len(answer.data) if isinstance(answer, LogSlice) else 0
        answers.append(answer)
    return answers


async def _fetch(question: FetchQuestion, bytes_max: int) -> LogSlice | GoQueueError:
    try:
        return await question.partition.call(Fetch(question.offset, bytes_max, question.reader))
    except GoQueueError as error:
        return error


def leads_on(question: FetchQuestion, answer: LogSlice | GoQueueError) -> bool:
    """Whether to answer: with batches, an error, or that nothing is left at this offset."""
    return isinstance(answer, GoQueueError) or answer.next_offset != question.offset


async def await_the_first(questions: Sequence[FetchQuestion], deadline: float) -> None:
    """Return when one of them has batches or an error, or at the deadline."""
    if len(questions) == 1:  # the common case, without a task
        await _await_more(questions[0], deadline)
        return

    async def wait(question: FetchQuestion, scope: trio.CancelScope) -> None:
        await _await_more(question, deadline)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        for question in questions:
            nursery.start_soon(wait, question, nursery.cancel_scope)


async def _await_more(question: FetchQuestion, deadline: float) -> None:
    with suppress(GoQueueError):  # the next fetch will say so
        await question.partition.call(AwaitMore(question.offset, deadline, question.reader))


FETCH_BYTES_MAX = 1024 * 1024
"""Limit of one answer, unless its first batch alone is larger."""

# Producing

_UNKNOWN = wire.ProducedBatch(None, 0)
_ACKS = tuple(Acks)


def begin_produce(
    session: BrokerSession, request: wire.Produce, responder: Responder, _: trio.Nursery
) -> Rest | None:
    return _ProduceRequest(session, request, responder).pass_on()


class _ProduceRequest(OrderedRequest[wire.ProduceBatch, wire.ProducedBatch]):
    kind = "produce"

    __slots__ = ("_acks", "_began")

    def __init__(self, session: BrokerSession, request: wire.Produce, responder: Responder) -> None:
        size = count = 0
        for batch in request.batches:
            size += len(batch.body)
            count += batch.record_count
        super().__init__(session, request.batches, session.batches, size, responder)
        self.count = count
        self._acks = _ACKS[request.acks]
        self._began = trio.current_time()

    def question(self, item: wire.ProduceBatch) -> Produce:
        check_id_from_client(item.producer_id)
        producer = Producer(item.producer_id, item.producer_epoch, item.base_sequence)
        return Produce(item.body, item.record_count, item.attributes, producer, self._acks)

    def asked(self, number: int, question: Produce, reply: Reply[Produced]) -> None:
        if question.acks is Acks.NONE:
            self.settle(number, _UNKNOWN)
            reply.then(self._count)
        else:
            reply.then(lambda settled: self.settle(number, self._produced(settled)))

    def _count(self, reply: Reply[Produced]) -> None:
        """Nobody waits for the outcome, and it is counted all the same."""
        self._produced(reply)

    def _produced(self, reply: Reply[Produced]) -> wire.ProducedBatch:
        """The outcome of a batch, which is counted."""
        statistics, outcome = self.session.statistics, reply.outcome
        if isinstance(outcome, Produced):
            statistics.repeats += not outcome.append_time
            statistics.publish_seconds[self._acks].add(trio.current_time() - self._began)
            return wire.ProducedBatch(outcome.base_offset, outcome.append_time)
        assert isinstance(outcome, GoQueueError), "an actor refuses with typed errors, and its death is one"
        statistics.note_refused(outcome, reply.target.name)
        return wire.ProducedBatch(None, 0, error_body(outcome))

    def refused(self, error: GoQueueError) -> wire.ProducedBatch:
        self.session.statistics.note_refused(error)
        return wire.ProducedBatch(None, 0, error_body(error))

    def whole(self, pieces: tuple[wire.ProducedBatch, ...]) -> wire.Produced:
        return wire.Produced(pieces)


async def init_producer(session: BrokerSession, request: wire.InitProducer) -> wire.ProducerReady:
    if request.producer_id:
        return wire.ProducerReady(request.producer_id, request.epoch + 1)
    environment = session.broker.environment
    number = environment.random.getrandbits(NUMBER_BITS)
    return wire.ProducerReady(session.broker.producers.next_id(environment.clock.now(), number), 0)


# Reading


async def fetch(session: BrokerSession, request: wire.Fetch) -> wire.Fetched:
    deadline, reader = trio.current_time() + request.max_wait_ms / 1_000, _reader(request)
    with session.polls.asking(len(request.partitions)):
        questions = [
            FetchQuestion(await session.partition(each.topic, each.partition), each.offset, reader)
            for each in request.partitions
        ]
        while (answer := await _fetched(session, questions, request.bytes_max, deadline)) is None:
            await await_the_first(questions, deadline)
        return answer


def _reader(request: wire.Fetch) -> StreamReader | None:
    if request.group is None or request.member is None:
        return None
    return StreamReader(request.group, request.member, request.instance)


async def _fetched(
    session: BrokerSession, questions: Sequence[FetchQuestion], bytes_max: int, deadline: float
) -> wire.Fetched | None:
    """The answer; None when there is nothing and there is time to wait. Few read at once, and only when the client
    takes its answers: however many fetches there are, their answers hold a bounded number of bytes."""
    async with session.polls.reads:
        await session.wait_for_room()
        began = trio.current_time()
        answers = await fetch_what_is_there(questions, min(bytes_max, FETCH_BYTES_MAX))
        if any(map(leads_on, questions, answers)) or trio.current_time() >= deadline:
            fetched = session.statistics.fetched
            fetched.note([each.partition for each in questions], [each.offset for each in questions], answers)
            if any(isinstance(answer, LogSlice) and answer.data for answer in answers):
                fetched.seconds.add(trio.current_time() - began)
            return wire.Fetched(tuple(map(_slice, answers)))
        return None


def _slice(answer: LogSlice | GoQueueError) -> wire.FetchedPartition:
    if isinstance(answer, GoQueueError):
        return wire.FetchedPartition(error_body(answer), 0, 0, 0, 0, (), b"")
    mark = answer.high_watermark
    return wire.FetchedPartition(None, answer.log_start, mark, mark, answer.next_offset, (), bytes(answer.data))


async def offset_at_time(session: BrokerSession, request: wire.OffsetAtTime) -> wire.OffsetFound:
    ref = await session.partition(request.topic, request.partition)
    return wire.OffsetFound(await ref.call(OffsetAtTime(request.timestamp)))


ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Any]] = {
    wire.InitProducer: init_producer,
    wire.Fetch: fetch,
    wire.OffsetAtTime: offset_at_time,
}

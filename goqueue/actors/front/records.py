"""Produce and fetch requests, without groups.

A fetch asks all of its partitions for batches. If none has any, all are asked to report when they do, and the first
that does ends the wait of the others. A waiting fetch holds no bytes: it asks again once there is room for the
answer.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import trio

from goqueue.actors.delivery.requests import StreamReader
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.partition.requests import AwaitMore, Fetch, OffsetAtTime, Produce, Produced
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.statistics import Statistics
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

PieceT = TypeVar("PieceT")


class AnswerGathering(Generic[PieceT]):
    """An answer with a part for each item of the request, put together as they come."""

    __slots__ = ("_finish", "_pieces", "_remaining")

    def __init__(self, count: int, unknown: PieceT, finish: Callable[[tuple[PieceT, ...]], None]) -> None:
        self._pieces = [unknown] * count
        self._remaining = count
        self._finish = finish
        if not count:
            finish(())

    def settle(self, number: int, piece: PieceT) -> None:
        self._pieces[number] = piece
        self._remaining -= 1
        if not self._remaining:
            self._finish(tuple(self._pieces))


# Producing

_UNKNOWN = wire.ProducedBatch(None, 0)


async def take_produce(session: BrokerSession, correlation: int, request: wire.Produce) -> None:
    """Pass the batches to their partitions, in order; a partition without room makes the reader wait."""
    size = sum(len(batch.body) for batch in request.batches)
    await session.batches.add(size)
    gathering = AnswerGathering(len(request.batches), _UNKNOWN, partial(_answer, session, correlation, size))
    for number, batch in enumerate(request.batches):
        await _post(session, batch, Acks(request.acks), gathering, number)


def _answer(session: BrokerSession, correlation: int, size: int, batches: tuple[wire.ProducedBatch, ...]) -> None:
    session.batches.remove(size)
    session.speaker.answer_now(correlation, wire.Produced(batches), is_last=not session.batches.amount)


async def _post(
    session: BrokerSession,
    batch: wire.ProduceBatch,
    acks: Acks,
    gathering: AnswerGathering[wire.ProducedBatch],
    number: int,
) -> None:
    statistics = session.statistics
    try:
        ref = await session.partition(batch.topic, batch.partition)
        check_id_from_client(batch.producer_id)
        producer = Producer(batch.producer_id, batch.producer_epoch, batch.base_sequence)
        reply = await ref.ask(Produce(batch.body, batch.record_count, batch.attributes, producer, acks))
    except GoQueueError as error:
        statistics.note_refused(error)
        gathering.settle(number, wire.ProducedBatch(None, 0, error_body(error)))
        return
    if acks is Acks.NONE:
        gathering.settle(number, _UNKNOWN)
        reply.then(lambda settled: _note_outcome(statistics, ref.name, settled.outcome))
    else:
        reply.then(lambda settled: gathering.settle(number, _produced(statistics, ref.name, settled.outcome)))


def _note_outcome(statistics: Statistics, partition: str, outcome: Produced | BaseException) -> None:
    if isinstance(outcome, Produced):
        statistics.repeats += not outcome.append_time
    elif isinstance(outcome, GoQueueError):
        statistics.note_refused(outcome, partition)


def _produced(statistics: Statistics, partition: str, outcome: Produced | BaseException) -> wire.ProducedBatch:
    _note_outcome(statistics, partition, outcome)
    if isinstance(outcome, Produced):
        return wire.ProducedBatch(outcome.base_offset, outcome.append_time)
    assert isinstance(outcome, GoQueueError), "an actor refuses with typed errors, and its death is one"
    return wire.ProducedBatch(None, 0, error_body(outcome))


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
        await session.speaker.wait_for_room()
        answers = await fetch_what_is_there(questions, min(bytes_max, FETCH_BYTES_MAX))
        if any(map(leads_on, questions, answers)) or trio.current_time() >= deadline:
            session.statistics.note_fetched([each.offset for each in questions], answers)
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

"""One fetch from many partitions: answered as soon as one of them has something.

All are asked for what is there. Only if nobody has anything, all are asked to say when they do, and the first that
does ends the waiting of the others. Waiting holds no bytes: whoever waits asks again, when there is room for the
answer.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import trio

from goqueue.actors.partition.requests import AwaitMore, Fetch, StreamReader
from goqueue.actors.runtime.ref import ActorRef
from goqueue.errors import GoQueueError
from goqueue.storage.log.views import LogSlice
from goqueue.types import Offset


@dataclass(frozen=True, slots=True)
class Question:
    partition: ActorRef
    offset: Offset
    reader: StreamReader | None = None


async def fetch_what_is_there(questions: Sequence[Question], bytes_max: int) -> list[LogSlice | GoQueueError]:
    """An answer or an error for each, in order. Those of the later ones get what the earlier leave of the bytes."""
    answers: list[LogSlice | GoQueueError] = []
    room = bytes_max
    for question in questions:
        answer = await _fetch(question, max(0, room))
        if isinstance(answer, LogSlice) and answers and len(answer.data) > room:
            answer = replace(answer, data=b"", next_offset=question.offset)
        room -= len(answer.data) if isinstance(answer, LogSlice) else 0
        answers.append(answer)
    return answers


async def _fetch(question: Question, bytes_max: int) -> LogSlice | GoQueueError:
    try:
        return await question.partition.call(Fetch(question.offset, bytes_max, question.reader))
    except GoQueueError as error:
        return error


def leads_on(question: Question, answer: LogSlice | GoQueueError) -> bool:
    """Whether there is something to tell: batches, an error, or that nothing is left at this offset."""
    return isinstance(answer, GoQueueError) or answer.next_offset != question.offset


async def await_the_first(questions: Sequence[Question], deadline: float) -> None:
    """Return when one of them has something, or an error to tell, or at the deadline."""
    if len(questions) == 1:  # most often; and without a task
        await _await_more(questions[0], deadline)
        return

    async def wait(question: Question, scope: trio.CancelScope) -> None:
        await _await_more(question, deadline)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        for question in questions:
            nursery.start_soon(wait, question, nursery.cancel_scope)


async def _await_more(question: Question, deadline: float) -> None:
    with suppress(GoQueueError):  # the next fetch will say so
        await question.partition.call(AwaitMore(question.offset, deadline, question.reader))

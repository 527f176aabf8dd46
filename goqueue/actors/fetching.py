"""One fetch from many partitions: answered as soon as one of them has something.

Everybody is asked at once for what is there. Only if nobody has anything, all are asked to wait, and the first
that has something ends the waiting of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import trio

from goqueue.actors.partition import Fetch
from goqueue.actors.ref import ActorRef
from goqueue.errors import GoQueueError
from goqueue.storage.logviews import LogSlice


@dataclass(frozen=True, slots=True)
class Question:
    partition: ActorRef
    fetch: Fetch


async def fetch_partitions(questions: Sequence[Question]) -> list[LogSlice | GoQueueError]:
    """An answer or an error for each, in order. Those of the later ones get what the earlier leave of the bytes."""
    if len(questions) == 1:
        return [await _fetch(questions[0].partition, questions[0].fetch)]
    answers = await _fetch_what_is_there(questions)
    if any(isinstance(answer, GoQueueError) or answer.data for answer in answers):
        return answers
    return await _wait_for_the_first(questions, answers)


async def _fetch(partition: ActorRef, fetch: Fetch) -> LogSlice | GoQueueError:
    try:
        return await partition.call(fetch)
    except GoQueueError as error:
        return error


async def _fetch_what_is_there(questions: Sequence[Question]) -> list[LogSlice | GoQueueError]:
    answers: list[LogSlice | GoQueueError] = []
    room = questions[0].fetch.bytes_max if questions else 0
    for question in questions:
        answer = await _fetch(question.partition, replace(question.fetch, deadline=0.0, bytes_max=max(0, room)))
        if isinstance(answer, LogSlice) and answers and len(answer.data) > room:
            answer = replace(answer, data=b"", next_offset=question.fetch.offset)
        room -= len(answer.data) if isinstance(answer, LogSlice) else 0
        answers.append(answer)
    return answers


async def _wait_for_the_first(
    questions: Sequence[Question], answers: list[LogSlice | GoQueueError]
) -> list[LogSlice | GoQueueError]:
    async def wait(number: int, question: Question, scope: trio.CancelScope) -> None:
        answers[number] = await _fetch(question.partition, question.fetch)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        for number, question in enumerate(questions):
            nursery.start_soon(wait, number, question, nursery.cancel_scope)
    return answers

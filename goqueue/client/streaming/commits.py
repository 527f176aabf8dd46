"""What a stream's consumer says to its group's partitions, and asks them: how far it is, and where to go on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import trio

from goqueue.client.consuming.membership import Membership
from goqueue.client.streaming.partition import StreamPartition
from goqueue.errors import GoQueueError
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.groups import ReceivePartition
from goqueue.net.wire.kinds import Request
from goqueue.net.wire.streammessages import (
    AskOffsets,
    CommitOffsets,
    CommitPartition,
    GroupOffset,
    GroupOffsets,
    OffsetsCommitted,
)
from goqueue.types import Offset

AnswerT = TypeVar("AnswerT")


class Caller(Protocol):
    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT: ...


class Commits:
    def __init__(self, client: Caller, group: str, membership: Membership) -> None:
        self._client = client
        self._group = group
        self._membership = membership
        self._turn = trio.Lock()
        """One commit at a time, so that a repeat never undoes a newer one."""

    async def commit(
        self, wanted: Callable[[], Mapping[StreamPartition, Offset]]
    ) -> dict[StreamPartition, GoQueueError]:
        """Those that were refused. What is wanted is looked up in turn; what stands there already is not asked."""
        async with self._turn:
            news = {stream: offset for stream, offset in wanted().items() if stream.committed != offset}
            return await self._commit(news) if news else {}

    async def _commit(self, news: Mapping[StreamPartition, Offset]) -> dict[StreamPartition, GoQueueError]:
        for stream, offset in news.items():
            stream.sent = offset
        asked = tuple(CommitPartition(*stream.assigned[1:], offset) for stream, offset in news.items())
        who = self._membership
        request = CommitOffsets(self._group, who.member, who.generation, asked, who.instance)
        answer = await self._client.call(request, OffsetsCommitted)
        refused: dict[StreamPartition, GoQueueError] = {}
        for (stream, offset), outcome in zip(news.items(), answer.partitions, strict=True):
            if outcome.error is None:
                stream.committed = offset
            else:
                refused[stream] = error_of(outcome.error)
        return refused

    async def ask(self, streams: Sequence[StreamPartition]) -> list[GroupOffset | GoQueueError]:
        """Where the group goes on with each of them."""
        async with self._turn:
            asked = tuple(ReceivePartition(*stream.assigned[1:]) for stream in streams)
            answer = await self._client.call(AskOffsets(self._group, asked), GroupOffsets)
        return [each if each.error is None else error_of(each.error) for each in answer.partitions]


def first_error(refused: Iterable[GoQueueError]) -> GoQueueError | None:
    return next(iter(refused), None)

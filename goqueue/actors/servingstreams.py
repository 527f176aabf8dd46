"""Streams: how members say how far they have come, and hear where their group goes on."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from goqueue.actors.bounded import with_each
from goqueue.actors.desk import Desk
from goqueue.actors.grouprequests import (
    CommitFromOutside,
    CommitOffset,
    CommittedOffset,
    FindGroup,
    OutsideCommit,
)
from goqueue.core.groupmember import check_member_id
from goqueue.core.names import check_group_name
from goqueue.errors import GoQueueError
from goqueue.net import streammessages as wire
from goqueue.net.failures import error_body


async def commit_offsets(desk: Desk, request: wire.CommitOffsets) -> wire.OffsetsCommitted:
    """A member speaks to its partitions, which know their owner; a reader from outside to the group."""
    check_group_name(request.group)
    if request.member is None:
        return _outcomes(await _commit_from_outside(desk, request))
    check_member_id(request.member)
    outcomes: list[GoQueueError | None] = [None] * len(request.partitions)

    async def commit(number: int) -> None:
        asked = request.partitions[number]
        try:
            ref = await desk.partition(asked.topic, asked.partition)
            await ref.call(
                CommitOffset(request.group, request.member, request.generation, asked.offset, request.instance)
            )
        except GoQueueError as error:
            outcomes[number] = error

    await with_each(commit, list(range(len(request.partitions))))
    return _outcomes(outcomes)


async def _commit_from_outside(desk: Desk, request: wire.CommitOffsets) -> Sequence[GoQueueError | None]:
    commits = tuple(
        OutsideCommit(UUID(bytes=each.topic), each.partition, each.offset) for each in request.partitions
    )
    group = await desk.broker.groups.call(FindGroup(request.group, create=True))
    return await group.call(CommitFromOutside(commits))


def _outcomes(outcomes: Sequence[GoQueueError | None]) -> wire.OffsetsCommitted:
    return wire.OffsetsCommitted(
        tuple(wire.CommittedPartition(None if error is None else error_body(error)) for error in outcomes)
    )


async def ask_offsets(desk: Desk, request: wire.AskOffsets) -> wire.GroupOffsets:
    check_group_name(request.group)
    found: list[wire.GroupOffset] = [wire.GroupOffset(None, 0)] * len(request.partitions)

    async def ask(number: int) -> None:
        asked = request.partitions[number]
        try:
            ref = await desk.partition(asked.topic, asked.partition)
            found[number] = wire.GroupOffset(None, *await ref.call(CommittedOffset(request.group)))
        except GoQueueError as error:
            found[number] = wire.GroupOffset(error_body(error), 0)

    await with_each(ask, list(range(len(request.partitions))))
    return wire.GroupOffsets(tuple(found))


ANSWERED: dict[type[Any], Callable[[Desk, Any], Any]] = {
    wire.CommitOffsets: commit_offsets,
    wire.AskOffsets: ask_offsets,
}

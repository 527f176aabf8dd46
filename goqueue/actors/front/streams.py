"""Streams: commits of members, and committed offsets of their group."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from goqueue.actors.delivery.requests import CommitOffset, CommittedOffset
from goqueue.actors.front.records import AnswerGathering
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.groups.requests import CommitFromOutside, FindGroup, OutsideCommit
from goqueue.actors.runtime.concurrently import with_each
from goqueue.core.groups.member import check_member_id
from goqueue.core.names import check_group_name
from goqueue.errors import GoQueueError
from goqueue.net.wire import groups as wire
from goqueue.net.wire.failures import error_body

_DONE = wire.CommittedPartition(None)


async def take_commit(session: BrokerSession, correlation: int, request: wire.CommitOffsets) -> None:
    """A member's commits reach each partition in the order of the frames: an older one never overtakes a newer one,
    nor does the heartbeat or the farewell by which the member releases the partition."""
    assert request.member is not None, "those outside of the group speak to the group"
    try:
        check_group_name(request.group)
        check_member_id(request.member)
    except GoQueueError as error:
        session.speaker.refuse(correlation, error)
        return
    size = len(request.partitions)
    await session.settles.add(size)
    gathering = AnswerGathering(size, _DONE, partial(_answer, session, correlation, size))
    for number, asked in enumerate(request.partitions):
        who = (request.group, request.member, request.generation)
        commit = CommitOffset(*who, asked.offset, request.instance)
        await _post(session, asked, commit, partial(gathering.settle, number))


def _answer(
    session: BrokerSession, correlation: int, size: int, partitions: tuple[wire.CommittedPartition, ...]
) -> None:
    session.settles.remove(size)
    session.speaker.answer_now(correlation, wire.OffsetsCommitted(partitions), is_last=not session.settles.amount)


async def _post(
    session: BrokerSession,
    asked: wire.CommitPartition,
    commit: CommitOffset,
    settle: Callable[[wire.CommittedPartition], None],
) -> None:
    try:
        ref = await session.partition(asked.topic, asked.partition)
        reply = await ref.ask(commit)
    except GoQueueError as error:
        settle(wire.CommittedPartition(error_body(error)))
        return
    reply.then(lambda settled: settle(_committed(settled.outcome)))


def _committed(outcome: BaseException | None) -> wire.CommittedPartition:
    if outcome is None:
        return _DONE
    assert isinstance(outcome, GoQueueError), "an actor refuses with typed errors, and its death is one"
    return wire.CommittedPartition(error_body(outcome))


async def commit_from_outside(session: BrokerSession, request: wire.CommitOffsets) -> wire.OffsetsCommitted:
    """A reader outside of the group commits through the group."""
    check_group_name(request.group)
    return _outcomes(await _commit_from_outside(session, request))


async def _commit_from_outside(
    session: BrokerSession, request: wire.CommitOffsets
) -> Sequence[GoQueueError | None]:
    commits = tuple(
        OutsideCommit(UUID(bytes=each.topic), each.partition, each.offset) for each in request.partitions
    )
    group = await session.broker.groups.call(FindGroup(request.group, create=True))
    return await group.call(CommitFromOutside(commits))


def _outcomes(outcomes: Sequence[GoQueueError | None]) -> wire.OffsetsCommitted:
    return wire.OffsetsCommitted(
        tuple(wire.CommittedPartition(None if error is None else error_body(error)) for error in outcomes)
    )


async def ask_offsets(session: BrokerSession, request: wire.AskOffsets) -> wire.GroupOffsets:
    check_group_name(request.group)
    found: list[wire.GroupOffset] = [wire.GroupOffset(None, 0, 0)] * len(request.partitions)

    async def ask(number: int) -> None:
        asked = request.partitions[number]
        try:
            ref = await session.partition(asked.topic, asked.partition)
            found[number] = wire.GroupOffset(None, *await ref.call(CommittedOffset(request.group)))
        except GoQueueError as error:
            found[number] = wire.GroupOffset(error_body(error), 0, 0)

    await with_each(ask, list(range(len(request.partitions))))
    return wire.GroupOffsets(tuple(found))


ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Any]] = {
    wire.CommitOffsets: commit_from_outside,
    wire.AskOffsets: ask_offsets,
}

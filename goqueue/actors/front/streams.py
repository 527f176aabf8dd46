"""Streams: commits of members, and committed offsets of their group."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import trio

from goqueue.actors.delivery.requests import CommitOffset, CommittedOffset
from goqueue.actors.front.ordered import OrderedRequest
from goqueue.actors.front.responders import Responder, Rest
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.groups.requests import CommitFromOutside, FindGroup, OutsideCommit
from goqueue.actors.runtime.concurrently import with_each
from goqueue.actors.runtime.messages import Reply
from goqueue.core.groups.member import check_member_id
from goqueue.core.names import check_group_name
from goqueue.errors import GoQueueError
from goqueue.net.wire import groups as wire
from goqueue.net.wire.failures import error_body

_DONE = wire.CommittedPartition(None)


def begin_commit(
    session: BrokerSession, request: wire.CommitOffsets, responder: Responder, tasks: trio.Nursery
) -> Rest | None:
    """A member's commits reach each partition in the order of the frames: an older one never overtakes a newer one,
    nor does the heartbeat or the farewell by which the member releases the partition. A reader outside of the group
    commits through the group, and waits for it."""
    if request.member is None:
        tasks.start_soon(session.serve, request, responder)
        return None
    check_group_name(request.group)
    check_member_id(request.member)
    return _CommitRequest(session, request, request.member, responder).pass_on()


class _CommitRequest(OrderedRequest[wire.CommitPartition, wire.CommittedPartition]):
    kind = "commit_offsets"

    __slots__ = ("_member", "_request")

    def __init__(
        self, session: BrokerSession, request: wire.CommitOffsets, member: str, responder: Responder
    ) -> None:
        super().__init__(session, request.partitions, session.settles, len(request.partitions), responder)
        self._request = request
        self._member = member

    def question(self, item: wire.CommitPartition) -> CommitOffset:
        asked = self._request
        return CommitOffset(asked.group, self._member, asked.generation, item.offset, asked.instance)

    def asked(self, number: int, _: CommitOffset, reply: Reply[None]) -> None:
        reply.then(lambda settled: self.settle(number, _committed(settled.outcome)))

    def refused(self, error: GoQueueError) -> wire.CommittedPartition:
        return wire.CommittedPartition(error_body(error))

    def whole(self, pieces: tuple[wire.CommittedPartition, ...]) -> wire.OffsetsCommitted:
        return wire.OffsetsCommitted(pieces)


def _committed(outcome: BaseException | None) -> wire.CommittedPartition:
    if outcome is None:
        return _DONE
    assert isinstance(outcome, GoQueueError), "an actor refuses with typed errors, and its death is one"
    return wire.CommittedPartition(error_body(outcome))


async def commit_from_outside(session: BrokerSession, request: wire.CommitOffsets) -> wire.OffsetsCommitted:
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

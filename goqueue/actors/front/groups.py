"""The requests of members and operators to groups.

Names are checked here, once. A member counts as one of this connection before its group gets the request, so that
the group is told whenever the connection ends.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import trio

from goqueue.actors.deadletters.requests import (
    CountDeadLetters,
    DecidedLetters,
    DismissDeadLetters,
    FindLetterDecisions,
    RedriveDeadLetters,
)
from goqueue.actors.delivery.requests import SkipDamaged
from goqueue.actors.front.responders import Responder, Rest
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.groups.board import found_board, group_board, groups_board
from goqueue.actors.groups.requests import (
    Alter,
    AwaitMembership,
    FindGroup,
    Join,
    Leave,
    RemoveGroup,
    ResetOffsets,
)
from goqueue.actors.runtime.messages import Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.board import described_topics
from goqueue.core.groups.member import HEARTBEAT_SECONDS_MAX, check_member_id
from goqueue.core.groups.redrive import LetterCounts, check_dismissal, check_redrive
from goqueue.core.groups.start import check_reset, check_start
from goqueue.core.groups.subscription import Subscription
from goqueue.core.groups.views import DescribedGroup, DescribedPartition, MemberState, OwnedPartition
from goqueue.core.ledger.damage import check_skip
from goqueue.core.names import check_group_name, check_letters_of
from goqueue.core.why.rules import explain
from goqueue.core.why.words import counted
from goqueue.errors import (
    ActorDied,
    GoQueueError,
    GroupConflict,
    TooLarge,
    UnknownGroup,
    UnknownMember,
)
from goqueue.net.wire import groups as wire
from goqueue.net.wire import letters as letter_wire
from goqueue.net.wire.errors import TooManyRequests
from goqueue.net.wire.failures import error_body
from goqueue.net.wire.fields import PROSE_SIZE_MAX
from goqueue.net.wire.messages import Done
from goqueue.storage.slices import Slices

ROWS_MAX = 100_000
"""Limit of members and partitions of all groups in one answer."""


# Members


def begin_join(
    session: BrokerSession, request: wire.JoinGroup, responder: Responder, tasks: trio.Nursery
) -> Rest | None:
    session.joins.begin((request.group, request.member))
    tasks.start_soon(session.serve, request, responder)
    return None


async def join(session: BrokerSession, request: wire.JoinGroup) -> wire.Membership:
    name = (request.group, request.member)
    try:
        asked = _join_of(session, request)
        group = await session.broker.groups.call(FindGroup(request.group, create=True))
    finally:
        session.joins.end(name)  # a waiting leave runs later, when the join is in the mailbox
    return await _speak(session, name, group, asked)


def _join_of(session: BrokerSession, request: wire.JoinGroup) -> Join:
    check_group_name(request.group)
    check_member_id(request.member)
    check_start(request.start)
    return Join(
        request.member,
        request.client,
        _subscription(request.subscription),
        request.settings,
        request.start,
        request.session_timeout_ms / 1_000,
        request.is_static,
        session.number,
        request.instance,
        request.defaults,
        session.address,
    )


async def heartbeat(session: BrokerSession, request: wire.Heartbeat) -> wire.Membership:
    name = (request.group, request.member)
    deadline = trio.current_time() + min(request.max_wait_ms / 1_000, HEARTBEAT_SECONDS_MAX)
    asked = AwaitMembership(request.member, request.generation, deadline, session.number, request.instance)
    with session.polls.asking(1):
        group = session.members.group_of(name) or await _find(session, request.group)
        return await _speak(session, name, group, asked)


async def leave(session: BrokerSession, request: wire.LeaveGroup) -> Done:
    name = (request.group, request.member)
    await session.joins.wait(name)
    group = session.members.group_of(name) or await _find(session, request.group)
    await group.call(Leave(request.member, request.instance, request.keeps_place))
    session.members.remove(name)
    return Done()


async def _find(session: BrokerSession, group: str) -> ActorRef:
    return await session.broker.groups.call(FindGroup(check_group_name(group)))


async def _speak(
    session: BrokerSession, name: tuple[str, str], group: ActorRef, asked: Request[MemberState]
) -> wire.Membership:
    is_new = session.members.add(name, group)
    try:
        return _membership(await group.call(asked))
    except GoQueueError as error:
        if is_new or isinstance(error, UnknownMember):
            session.members.remove(name)
        raise


def _membership(state: MemberState) -> wire.Membership:
    assignment, revoked = _assigned(state.assignment), _assigned(state.revoked)
    return wire.Membership(state.member, state.generation, state.settings, assignment, revoked)


def _assigned(partitions: Sequence[OwnedPartition]) -> tuple[wire.AssignedPartition, ...]:
    return tuple(wire.AssignedPartition(*each) for each in partitions)


def _subscription(asked: Sequence[str]) -> Subscription:
    return Subscription.to(asked[0] if len(asked) == 1 else list(asked))


# Operators


async def describe_groups(session: BrokerSession, request: wire.DescribeGroups) -> wire.Groups:
    """One at a time on a connection, and no more than fits into an answer."""
    async with session.describing:
        if request.names is not None:
            return wire.Groups(await _described(session, list(dict.fromkeys(request.names)), are_wanted=True))
        names = list((await groups_board(session.broker.groups)).refs())
        return wire.Groups(await _described(session, names, are_wanted=False))


async def _described(
    session: BrokerSession, names: Sequence[str], *, are_wanted: bool
) -> tuple[wire.GroupDescription, ...]:
    """Without names in the request, groups that were deleted meanwhile are left out."""
    groups: list[wire.GroupDescription] = []
    rows, slices = 0, Slices()
    for name in names:
        try:
            description = await _describe(session, name, slices)
        except (UnknownGroup, ActorDied):
            if are_wanted:
                raise
            continue
        rows += len(description.members) + len(description.partitions)
        if groups and rows > ROWS_MAX:
            raise TooLarge(f"these groups have over {ROWS_MAX:,} members and partitions; ask for fewer by name")
        groups.append(await _description(description, slices))
    return tuple(groups)


async def _description(group: DescribedGroup, slices: Slices) -> wire.GroupDescription:
    members, partitions = list[wire.MemberDescription](), list[wire.GroupPartition]()
    for member in group.members:
        members.append(wire.MemberDescription._make((*member[:3], _assigned(member.assignment), *member[4:])))
        await slices.step()
    for partition in group.partitions:
        partitions.append(_described_partition(partition))
        await slices.step()
    return wire.GroupDescription(*group[:4], tuple(members), tuple(partitions))


def _described_partition(partition: DescribedPartition) -> wire.GroupPartition:
    """The same fields; only an error travels in another form."""
    error = None if partition.error is None else error_body(partition.error)
    return wire.GroupPartition._make(partition if error is None else (*partition[:11], error, *partition[12:]))


async def _describe(session: BrokerSession, name: str, slices: Slices) -> DescribedGroup:
    return await (await found_board(session.broker.groups, check_group_name(name))).describe(slices)


async def alter_group(session: BrokerSession, request: wire.AlterGroup) -> wire.Groups:
    group = await _find(session, request.group)
    await group.call(Alter(request.settings, request.force))
    slices = Slices()
    return wire.Groups((await _description(await (await group_board(group)).describe(slices), slices),))


async def delete_group(session: BrokerSession, request: wire.DeleteGroup) -> Done:
    await session.broker.groups.call(RemoveGroup(check_group_name(request.group)))
    return Done()


async def reset_group(session: BrokerSession, request: wire.ResetGroup) -> wire.GroupReset:
    check_reset(request.topic, request.partition, request.start)
    group = await _find(session, request.group)
    reset = ResetOffsets(request.topic, request.partition, request.start, request.dry_run, request.force)
    return wire.GroupReset(tuple(wire.ResetPartition(*each) for each in await group.call(reset)))


async def skip_damaged(session: BrokerSession, request: wire.SkipDamaged) -> wire.DamagedSkipped:
    check_skip(request.topic, request.first, request.last)
    group = await _describe(session, request.group, Slices())
    is_stream = group.settings.get("mode") == "stream"
    members = sum(not member.is_away for member in group.members)
    if is_stream and members and not request.dry_run:  # they know their positions, and would commit them
        raise GroupConflict(
            f"group {request.group} is a stream with {counted(members, 'member')}; stop them first", members=members
        )
    [topic] = await described_topics(session.broker.topics, (request.topic,))
    ref = await session.partition(topic.uuid.bytes, request.partition)
    skipped = SkipDamaged(request.group, request.first, request.last, request.dry_run, is_stream)
    return wire.DamagedSkipped(*await ref.call(skipped))


async def why(session: BrokerSession, request: wire.Why) -> wire.Because:
    """One at a time on a connection, as with descriptions: it looks at all partitions of the group."""
    name = check_group_name(request.group)
    if request.member is not None:
        check_member_id(request.member)
    async with session.describing:
        facts = await (await found_board(session.broker.groups, name)).facts(request.member)
    found = explain(facts)
    return wire.Because(found.text[:PROSE_SIZE_MAX], {"reason": found.reason, **facts.figures()})


# Dead letters


async def redrive(session: BrokerSession, request: letter_wire.Redrive) -> letter_wire.Redriven:
    check_redrive(
        request.topic, request.group, request.to, all_groups=request.all_groups, per_second=request.per_second
    )
    with _one_at_a_time(session):
        done = await session.broker.dead_letters.call(RedriveDeadLetters(*request))
    return letter_wire.Redriven(*done[:4], done.why[:PROSE_SIZE_MAX])


async def dismiss(session: BrokerSession, request: letter_wire.Dismiss) -> letter_wire.Dismissed:
    check_dismissal(request.topic, request.group)
    with _one_at_a_time(session):
        done = await session.broker.dead_letters.call(DismissDeadLetters(*request))
    return letter_wire.Dismissed(*done[:4], done.why[:PROSE_SIZE_MAX])


@contextmanager
def _one_at_a_time(session: BrokerSession) -> Iterator[None]:
    """A redrive may take long, so there is one at a time on a connection."""
    if session.is_redriving:
        raise TooManyRequests("a redrive is under way on this connection; wait for its answer")
    session.is_redriving = True
    try:
        yield
    finally:
        session.is_redriving = False


async def count_letters(session: BrokerSession, request: letter_wire.CountLetters) -> letter_wire.LettersCounted:
    """One at a time on a connection, as with descriptions: where a log has gaps, it is read."""
    check_letters_of(request.topic)
    async with session.describing:
        found = await session.broker.dead_letters.call(CountDeadLetters(request.topic))
    return letter_wire.LettersCounted(tuple(map(_count, found)))


def _count(counts: LetterCounts) -> letter_wire.LetterCount:
    return letter_wire.LetterCount(
        counts.waiting,
        counts.redriven,
        counts.dismissed,
        counts.redriven_at,
        counts.dismissed_at,
        counts.is_doubtful,
    )


async def find_decisions(session: BrokerSession, request: letter_wire.FindDecisions) -> letter_wire.LetterDecisions:
    check_letters_of(request.topic)
    last = request.first + request.count_max - 1
    async with session.describing:
        asked = FindLetterDecisions(request.topic, request.partition, request.first, last)
        found = await session.broker.dead_letters.call(asked)
    return letter_wire.LetterDecisions(tuple(map(_decision, found)))


def _decision(decided: DecidedLetters) -> letter_wire.LetterDecision:
    (verdict, at, to, note), runs = decided
    return letter_wire.LetterDecision(
        int(verdict),
        at,
        to and to.topic,
        to is not None and to.is_for_all,
        note,
        tuple(letter_wire.OffsetRun(*run) for run in runs),
    )


ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Any]] = {
    wire.JoinGroup: join,
    wire.Heartbeat: heartbeat,
    wire.LeaveGroup: leave,
    wire.DescribeGroups: describe_groups,
    wire.AlterGroup: alter_group,
    wire.DeleteGroup: delete_group,
    wire.ResetGroup: reset_group,
    wire.SkipDamaged: skip_damaged,
    wire.Why: why,
    letter_wire.Redrive: redrive,
    letter_wire.Dismiss: dismiss,
    letter_wire.CountLetters: count_letters,
    letter_wire.FindDecisions: find_decisions,
}

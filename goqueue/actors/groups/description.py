"""Describes a group from the boards of its partitions, and resets it: that asks all of them concurrently."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import trio

from goqueue.actors.delivery.requests import LedgerView, ResetLedger
from goqueue.actors.groups.attachments import Attachment
from goqueue.actors.groups.requests import ResetOffsets
from goqueue.actors.partition.board import board_of
from goqueue.actors.runtime.concurrently import call_within, with_each
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.topics.requests import TopicOutline
from goqueue.core.groups.assignors import Assignment, TopicPartition
from goqueue.core.groups.member import MemberView
from goqueue.core.groups.rebalance import GroupView
from goqueue.core.groups.views import (
    DescribedGroup,
    DescribedMember,
    DescribedPartition,
    MovedOffset,
    OwnedPartition,
)
from goqueue.core.why.words import counted
from goqueue.errors import GoQueueError, GroupConflict, Unavailable, UnknownPartition, UnknownTopic
from goqueue.storage.slices import Slices

ANSWER_SECONDS_MAX = 2.0
BEGINNING_SECONDS = 0.005
"""The pause before another look at a partition that was told of the group and has not begun its ledger."""
IN_TURN_SECONDS_MAX = 0.5
"""The time after which partitions are looked at concurrently: most are read from memory, and a task costs more."""


@dataclass(frozen=True, slots=True)
class MembersStanding:
    """What the group itself knows."""

    name: str
    view: GroupView
    now: float
    waits_since: float | None
    """Since when a rebalance waits for members to give up partitions."""
    topics: Mapping[str, TopicOutline]
    """All topics of the broker."""


Found: TypeAlias = LedgerView | GoQueueError | None
FoundT = TypeVar("FoundT")


async def describe_group(
    standing: MembersStanding, attachments: Sequence[Attachment], slices: Slices
) -> DescribedGroup:
    """A partition that cannot be looked at is described by its error, the others as usual."""
    view, members, partitions = standing.view, list[DescribedMember](), list[DescribedPartition]()
    settings = view.settings
    is_shared = settings is not None and settings.shared
    owners = {} if is_shared else {key: member.id for member in view.members for key in member.assignment}
    ledgers = await look_at_each(attachments, standing.name, slices)
    for member in view.members:
        members.append(_describe_member(member, standing))
        await slices.step()
    for key in sorted(ledgers):
        partitions.append(_describe_partition(key, owners.get(key), ledgers[key]))
        await slices.step()
    return DescribedGroup(
        standing.name,
        view.state.name.lower(),
        view.generation,
        {} if settings is None else settings.to_plain(),
        tuple(members),
        tuple(partitions),
    )


async def look_at_each(
    attachments: Sequence[Attachment], group: str, slices: Slices
) -> dict[TopicPartition, Found]:
    """From the boards of the partitions. Logs are read only where the group has a lag."""
    found, left = dict[TopicPartition, Found](), list(attachments)[::-1]
    with trio.move_on_after(IN_TURN_SECONDS_MAX):
        while left:
            found[left[-1].key] = await _look_at(left[-1], group)
            left.pop()
            await slices.step()

    async def look_again(attachment: Attachment) -> None:
        try:
            found[attachment.key] = await within_time(attachment, _look_at, group)
        except Unavailable as error:
            found[attachment.key] = error

    await with_each(look_again, left)
    return found


async def _look_at(attachment: Attachment, group: str) -> Found:
    try:
        if attachment.ref is None:
            raise Unavailable(attachment.trouble or "the partition is not found yet; try again")
        board = attachment.board or (await board_of(attachment.ref)).ledgers  # or why there is none
        found = board.at_rest(group) or await board.view(group)
    except GoQueueError as error:
        return error
    if found is not None or not attachment.is_beginning:
        return found
    await trio.sleep(BEGINNING_SECONDS)
    return await _look_at(attachment, group)


async def within_time(
    attachment: Attachment, look: Callable[[Attachment, str], Awaitable[FoundT]], group: str
) -> FoundT:
    with trio.move_on_after(ANSWER_SECONDS_MAX):
        return await look(attachment, group)
    topic, number = attachment.key
    raise Unavailable(f"{topic}/{number} did not answer within {ANSWER_SECONDS_MAX:g} s; try again")


def _describe_member(member: MemberView, standing: MembersStanding) -> DescribedMember:
    subscription = member.subscription.to_plain()
    return DescribedMember(
        member=member.id,
        client=member.client,
        subscription=(subscription,) if isinstance(subscription, str) else tuple(subscription),
        assignment=assigned(member.assignment, standing.topics),
        member_for_ms=max(0, round((standing.now - member.since) * 1_000)),
        silent_for_ms=round(member.heartbeat_age * 1_000),
        is_away=not member.is_connected,
        address=member.address,
    )


def assigned(assignment: Assignment, topics: Mapping[str, TopicOutline]) -> tuple[OwnedPartition, ...]:
    """Without partitions of deleted topics: there is nothing to read and nothing to give up."""
    return tuple(
        OwnedPartition(topic, topics[topic].uuid.bytes, number)
        for topic, number in sorted(assignment)
        if topic in topics
    )


def _describe_partition(
    key: TopicPartition, member: str | None, found: LedgerView | GoQueueError | None
) -> DescribedPartition:
    if not isinstance(found, LedgerView):
        return DescribedPartition(*key, member, error=found)
    progress = found.progress
    return DescribedPartition(
        topic=key.topic,
        partition=key.partition,
        member=member,
        committed=progress.committed,
        end=found.end,
        lag=found.lag,
        in_flight=progress.in_flight,
        waiting=progress.waiting,
        leaving=progress.leaving + progress.in_transfer,
        removed_unacked=progress.removed_unacked,
        oldest_unacked_ms=found.oldest_unacked_ms,
        lanes=found.lanes,
        damaged=progress.damaged,
        damages=progress.damages,
        progress_lost_at=None if found.lost is None else found.lost.at,
        shown_before=None if found.lost is None else found.lost.shown,
    )


def check_may_reset(group: str, members: int, wanted: ResetOffsets) -> None:
    if members and not (wanted.force or wanted.dry_run):
        raise GroupConflict(
            f"group {group} has {counted(members, 'member')}; stop them first, or use force (force=True, --force); "
            "a dry run only says what would be",
            members=members,
        )


async def reset_group(
    group: str, wanted: ResetOffsets, attachments: Sequence[Attachment], reply: Reply[tuple[MovedOffset, ...]]
) -> None:
    """Each partition is reset by itself; the first error is raised, and the call may be repeated."""
    try:
        reply.resolve(await _reset(group, wanted, _chosen(group, wanted, attachments)))
    except GoQueueError as error:
        reply.fail(error)


def _chosen(group: str, wanted: ResetOffsets, attachments: Sequence[Attachment]) -> list[Attachment]:
    of_topic = [attachment for attachment in attachments if wanted.topic in (None, attachment.topic.name)]
    if wanted.topic is not None and not of_topic:
        raise UnknownTopic(f"group {group} has not read topic {wanted.topic}; describe the group to see which")
    chosen = [attachment for attachment in of_topic if wanted.partition in (None, attachment.number)]
    if wanted.partition is not None and not chosen:
        raise UnknownPartition(f"none of the topics has a partition {wanted.partition}; describe the group")
    return chosen


async def _reset(group: str, wanted: ResetOffsets, attachments: Sequence[Attachment]) -> tuple[MovedOffset, ...]:
    done: list[MovedOffset] = []

    async def reset(attachment: Attachment) -> None:
        if attachment.ref is None:
            raise Unavailable(
                f"partition {attachment.number} of {attachment.topic.name} cannot be reached; try again"
            )
        message = ResetLedger(group, wanted.start, wanted.dry_run)
        before, after = await call_within(ANSWER_SECONDS_MAX, attachment.ref, message)
        done.append(MovedOffset(*attachment.key, before, after))

    await with_each(reset, attachments)
    return tuple(sorted(done))

"""Describes a group from the boards of its partitions, and resets it: that asks all of them concurrently."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar
from uuid import UUID

import trio

from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.delivery.requests import LedgerView, ResetLedger
from goqueue.actors.groups.attachments import Attachment
from goqueue.actors.groups.requests import ResetOffsets
from goqueue.actors.partition.board import board_of
from goqueue.actors.runtime.concurrently import call_within, with_each
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
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
from goqueue.errors import GoQueueError, GroupConflict, Unavailable, UnknownPartition, UnknownTopic
from goqueue.storage.slices import Slices

ANSWER_SECONDS_MAX = 2.0

Found: TypeAlias = LedgerView | GoQueueError | None
FoundT = TypeVar("FoundT")


async def describe_group(
    name: str, view: GroupView, now: float, uuids: Mapping[str, UUID], attachments: Sequence[Attachment]
) -> DescribedGroup:
    """A partition that does not answer is described by its error, the others as usual."""
    owners = {key: member.id for member in view.members for key in member.assignment}
    is_shared = view.settings is not None and view.settings.shared
    ledgers = await look_at_each(attachments, name)
    return DescribedGroup(
        name=name,
        state=view.state.name.lower(),
        generation=view.generation,
        settings=view.settings.to_plain() if view.settings is not None else {},
        members=tuple(_describe_member(member, now, uuids) for member in view.members),
        partitions=tuple(
            _describe_partition(key, None if is_shared else owners.get(key), found)
            for key, found in sorted(ledgers.items(), key=lambda item: item[0])
        ),
    )


async def look_at_each(attachments: Sequence[Attachment], group: str) -> dict[TopicPartition, Found]:
    """From the boards of the partitions. Logs are read only where the group has a lag."""
    found: dict[TopicPartition, Found] = {}
    busy, slices = list[Attachment](), Slices()
    for attachment in attachments:
        board = attachment.board
        view = None if board is None else board.at_rest(group)
        if view is None:
            busy.append(attachment)
        else:
            found[attachment.key] = view
        await slices.step()

    async def look(attachment: Attachment) -> None:
        found[attachment.key] = await _look_at(attachment, group)

    await with_each(look, busy)
    return found


async def _look_at(attachment: Attachment, group: str) -> Found:
    try:
        if attachment.ref is None:
            raise Unavailable(attachment.trouble or "the partition is not found yet; try again")
        return await look(attachment.ref, lambda ledgers: ledgers.view(group))
    except GoQueueError as error:
        return error


async def look(partition: ActorRef, ask: Callable[[LedgerBoard], Awaitable[FoundT]]) -> FoundT:
    """Ask the board of a partition. Raises why there is none: the partition is down, or takes long to start."""
    with trio.move_on_after(ANSWER_SECONDS_MAX):
        return await ask((await board_of(partition)).ledgers)
    raise Unavailable(f"{partition.name} could not be looked at within {ANSWER_SECONDS_MAX:g} s; try again")


def _describe_member(member: MemberView, now: float, uuids: Mapping[str, UUID]) -> DescribedMember:
    subscription = member.subscription.to_plain()
    return DescribedMember(
        member=member.id,
        client=member.client,
        subscription=(subscription,) if isinstance(subscription, str) else tuple(subscription),
        assignment=assigned(member.assignment, uuids),
        member_for_ms=max(0, round((now - member.since) * 1_000)),
        silent_for_ms=round(member.heartbeat_age * 1_000),
        is_away=not member.is_connected,
    )


def assigned(assignment: Assignment, uuids: Mapping[str, UUID]) -> tuple[OwnedPartition, ...]:
    """Without partitions of deleted topics: there is nothing to read and nothing to give up."""
    return tuple(
        OwnedPartition(topic, uuids[topic].bytes, number) for topic, number in sorted(assignment) if topic in uuids
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
            f"group {group} has {members} members; stop them first, or use force (force=True, --force); "
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

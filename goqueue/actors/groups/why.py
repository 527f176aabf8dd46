"""Gathers the facts of a group from all of its partitions, to explain why nothing is delivered."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import trio

from goqueue.actors.delivery.requests import LedgerFacts
from goqueue.actors.groups.attachments import Attachment
from goqueue.actors.groups.description import MembersStanding, within_time
from goqueue.actors.partition.board import board_of
from goqueue.actors.runtime.concurrently import with_each
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.member import MemberView
from goqueue.core.why.facts import GroupFacts, MemberFacts, PartitionFacts
from goqueue.errors import GoQueueError

MOVE_SECONDS = 0.02
"""The time between two looks whether a busy partition has come to its next turn."""


async def gather_facts(standing: MembersStanding, attachments: Sequence[Attachment]) -> GroupFacts:
    """A partition that does not answer is a fact, too. A member that has closed does not count."""
    ledgers = await _ledgers_of(standing.name, attachments)
    known = [found for found in ledgers.values() if isinstance(found, LedgerFacts)]
    members, settings = [each for each in standing.view.members if not each.has_closed], standing.view.settings
    is_shared = settings is not None and settings.shared
    owners = {} if is_shared else {key: member.id for member in members for key in member.assignment}
    since = standing.waits_since
    return GroupFacts(
        standing.name,
        members=tuple(_member_facts(each, standing, known) for each in members),
        partitions=tuple(_partition_facts(key, owners.get(key), ledgers[key]) for key in sorted(ledgers)),
        is_shared=is_shared,
        is_stream=settings is not None and settings.mode == "stream",
        rebalancing_for=None if since is None else max(0.0, standing.now - since),
        letting_go=tuple(each.id for each in members if each.letting_go),
    )


async def _ledgers_of(group: str, attachments: Sequence[Attachment]) -> dict[TopicPartition, LedgerFacts | str]:
    """The facts of each partition, or why it does not answer."""
    found: dict[TopicPartition, LedgerFacts | str] = {}

    async def look(attachment: Attachment) -> None:
        try:
            found[attachment.key] = await within_time(attachment, _look_at, group)
        except GoQueueError as error:
            found[attachment.key] = error.message

    await with_each(look, attachments)
    return found


async def _look_at(attachment: Attachment, group: str) -> LedgerFacts | str:
    partition = attachment.ref
    if partition is None:
        return attachment.trouble or "it is not found yet"
    board = await board_of(partition)
    await _come_to_a_turn(partition)
    return await board.ledgers.facts(group) or "the group has not begun there yet"


async def _come_to_a_turn(partition: ActorRef) -> None:
    """A partition that stays in one turn delivers nothing, whatever its board says."""
    turns = partition.counts.turns
    while True:
        if partition.is_idle or partition.counts.turns != turns:
            return
        await trio.sleep(MOVE_SECONDS)


def _partition_facts(key: TopicPartition, owner: str | None, found: LedgerFacts | str) -> PartitionFacts:
    if isinstance(found, str):
        return PartitionFacts(*key, owner=owner, trouble=found)
    asked_ago = None if owner is None else found.asked_ago.get(owner)
    return replace(found.partition, owner=owner, asked_ago=asked_ago)


def _member_facts(member: MemberView, standing: MembersStanding, known: Iterable[LedgerFacts]) -> MemberFacts:
    plain = member.subscription.to_plain()
    asked = [each.asked_ago[member.id] for each in known if member.id in each.asked_ago]
    return MemberFacts(
        member.id,
        asks_for=(plain,) if isinstance(plain, str) else tuple(plain),
        topics=member.subscription.resolve(tuple(standing.topics)),
        is_connected=member.is_connected,
        silent_for=member.heartbeat_age,
        member_for=max(0.0, standing.now - member.since),
        holds=sum(each.held.get(member.id, 0) for each in known),
        holds_alone=any(member.id in each.held_alone for each in known),
        asked_ago=min(asked, default=None),
    )

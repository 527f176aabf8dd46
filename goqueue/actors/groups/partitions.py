"""What a group tells its partitions for its members, and for readers outside of the group.

When the consumer of a member ends, its deliveries are released. A partition that cannot be reached keeps them until
the leases end. Readers outside of the group commit offsets through it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from goqueue.actors.delivery.requests import CommitOffset, ReleaseMember, ReplaceMember
from goqueue.actors.groups.attachments import ANSWER_SECONDS_MAX, Attachment
from goqueue.actors.groups.requests import OutsideCommit
from goqueue.actors.runtime.concurrently import call_within, with_each
from goqueue.actors.topics.requests import TopicOutline
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.settings import GroupSettings
from goqueue.errors import GoQueueError, GroupConflict, Unavailable, UnknownPartition, UnknownTopic

Report: TypeAlias = Callable[[str], None]

COMMIT_SECONDS_MAX = 2.0


async def tell_each(
    attachments: Sequence[Attachment], message: ReleaseMember | ReplaceMember, report: Report
) -> None:
    """Release a member's deliveries, uncounted, or end its leases, which counts: the fate of its consumer is then
    unknown. Either way the messages are ready at once."""

    async def tell(attachment: Attachment) -> None:
        if attachment.ref is not None and attachment.trouble is None:
            try:
                await call_within(ANSWER_SECONDS_MAX, attachment.ref, message)
            except GoQueueError as error:
                report(f"{attachment.ref.name} did not give back what {message.member} held: {error.message}")

    await with_each(tell, attachments)


def check_open_to_outsiders(group: str, members: int, settings: GroupSettings | None) -> None:
    """Members commit for themselves; and a queue has no committed offset to set."""
    if members:
        raise GroupConflict(
            f"group {group} has {members} members, who commit by themselves; stop them first", members=members
        )
    if settings is not None and settings.mode != "stream":
        raise GroupConflict(
            f'group {group} has mode "queue": offsets are not committed; use another group, or alter it',
            settings=["mode"],
        )


def keys_of(commits: Sequence[OutsideCommit], there: Iterable[TopicOutline]) -> list[TopicPartition]:
    names = {each.uuid: each.name for each in there}
    gone = next((each.topic for each in commits if each.topic not in names), None)
    if gone is not None:
        raise UnknownTopic(f"there is no topic {gone} any more; ask for its name again")
    return [TopicPartition(names[each.topic], each.partition) for each in commits]


async def commit_each(
    group: str, commits: Sequence[OutsideCommit], attachments: Sequence[Attachment | None]
) -> tuple[GoQueueError | None, ...]:
    """The outcome of each commit: an error, or None when it is journaled."""
    outcomes: list[GoQueueError | None] = [None] * len(commits)

    async def commit(number: int) -> None:
        try:
            await _commit(group, commits[number], attachments[number])
        except GoQueueError as error:
            outcomes[number] = error

    await with_each(commit, list(range(len(commits))))
    return tuple(outcomes)


async def _commit(group: str, commit: OutsideCommit, attachment: Attachment | None) -> None:
    if attachment is None:
        raise UnknownPartition(f"the topic has no partition {commit.partition}; they are numbered from 0")
    if attachment.ref is None or attachment.trouble is not None:
        raise Unavailable(
            f"{attachment.topic.name}/{attachment.number} cannot be reached: {attachment.trouble}; try again"
        )
    await call_within(COMMIT_SECONDS_MAX, attachment.ref, CommitOffset(group, None, 0, commit.offset))

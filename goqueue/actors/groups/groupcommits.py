"""Offsets that are committed by readers outside of their group: the group itself says them to its partitions."""

from collections.abc import Iterable, Sequence

from goqueue.actors.groups.attachments import Attachment
from goqueue.actors.groups.requests import CommitOffset, OutsideCommit
from goqueue.actors.runtime.bounded import call_within, with_each
from goqueue.actors.topics.watching import TopicOutline
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.settings import GroupSettings
from goqueue.errors import GoQueueError, GroupConflict, Unavailable, UnknownPartition, UnknownTopic

ANSWER_SECONDS_MAX = 2.0


def check_open_to_outsiders(group: str, members: int, settings: GroupSettings | None) -> None:
    """Members commit by themselves; and to a queue an offset says nothing."""
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
    group: str, commits: Sequence[OutsideCommit], places: Sequence[Attachment | None]
) -> tuple[GoQueueError | None, ...]:
    """What became of each: an error, or None when it is journaled."""
    outcomes: list[GoQueueError | None] = [None] * len(commits)

    async def commit(number: int) -> None:
        try:
            await _commit(group, commits[number], places[number])
        except GoQueueError as error:
            outcomes[number] = error

    await with_each(commit, list(range(len(commits))))
    return tuple(outcomes)


async def _commit(group: str, commit: OutsideCommit, place: Attachment | None) -> None:
    if place is None:
        raise UnknownPartition(f"the topic has no partition {commit.partition}; they are numbered from 0")
    if place.ref is None or place.trouble is not None:
        raise Unavailable(f"{place.topic.name}/{place.number} cannot be reached: {place.trouble}; try again")
    await call_within(ANSWER_SECONDS_MAX, place.ref, CommitOffset(group, None, 0, commit.offset))

"""Which members take from which partitions: shared by the rules of rules.py and streams.py."""

from collections.abc import Iterable

from goqueue.core.why.facts import GroupFacts, MemberFacts, PartitionFacts
from goqueue.core.why.words import counted, span, verb

QUIET_SECONDS = 1.0
"""A member that has asked within this time is asking, and a partition that has delivered within it is
delivering."""


def ready_in(facts: GroupFacts) -> list[PartitionFacts]:
    """The partitions that have ready messages, and a member that takes from there."""
    return [each for each in facts.partitions if each.ready and facts.takers_of(each)]


def takers_in(facts: GroupFacts, partitions: Iterable[PartitionFacts]) -> list[MemberFacts]:
    return list({taker.id: taker for each in partitions for taker in facts.takers_of(each)}.values())


def slowest_in(facts: GroupFacts) -> MemberFacts | None:
    """The silent member with the most ready messages; None when a member is asking."""
    ready = ready_in(facts)
    if any(is_asked(facts, each) for each in ready):
        return None
    return max(takers_in(facts, ready), key=lambda each: ready_for(facts, each), default=None)


def is_asked(facts: GroupFacts, partition: PartitionFacts) -> bool:
    """Whether a member asks for messages there."""
    return any(
        taker.is_connected and is_recent(partition.asked_ago if facts.is_stream else taker.asked_ago)
        for taker in facts.takers_of(partition)
    )


def is_recent(ago: float | None) -> bool:
    return ago is not None and ago < QUIET_SECONDS


def taken_by(facts: GroupFacts, member: MemberFacts) -> list[PartitionFacts]:
    """The partitions where messages are ready for this member."""
    return [each for each in ready_in(facts) if member in facts.takers_of(each)]


def ready_for(facts: GroupFacts, member: MemberFacts) -> int:
    return sum(each.ready for each in taken_by(facts, member))


def lag_of(partitions: Iterable[PartitionFacts]) -> int:
    return sum(each.lag for each in partitions)


def waits_for(facts: GroupFacts, member: MemberFacts) -> str:
    messages = ready_for(facts, member)
    return f"{counted(messages, 'message')} {verb(messages, 'wait')} for it{but(facts)}"


def but(facts: GroupFacts) -> str:
    """The troubles beside the reason."""
    silent = sum(each.trouble is not None for each in facts.partitions)
    return f"; {counted(silent, 'partition')} {verb(silent, 'does', 'do')} not answer" if silent else ""


def since(member: MemberFacts, asked_ago: float | None) -> str:
    if asked_ago is None:
        return f"since it joined {span(member.member_for)} ago"
    return f"for {span(asked_ago)}"

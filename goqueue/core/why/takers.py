"""Who takes from where, and what is said of that: shared by the rules of why.py."""

from collections.abc import Iterable

from goqueue.core.why.facts import GroupFacts, MemberFacts, PartitionFacts
from goqueue.core.why.words import counted, span, verb

QUIET_SECONDS = 1.0
"""Whoever has asked within it is asking, and what went out within it is going out."""


def ready_in(facts: GroupFacts) -> list[PartitionFacts]:
    """The partitions where something could be handed out, to somebody who takes from there."""
    return [each for each in facts.partitions if each.ready and facts.takers_of(each)]


def takers_in(facts: GroupFacts, partitions: Iterable[PartitionFacts]) -> list[MemberFacts]:
    return list({taker.id: taker for each in partitions for taker in facts.takers_of(each)}.values())


def slowest_in(facts: GroupFacts) -> MemberFacts | None:
    """Whose silence it is: of those for whom something is ready, the one with the most; None when one is asking."""
    ready = ready_in(facts)
    if any(is_asked(facts, each) for each in ready):
        return None
    return max(takers_in(facts, ready), key=lambda each: ready_for(facts, each), default=None)


def is_asked(facts: GroupFacts, partition: PartitionFacts) -> bool:
    """Somebody asks for messages there."""
    return any(
        taker.is_connected and is_recent(partition.asked_ago if facts.is_stream else taker.asked_ago)
        for taker in facts.takers_of(partition)
    )


def is_recent(ago: float | None) -> bool:
    return ago is not None and ago < QUIET_SECONDS


def taken_by(facts: GroupFacts, member: MemberFacts) -> list[PartitionFacts]:
    """Where something is ready for it."""
    return [each for each in ready_in(facts) if member in facts.takers_of(each)]


def ready_for(facts: GroupFacts, member: MemberFacts) -> int:
    return sum(each.ready for each in taken_by(facts, member))


def lag_of(partitions: Iterable[PartitionFacts]) -> int:
    return sum(each.lag for each in partitions)


def waits_for(facts: GroupFacts, member: MemberFacts) -> str:
    messages = ready_for(facts, member)
    return f"{counted(messages, 'message')} {verb(messages, 'wait')} for it{but(facts)}"


def but(facts: GroupFacts) -> str:
    """What goes wrong beside the reason."""
    silent = sum(each.trouble is not None for each in facts.partitions)
    return f"; {counted(silent, 'partition')} {verb(silent, 'does', 'do')} not answer" if silent else ""


def since(member: MemberFacts, asked_ago: float | None) -> str:
    if asked_ago is None:
        return f"since it joined {span(member.member_for)} ago"
    return f"for {span(asked_ago)}"

"""The explanations for streams (rules.py): there are no leases, and nothing is in flight.

A stream's owner fetches ahead of its program. How far it has fetched is known, how far its program is only by its
commits. The messages between are fetched and not committed: they do not wait for the owner, and are not done.
"""

from collections.abc import Iterable

from goqueue.core.why.facts import GroupFacts, LastDelivery, MemberFacts, PartitionFacts
from goqueue.core.why.takers import but, is_asked, is_recent, lag_of, since, taken_by, takers_in, waits_for
from goqueue.core.why.words import counted, listed, span, verb


def going_on(facts: GroupFacts, last: LastDelivery | None) -> str:
    went = "" if last is None else f"the last {span(last.age)} ago by {last.member}, "
    fetched, lag = _fetched(facts.partitions), lag_of(facts.partitions)
    return f"messages are being fetched: {went}{fetched:,} not committed yet, lag {lag:,}{but(facts)}"


def busy(facts: GroupFacts, member: MemberFacts) -> str | None:
    fetched = _fetched(each for each in facts.partitions if each.owner == member.id)
    if not fetched or is_recent(member.asked_ago):
        return None
    return (
        f"{member.id} has fetched {counted(fetched, 'message')} that {verb(fetched, 'is', 'are')} not committed, "
        f"and has not asked for more {since(member, member.asked_ago)} (its program is busy, or has paused it): "
        f"{waits_for(facts, member)}"
    )


def not_asking(facts: GroupFacts, member: MemberFacts) -> str:
    if not is_recent(member.asked_ago):
        ago = since(member, member.asked_ago)
        return f"{member.id} has not asked for messages {ago}: {waits_for(facts, member)}"
    where = taken_by(facts, member)
    names, ago = listed(each.name for each in where), since(member, _asked_ago(where))
    them = verb(len(where), "it", "them")
    return (
        f"{member.id} asks for messages, but not for those of {names} {ago} (its program has paused {them}): "
        f"{waits_for(facts, member)}"
    )


def uncommitted(facts: GroupFacts) -> str | None:
    fetched = [each for each in facts.partitions if each.fetched]
    if not fetched:
        return None
    owners = listed(sorted({each.owner for each in fetched if each.owner is not None}))
    messages, silent = _fetched(fetched), [each for each in fetched if not is_asked(facts, each)]
    return (
        f"everything that is there was fetched by {owners} and is not committed yet: "
        f"{counted(messages, 'message')}{_lost(facts, silent)}{_silence(facts, silent)}"
    )


def _lost(facts: GroupFacts, silent: list[PartitionFacts]) -> str:
    """A member that is away holds what it has fetched until it is back, or is given up."""
    away = [each for each in takers_in(facts, silent) if not each.is_connected]
    if not away:
        return ""
    they, last = verb(len(away), "it was", "they were"), min(each.silent_for for each in away)
    return (
        f"; the connection of {listed(each.id for each in away)} is lost, and {they} last heard of {span(last)} ago"
    )


def _silence(facts: GroupFacts, silent: list[PartitionFacts]) -> str:
    partitions = [each for each in silent if all(taker.is_connected for taker in facts.takers_of(each))]
    ago = _asked_ago(partitions)
    if ago is None:
        return ""
    names = listed(each.name for each in partitions)
    return f"; nobody has asked for more of {names} for {span(ago)} (its program is busy, or has paused it)"


def _asked_ago(partitions: Iterable[PartitionFacts]) -> float | None:
    return min((each.asked_ago for each in partitions if each.asked_ago is not None), default=None)


def _fetched(partitions: Iterable[PartitionFacts]) -> int:
    return sum(each.fetched for each in partitions)

"""Why nothing is being delivered to a group, or to one of its members: facts in, one sentence out.

The rules are asked in their order, the most telling first, and the first that has a sentence is the answer. So a
rule may take for granted that those before it had none. Three questions follow each other:

    can anything be delivered at all?     members, topics, partitions, a rebalance
    something is ready: who does not take it, and why?
    nothing is ready: where is everything?

A new reason is a function and its place in `RULES`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from goqueue.core.whyfacts import GroupFacts, MemberFacts, OldestLease, PartitionFacts

QUIET_SECONDS = 1.0
"""Whoever has asked within it is asking, and what went out within it is going out."""
NAMES_MAX = 3
TROUBLE_LENGTH_MAX = 300

Rule: TypeAlias = Callable[[GroupFacts], str | None]


@dataclass(frozen=True, slots=True)
class Explanation:
    reason: str
    """A word for programs: a key of `RULES`."""
    text: str


def explain(facts: GroupFacts) -> Explanation:
    for reason, rule in RULES.items():
        text = rule(facts)
        if text is not None:
            return Explanation(reason, _one_line(text))
    raise AssertionError("the last rule always has a sentence")


# Can anything be delivered at all?


def _no_members(facts: GroupFacts) -> str | None:
    if facts.members:
        return None
    waiting = [each for each in facts.partitions if each.lag]
    if not waiting:
        return "the group has no members, and nothing waits for it"
    on = f"on {_count(len(waiting), 'partition')}"
    return f"the group has no members: {_count(_lag(waiting), 'message')} {_verb(_lag(waiting), 'wait')} {on}"


def _no_topic(facts: GroupFacts) -> str | None:
    if any(each.topics for each in facts.members):
        return None
    asked = sorted({name for each in facts.members for name in each.asks_for})
    who = facts.member or "any member"
    return f"there is no topic for {who} to read: none is or fits {_names(asked)}"


def _not_begun(facts: GroupFacts) -> str | None:
    if facts.partitions or facts.partitions_of_others:
        return None
    topics = sorted({name for each in facts.members for name in each.topics})
    return f"the group has not begun to read {_names(topics)} yet"


def _rebalancing(facts: GroupFacts) -> str | None:
    paused = [each for each in facts.partitions if each.owner is None and each.ready]
    is_left_out = facts.member is not None and not facts.partitions
    if facts.rebalancing_for is None or _ready(facts) or not (paused or is_left_out):
        return None
    whom = f", waiting for {_names(facts.letting_go)} to let go" if facts.letting_go else ""
    messages, where = sum(each.ready for each in paused), _count(len(paused), "partition")
    waiting = f": {_count(messages, 'message')} {_verb(messages, 'wait')} on {where}" if paused else ""
    return f"paused by a rebalance for {_span(facts.rebalancing_for)}{whom}{waiting}"


def _no_partition(facts: GroupFacts) -> str | None:
    if facts.member is None or facts.partitions:
        return None
    members, partitions = facts.others + 1, facts.partitions_of_others
    return (
        f"{facts.member} has no partition: {_count(members, 'member')} {_verb(members, 'share')} "
        f"{_count(partitions, 'partition')}"
    )


# Something is ready


def _delivering(facts: GroupFacts) -> str | None:
    """All is well: something goes out, and there is more."""
    ready = _ready(facts)
    ages = [each.last_delivery.age for each in ready if each.last_delivery is not None]
    return _going_on(facts) if any(age < QUIET_SECONDS for age in ages) else None


def _damage_ahead(facts: GroupFacts) -> str | None:
    """Streams stop there; queue groups go round it."""
    blocked = [each for each in facts.partitions if each.stands_before_damage]
    others = [each for each in _ready(facts) if not each.stands_before_damage]
    if not facts.is_stream or not blocked or others:
        return None
    first = blocked[0]
    return f"{_damage_of(first)}; an operator has to skip {_verb(first.damaged, 'it', 'them')}"


def _alone(facts: GroupFacts) -> str | None:
    ready = _ready(facts)
    for each in ready:
        takers = facts.takers_of(each)
        if each.alone_waits and all(taker.holds for taker in takers):
            holder = takers[0]
            return (
                f"a message of {each.name} must be delivered alone, and waits until {holder.id} has settled the "
                f"{_count(holder.holds, 'message')} that it holds"
            )
    takers = _takers(facts, ready)
    if takers and all(taker.holds_alone for taker in takers):
        return (
            f"{takers[0].id} holds a message that was delivered alone, and is given nothing else until it has "
            f"settled it: {_waits_for(facts, takers[0])}"
        )
    return None


def _connection_lost(facts: GroupFacts) -> str | None:
    slowest = _slowest(facts)
    if slowest is None or slowest.is_connected:
        return None
    return (
        f"the connection of {slowest.id} is lost, and it was last heard of {_span(slowest.silent_for)} ago: "
        f"{_waits_for(facts, slowest)}"
    )


def _busy(facts: GroupFacts) -> str | None:
    slowest = _slowest(facts)
    if slowest is None or not slowest.holds:
        return None
    return (
        f"{slowest.id} holds {_count(slowest.holds, 'message')} unsettled and has not asked for more "
        f"{_since(slowest)} (its credit is used up, or its program is busy): {_waits_for(facts, slowest)}"
    )


def _not_asking(facts: GroupFacts) -> str | None:
    slowest = _slowest(facts)
    if slowest is None:
        return None
    return f"{slowest.id} has not asked for messages {_since(slowest)}: {_waits_for(facts, slowest)}"


def _about_to(facts: GroupFacts) -> str | None:
    return _going_on(facts) if _ready(facts) else None


def _going_on(facts: GroupFacts) -> str:
    given = [each.last_delivery for each in facts.partitions if each.last_delivery is not None]
    last = min(given, key=lambda each: each.age, default=None)
    went = "" if last is None else f"the last {_span(last.age)} ago to {last.member}, "
    flying = sum(each.in_flight for each in facts.partitions)
    return f"messages are being delivered: {went}{flying:,} in flight, lag {_lag(facts.partitions):,}{_but(facts)}"


# Nothing is ready


def _no_answer(facts: GroupFacts) -> str | None:
    silent = [each for each in facts.partitions if each.trouble is not None]
    if not silent:
        return None
    first, rest = silent[0], len(silent) - 1
    others = f", and {_count(rest, 'other')} {_verb(rest, 'does', 'do')} not either" if rest else ""
    trouble = (first.trouble or "")[:TROUBLE_LENGTH_MAX]
    return f"partition {first.name} does not answer{others}: {trouble}"


def _unsynced(facts: GroupFacts) -> str | None:
    messages = sum(each.unsynced for each in facts.partitions)
    if not messages:
        return None
    return f"{_count(messages, 'message')} {_verb(messages, 'is', 'are')} published and not on disk yet"


def _behind_keys(facts: GroupFacts) -> str | None:
    messages, flying = sum(each.behind_keys for each in facts.partitions), _flying(facts)
    if not messages:
        return None
    full = [each.name for each in facts.partitions if each.looks_no_further]
    further = f"; on {_names(full)} so many wait that no more are looked at" if full else ""
    at_work = f", {flying:,} in flight{_held(facts)}" if flying else ""
    return (
        f"{_count(messages, 'message')} {_verb(messages, 'wait')} behind earlier ones of the same key"
        f"{at_work}{_and_retries(facts)}{further}"
    )


def _flying(facts: GroupFacts) -> int:
    return sum(each.in_flight for each in facts.partitions)


def _in_flight(facts: GroupFacts) -> str | None:
    messages = _flying(facts)
    if not messages:
        return None
    return (
        f"everything that is there is in flight: {_count(messages, 'message')}{_held(facts)}{_and_retries(facts)}"
    )


def _held(facts: GroupFacts) -> str:
    leases = [each.oldest_lease for each in facts.partitions if each.oldest_lease is not None]
    oldest: OldestLease | None = max(leases, key=lambda each: each.held_for, default=None)
    if oldest is None:
        return ""
    held = f"held by {oldest.member} for {_span(oldest.held_for)}"
    return f", the oldest lease {held}, ends in {_span(oldest.ends_in)}"


def _and_retries(facts: GroupFacts) -> str:
    retries = _retries(facts)
    return f"; {retries}" if retries is not None else ""


def _retries(facts: GroupFacts) -> str | None:
    messages = sum(each.waiting for each in facts.partitions)
    if not messages:
        return None
    dues = [each.next_retry_in for each in facts.partitions if each.next_retry_in is not None]
    following = f", the next in {_span(min(dues))}" if dues else ""
    their = _verb(messages, "waits for its retry", "wait for their retry")
    return f"{_count(messages, 'message')} {their}{following}"


def _dead_letters(facts: GroupFacts) -> str | None:
    messages = sum(each.leaving for each in facts.partitions)
    if not messages:
        return None
    return f"{_count(messages, 'message')} {_verb(messages, 'is', 'are')} on the way to the dead-letter topic"


def _only_damage(facts: GroupFacts) -> str | None:
    damaged = [each for each in facts.partitions if each.damaged]
    return f"nothing else is left: {_damage_of(damaged[0])}" if damaged else None


def _unread(facts: GroupFacts) -> str | None:
    """The group began on them, and nobody in it wants them any more."""
    left = [each for each in facts.partitions if each.ready]
    if not left:
        return None
    messages, topics = sum(each.ready for each in left), sorted({each.topic for each in left})
    return f"{_count(messages, 'message')} of {_names(topics)} {_verb(messages, 'wait')}, which no member reads"


def _nothing_left(facts: GroupFacts) -> str | None:
    times = [each.last_message for each in facts.partitions if each.last_message is not None]
    last = min(times, key=lambda each: each.age, default=None)
    to = "" if facts.member is None else f" to {facts.member}"
    on = "" if facts.member is None else f" on its {_count(len(facts.partitions), 'partition')}"
    if last is None:
        return f"nothing is left to deliver{to}: nothing was ever published{on}"
    return f"nothing is left to deliver{to}: the last message{on} was published at {last.at}, {_span(last.age)} ago"


RULES: dict[str, Rule] = {
    "no_members": _no_members,
    "no_topic": _no_topic,
    "not_begun": _not_begun,
    "rebalancing": _rebalancing,
    "no_partition": _no_partition,
    "delivering": _delivering,
    "damage_ahead": _damage_ahead,
    "alone": _alone,
    "connection_lost": _connection_lost,
    "busy": _busy,
    "not_asking": _not_asking,
    "about_to_deliver": _about_to,
    "no_answer": _no_answer,
    "unsynced": _unsynced,
    "behind_keys": _behind_keys,
    "in_flight": _in_flight,
    "retries": _retries,
    "dead_letters": _dead_letters,
    "only_damage": _only_damage,
    "unread": _unread,
    "nothing_left": _nothing_left,
}


# Who and where


def _taken(facts: GroupFacts) -> list[PartitionFacts]:
    """Those that somebody takes from."""
    return [each for each in facts.partitions if facts.takers_of(each)]


def _ready(facts: GroupFacts) -> list[PartitionFacts]:
    return [each for each in _taken(facts) if each.ready]


def _takers(facts: GroupFacts, partitions: Iterable[PartitionFacts]) -> list[MemberFacts]:
    return list({taker.id: taker for each in partitions for taker in facts.takers_of(each)}.values())


def _slowest(facts: GroupFacts) -> MemberFacts | None:
    """Whose silence it is: of those for whom something is ready, the one with the most; None when one is asking."""
    takers = _takers(facts, _ready(facts))
    if any(each.is_connected and each.asked_ago is not None and each.asked_ago < QUIET_SECONDS for each in takers):
        return None
    return max(takers, key=lambda each: _ready_for(facts, each), default=None)


def _ready_for(facts: GroupFacts, member: MemberFacts) -> int:
    return sum(each.ready for each in _ready(facts) if member in facts.takers_of(each))


def _waits_for(facts: GroupFacts, member: MemberFacts) -> str:
    messages = _ready_for(facts, member)
    return f"{_count(messages, 'message')} {_verb(messages, 'wait')} for it{_but(facts)}"


def _lag(partitions: Iterable[PartitionFacts]) -> int:
    return sum(each.lag for each in partitions)


# Words


def _one_line(text: str) -> str:
    """Names are what others chose: what is not printable is escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _but(facts: GroupFacts) -> str:
    """What goes wrong beside the reason."""
    silent = sum(each.trouble is not None for each in facts.partitions)
    return f"; {_count(silent, 'partition')} {_verb(silent, 'does', 'do')} not answer" if silent else ""


def _damage_of(partition: PartitionFacts) -> str:
    offsets = f"{_count(partition.damaged, 'offset')} of {partition.name}"
    return f"{offsets} {_verb(partition.damaged, 'is', 'are')} damaged, from {partition.damaged_at} on"


def _since(member: MemberFacts) -> str:
    if member.asked_ago is None:
        return f"since it joined {_span(member.member_for)} ago"
    return f"for {_span(member.asked_ago)}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _verb(number: int, one: str, many: str | None = None) -> str:
    """Of verbs that take an s only the form of many is given."""
    if many is None:
        return f"{one}s" if number == 1 else one
    return one if number == 1 else many


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(listed[:NAMES_MAX]) or "nothing"
    return f"{shown} and {len(listed) - NAMES_MAX:,} more" if len(listed) > NAMES_MAX else shown


def _span(seconds: float) -> str:
    """Exact enough to act on: tenths below ten seconds, and the two largest units above two minutes."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min {int(seconds % 60)} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"

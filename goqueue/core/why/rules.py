"""Why nothing is being delivered to a group, or to one of its members: facts in, one sentence out.

The rules are asked in their order, the most telling first, and the first that has a sentence is the answer. So a
rule may take for granted that those before it had none. Three questions follow each other:

    can anything be delivered at all?     members, topics, partitions, a rebalance
    something is ready: who does not take it, and why?
    nothing is ready: where is everything?

A new reason is a function and its position in `RULES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from goqueue.core.ledger.shares import GUARD_SECONDS
from goqueue.core.why import streams as whystreams
from goqueue.core.why.facts import GroupFacts, OldestLease, PartitionFacts
from goqueue.core.why.takers import but, is_recent, lag_of, ready_in, since, slowest_in, takers_in, waits_for
from goqueue.core.why.words import counted, listed, one_line, span, verb

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
            return Explanation(reason, one_line(text + _kept_for_it(facts)))
    raise AssertionError("the last rule always has a sentence")


def _kept_for_it(facts: GroupFacts) -> str:
    """What waits for a group fills the disk, where acks decide what is removed."""
    keeping = [each for each in facts.partitions if each.kept_segments]
    if facts.member is not None or not keeping:
        return ""
    segments, size = sum(each.kept_segments for each in keeping), sum(each.kept_bytes for each in keeping)
    where = listed(each.name for each in keeping)
    return (
        f"; {counted(segments, 'segment')} of {where} ({size:,} bytes) {verb(segments, 'stays', 'stay')} until the "
        f"group is done with {verb(segments, 'it', 'them')} (retention=acked)"
    )


# Can anything be delivered at all?


def _no_members(facts: GroupFacts) -> str | None:
    if facts.members:
        return None
    waiting = [each for each in facts.partitions if each.lag]
    if not waiting:
        delayed, _ = _pending(facts)
        but = f" but {counted(delayed, 'delayed message')}" if delayed else ""
        return f"the group has no members, and nothing waits for it{but}"
    on = f"on {counted(len(waiting), 'partition')}"
    return f"the group has no members: {counted(lag_of(waiting), 'message')} {verb(lag_of(waiting), 'wait')} {on}"


def _no_topic(facts: GroupFacts) -> str | None:
    if any(each.topics for each in facts.members):
        return None
    asked = sorted({name for each in facts.members for name in each.asks_for})
    who = facts.member or "any member"
    return f"there is no topic for {who} to read: none is or fits {listed(asked)}"


def _not_begun(facts: GroupFacts) -> str | None:
    if facts.partitions or facts.partitions_of_others:
        return None
    topics = sorted({name for each in facts.members for name in each.topics})
    return f"the group has not begun to read {listed(topics)} yet"


def _rebalancing(facts: GroupFacts) -> str | None:
    paused = [each for each in facts.partitions if each.owner is None and each.untaken]
    is_left_out = facts.member is not None and not facts.partitions
    if facts.rebalancing_for is None or ready_in(facts) or not (paused or is_left_out):
        return None
    whom = f", waiting for {listed(facts.letting_go)} to let go" if facts.letting_go else ""
    messages, where = sum(each.untaken for each in paused), counted(len(paused), "partition")
    waiting = f": {counted(messages, 'message')} {verb(messages, 'wait')} on {where}" if paused else ""
    return f"paused by a rebalance for {span(facts.rebalancing_for)}{whom}{waiting}"


def _no_partition(facts: GroupFacts) -> str | None:
    if facts.member is None or facts.partitions:
        return None
    members, partitions = facts.others + 1, facts.partitions_of_others
    return (
        f"{facts.member} has no partition: {counted(members, 'member')} {verb(members, 'share')} "
        f"{counted(partitions, 'partition')}"
    )


# Something is ready


def _damage_ahead(facts: GroupFacts) -> str | None:
    """Streams stop there; queue groups go round it."""
    blocked = [each for each in facts.partitions if each.stands_before_damage]
    others = [each for each in ready_in(facts) if not each.stands_before_damage]
    if not facts.is_stream or not blocked or others:
        return None
    first = blocked[0]
    return f"{_damage_of(first)}; {_cure_of(facts, first)}"


def _delivering(facts: GroupFacts) -> str | None:
    """All is well: messages are delivered, and there are more."""
    given = [each.last_delivery for each in ready_in(facts) if each.last_delivery is not None]
    return _going_on(facts) if any(is_recent(each.age) for each in given) else None


def _alone(facts: GroupFacts) -> str | None:
    ready = ready_in(facts)
    for each in ready:
        takers = facts.takers_of(each)
        if each.alone_waits and all(taker.holds for taker in takers):
            holder = takers[0]
            return (
                f"a message of {each.name} must be delivered alone, and waits until {holder.id} has settled the "
                f"{counted(holder.holds, 'message')} that it holds"
            )
    takers = takers_in(facts, ready)
    if takers and all(taker.holds_alone for taker in takers):
        return (
            f"{takers[0].id} holds a message that was delivered alone, and is given nothing else until it has "
            f"settled it: {waits_for(facts, takers[0])}"
        )
    return None


def _connection_lost(facts: GroupFacts) -> str | None:
    slowest = slowest_in(facts)
    if slowest is None or slowest.is_connected:
        return None
    return (
        f"the connection of {slowest.id} is lost, and it was last heard of {span(slowest.silent_for)} ago: "
        f"{waits_for(facts, slowest)}"
    )


def _busy(facts: GroupFacts) -> str | None:
    slowest = slowest_in(facts)
    if slowest is not None and facts.is_stream:
        return whystreams.busy(facts, slowest)
    if slowest is None or not slowest.holds:
        return None
    return (
        f"{slowest.id} holds {counted(slowest.holds, 'message')} unsettled and has not asked for more "
        f"{since(slowest, slowest.asked_ago)} (its credit is used up, or its program is busy): "
        f"{waits_for(facts, slowest)}"
    )


def _not_asking(facts: GroupFacts) -> str | None:
    slowest = slowest_in(facts)
    if slowest is None:
        return None
    if facts.is_stream:
        return whystreams.not_asking(facts, slowest)
    return (
        f"{slowest.id} has not asked for messages {since(slowest, slowest.asked_ago)}: {waits_for(facts, slowest)}"
    )


def _about_to(facts: GroupFacts) -> str | None:
    return _going_on(facts) if ready_in(facts) else None


def _going_on(facts: GroupFacts) -> str:
    last = facts.last_delivery
    if facts.is_stream:
        return whystreams.going_on(facts, last)
    went = "" if last is None else f"the last {span(last.age)} ago to {last.member}, "
    flying = sum(each.in_flight for each in facts.partitions)
    said = f"messages are being delivered: {went}{flying:,} in flight, lag {lag_of(facts.partitions):,}{but(facts)}"
    return said + _lane_that_waits(facts)


def _lane_that_waits(facts: GroupFacts) -> str:
    """Nothing starves silently."""
    waits = [(each.lane_wait.seconds, each) for each in facts.partitions if each.lane_wait is not None]
    if not waits:
        return ""
    seconds, longest = max(waits, key=lambda wait: wait[0])
    assert longest.lane_wait is not None
    return (
        f"; {longest.lane_wait.priority} messages of {longest.name} wait for {span(seconds)} while other "
        f"priorities are served, and for {span(GUARD_SECONDS)} at most"
    )


# Nothing is ready


def _no_answer(facts: GroupFacts) -> str | None:
    silent = [each for each in facts.partitions if each.trouble is not None]
    if not silent:
        return None
    first, rest = silent[0], len(silent) - 1
    others = f", and {counted(rest, 'other')} {verb(rest, 'does', 'do')} not either" if rest else ""
    trouble = (first.trouble or "")[:TROUBLE_LENGTH_MAX]
    return f"partition {first.name} does not answer{others}: {trouble}"


def _unsynced(facts: GroupFacts) -> str | None:
    messages = sum(each.unsynced for each in facts.partitions)
    if not messages:
        return None
    return f"{counted(messages, 'message')} {verb(messages, 'is', 'are')} published and not on disk yet"


def _behind_keys(facts: GroupFacts) -> str | None:
    messages, flying = sum(each.behind_keys for each in facts.partitions), _flying(facts)
    if not messages:
        return None
    at_work = f", {flying:,} in flight{_held(facts)}" if flying else ""
    return (
        f"{counted(messages, 'message')} {verb(messages, 'wait')} behind earlier ones of the same key"
        f"{_longest_backlog(facts)}{at_work}{_and_retries(facts)}{_further(facts)}"
    )


def _further(facts: GroupFacts) -> str:
    """Their keys are unknown."""
    full = [each for each in facts.partitions if each.not_looked_at]
    if not full:
        return ""
    messages, names = sum(each.not_looked_at for each in full), listed(each.name for each in full)
    return f"; {messages:,} more of {names} {verb(messages, 'is', 'are')} not looked at while so many wait"


def _longest_backlog(facts: GroupFacts) -> str:
    found = facts.longest_backlog
    if found is None:
        return ""
    name, row = found
    return f", {row.waiting:,} of them behind key {row.key} ({name} at offset {row.offset})"


def _flying(facts: GroupFacts) -> int:
    return sum(each.in_flight for each in facts.partitions)


def _in_flight(facts: GroupFacts) -> str | None:
    messages = _flying(facts)
    if not messages:
        return None
    return (
        f"everything that is there is in flight: {counted(messages, 'message')}{_held(facts)}{_and_retries(facts)}"
    )


def _held(facts: GroupFacts) -> str:
    leases = [each.oldest_lease for each in facts.partitions if each.oldest_lease is not None]
    oldest: OldestLease | None = max(leases, key=lambda each: each.held_for, default=None)
    if oldest is None:
        return ""
    held = f"held by {oldest.member} for {span(oldest.held_for)}"
    return f"{_ahead(facts)}, the oldest lease {held}, ends in {span(oldest.ends_in)}"


def _ahead(facts: GroupFacts) -> str:
    messages = sum(each.not_begun for each in facts.partitions)
    return f", {messages:,} of them held ahead and not begun" if messages else ""


def _and_retries(facts: GroupFacts) -> str:
    retries = _retries(facts)
    return f"; {retries}" if retries is not None else ""


def _retries(facts: GroupFacts) -> str | None:
    messages = sum(each.waiting for each in facts.partitions)
    if not messages:
        return None
    dues = [each.next_retry_in for each in facts.partitions if each.next_retry_in is not None]
    following = f", the next in {span(min(dues))}" if dues else ""
    their = verb(messages, "waits for its retry", "wait for their retry")
    return f"{counted(messages, 'message')} {their}{following}"


def _dead_letters(facts: GroupFacts) -> str | None:
    messages = sum(each.leaving for each in facts.partitions)
    if not messages:
        return None
    return f"{counted(messages, 'message')} {verb(messages, 'is', 'are')} on the way to the dead-letter topic"


def _only_damage(facts: GroupFacts) -> str | None:
    damaged = [each for each in facts.partitions if each.damaged]
    if not damaged:
        return None
    return f"nothing else is left: {_damage_of(damaged[0])}; {_cure_of(facts, damaged[0])}"


def _unread(facts: GroupFacts) -> str | None:
    """The group has begun on these, and no member reads them any more."""
    left = [each for each in facts.partitions if each.ready]
    if not left:
        return None
    messages, topics = sum(each.ready for each in left), sorted({each.topic for each in left})
    return f"{counted(messages, 'message')} of {listed(topics)} {verb(messages, 'wait')}, which no member reads"


def _delayed(facts: GroupFacts) -> str | None:
    messages, dues = _pending(facts)
    if not messages:
        return None
    following = f", the next in {span(dues[0])}" if dues else ""
    return (
        f"nothing is left to deliver{_to(facts)} for now: {counted(messages, 'message')}{_on(facts)} "
        f"{verb(messages, 'waits for its time', 'wait for their time')}{following}"
    )


def _pending(facts: GroupFacts) -> tuple[int, list[float]]:
    dues = sorted(each.next_due_in for each in facts.partitions if each.next_due_in is not None)
    return sum(each.delayed for each in facts.partitions), dues


def _to(facts: GroupFacts) -> str:
    return "" if facts.member is None else f" to {facts.member}"


def _on(facts: GroupFacts) -> str:
    return "" if facts.member is None else f" on its {counted(len(facts.partitions), 'partition')}"


def _nothing_left(facts: GroupFacts) -> str | None:
    times = [each.last_message for each in facts.partitions if each.last_message is not None]
    last = min(times, key=lambda each: each.age, default=None)
    to, on = _to(facts), _on(facts)
    if last is None:
        return f"nothing is left to deliver{to}: nothing was ever published{on}"
    return f"nothing is left to deliver{to}: the last message{on} was published at {last.at}, {span(last.age)} ago"


RULES: dict[str, Rule] = {
    "no_members": _no_members,
    "no_topic": _no_topic,
    "not_begun": _not_begun,
    "rebalancing": _rebalancing,
    "no_partition": _no_partition,
    "damage_ahead": _damage_ahead,
    "delivering": _delivering,
    "alone": _alone,
    "connection_lost": _connection_lost,
    "busy": _busy,
    "not_asking": _not_asking,
    "about_to_deliver": _about_to,
    "no_answer": _no_answer,
    "unsynced": _unsynced,
    "behind_keys": _behind_keys,
    "in_flight": _in_flight,
    "uncommitted": whystreams.uncommitted,
    "retries": _retries,
    "dead_letters": _dead_letters,
    "only_damage": _only_damage,
    "unread": _unread,
    "delayed": _delayed,
    "nothing_left": _nothing_left,
}


def _damage_of(partition: PartitionFacts) -> str:
    offsets = f"{counted(partition.damaged, 'message')} of {partition.name}"
    place = f" in {partition.damaged_file}" if partition.damaged_file else ""
    return f"{offsets} {verb(partition.damaged, 'is', 'are')} damaged, from offset {partition.damaged_at} on{place}"


def _cure_of(facts: GroupFacts, partition: PartitionFacts) -> str:
    them = verb(partition.damaged, "it", "them")
    return f"restore the file, or give {them} up with `goqueue group skip {facts.name} {partition.name} FROM-TO`"

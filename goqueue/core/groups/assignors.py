"""Assignors: three ways to share the partitions of all topics among the members of a group.

    range        each topic in runs of neighbouring partitions, one run for each of its readers
    roundrobin   all partitions in order, one after the other to the next member that reads the topic
    sticky       everyone keeps what they have, as far as that is fair

Members may read different topics. All three end in the same pass, which evens out: while a member can hand a
partition on, directly or through other members that hand on one of theirs, to a member with at least two fewer,
this is done along the shortest such way. When no way is left, no assignment is more even. The pass begins with the
member that has most. Once it finds no way from there, all members that it could reach have nearly as many as it
has, can reach no others, and gain nothing later: they are done for good, so the work is bounded by members and
moves.

If all members read the same topics, every way has one step, and totals differ by one at most. Sticky then makes the
fewest possible moves: partitions without an owner go to the members with least, and only those that are still too
many at one member and missing at another move.

The same input gives the same answer whatever the order of its maps and sets.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple, TypeAlias


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    @property
    def label(self) -> str:
        return f"{self.topic}/{self.partition}"


Assignment: TypeAlias = frozenset[TopicPartition]


def assign(
    name: str,
    members: Mapping[str, frozenset[str]],
    partitions: Mapping[str, int],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """The new assignment of each member. `members` are the topics that each one reads, `partitions` how many a
    topic has, `current` what each one holds now; partitions that it can no longer hold do not count."""
    shares = _Shares(members, partitions)
    _BEGINNINGS[name](shares, current)
    _even_out(shares)
    return {member: frozenset(shares.partitions_of(member)) for member in members}


class _Shares:
    """An assignment in the making. A member hands on first what it got last, so that it keeps what it had
    before."""

    def __init__(self, members: Mapping[str, frozenset[str]], partitions: Mapping[str, int]) -> None:
        self.members = sorted(members)
        self.readers = _readers_by_topic(members, partitions)
        self.partitions = {topic: partitions[topic] for topic in self.readers}
        self.counts = dict.fromkeys(self.members, 0)
        self.held: dict[str, dict[str, list[int]]] = {member: {} for member in self.members}

    def give(self, member: str, topic: str, numbers: Iterable[int]) -> None:
        held = self.held[member].setdefault(topic, [])
        before = len(held)
        held.extend(numbers)
        self.counts[member] += len(held) - before

    def hand_on(self, giver: str, receiver: str, topic: str) -> None:
        held = self.held[giver][topic]
        number = held.pop()
        if not held:
            del self.held[giver][topic]
        self.counts[giver] -= 1
        self.give(receiver, topic, [number])

    def partitions_of(self, member: str) -> Iterable[TopicPartition]:
        return (TopicPartition(topic, number) for topic, held in self.held[member].items() for number in held)


def _readers_by_topic(
    members: Mapping[str, frozenset[str]], partitions: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    """The topics that have readers, in order of name. Topics with the same readers share one tuple."""
    readers: dict[str, list[str]] = {topic: [] for topic in sorted(partitions)}
    for member in sorted(members):
        for topic in members[member] & readers.keys():
            readers[topic].append(member)
    same: dict[tuple[str, ...], tuple[str, ...]] = {}
    found = ((topic, tuple(names)) for topic, names in readers.items() if names)
    return {topic: same.setdefault(names, names) for topic, names in found}


# How each one begins


def _range(shares: _Shares, _current: Mapping[str, Assignment]) -> None:
    """The longer runs go to the members that have least so far, not to the first of every topic again."""
    for topic, readers in shares.readers.items():
        length, longer = divmod(shares.partitions[topic], len(readers))
        favoured = set(sorted(readers, key=shares.counts.__getitem__)[:longer])
        begin = 0
        for member in readers:
            end = begin + length + (member in favoured)
            if end > begin:
                shares.give(member, topic, range(begin, end))
            begin = end


def _roundrobin(shares: _Shares, _current: Mapping[str, Assignment]) -> None:
    turn = 0
    for topic, readers in shares.readers.items():
        reading = set(readers)
        for number in range(shares.partitions[topic]):
            while shares.members[turn % len(shares.members)] not in reading:
                turn += 1
            shares.give(shares.members[turn % len(shares.members)], topic, [number])
            turn += 1


def _sticky(shares: _Shares, current: Mapping[str, Assignment]) -> None:
    free = {topic: set(range(count)) for topic, count in shares.partitions.items()}
    for member in shares.members:
        for topic, number in sorted(current.get(member, ())):
            if number in free.get(topic, ()) and member in shares.readers[topic]:
                free[topic].remove(number)
                shares.give(member, topic, [number])
    for topic in sorted(free, key=lambda each: (len(shares.readers[each]), each)):
        _give_to_those_with_least(shares, topic, sorted(free[topic]))


def _give_to_those_with_least(shares: _Shares, topic: str, numbers: Iterable[int]) -> None:
    by_count = [(shares.counts[member], member) for member in shares.readers[topic]]
    heapify(by_count)
    for number in numbers:
        count, member = by_count[0]
        shares.give(member, topic, [number])
        heapreplace(by_count, (count + 1, member))


_BEGINNINGS: dict[str, Callable[[_Shares, Mapping[str, Assignment]], None]] = {
    "range": _range,
    "roundrobin": _roundrobin,
    "sticky": _sticky,
}


# How all end


def _even_out(shares: _Shares) -> None:
    most = [(-count, member) for member, count in shares.counts.items()]
    heapify(most)
    done: set[str] = set()
    while most and -most[0][0] - min(shares.counts.values()) >= 2:
        count, giver = heappop(most)
        if giver in done or -count != shares.counts[giver]:
            continue
        way, reached = _find_way(shares, giver)
        if not way:
            done |= reached
            continue
        for one, topic, other in way:
            shares.hand_on(one, other, topic)
        for member in (giver, way[-1][2]):
            heappush(most, (-shares.counts[member], member))


_Step: TypeAlias = tuple[str, str, str]
"""The member that hands on a partition, the topic of the partition, and the member that gets it."""


def _find_way(shares: _Shares, giver: str) -> tuple[list[_Step], set[str]]:
    """The shortest way to a member with at least two fewer, of these to the one with least; and the members
    reached."""
    steps: dict[str, _Step] = {}
    reached, seen = {giver}, set[int]()
    level = [giver]
    while level:
        level = _next_level(shares, level, reached, seen, steps)
        nearest = min(level, key=shares.counts.__getitem__, default=giver)
        if shares.counts[nearest] <= shares.counts[giver] - 2:
            return _steps_to(nearest, steps), reached
    return [], reached


def _next_level(
    shares: _Shares, level: list[str], reached: set[str], seen: set[int], steps: dict[str, _Step]
) -> list[str]:
    following = []
    for member in level:
        for topic in shares.held[member]:
            readers = shares.readers[topic]
            if id(readers) in seen:
                continue
            seen.add(id(readers))
            for reader in readers:
                if reader not in reached:
                    reached.add(reader)
                    steps[reader] = (member, topic, reader)
                    following.append(reader)
    return following


def _steps_to(member: str, steps: dict[str, _Step]) -> list[_Step]:
    way = []
    while member in steps:
        way.append(steps[member])
        member = steps[member][0]
    return way[::-1]

"""The owners of a group's partitions, and the owners to be: the part of a rebalance that takes time.

Each partition has at most one owner. A new aim says which member should own what; the owners follow it in one of
three ways:

    AT_ONCE        the new owner takes over in the same step. Queue groups: leases stay with the partition
    ONE_BY_ONE     an owner that is to lose a partition lets go of it first; the others do not notice. Streams
    ALL_TOGETHER   everybody lets go of everything first, and then all is given out anew. Eager groups

An owner that lets go is still the owner: it may commit what it has read. It has 60 seconds from when it was first
asked for that partition, however often the aim changes meanwhile, so that a rebalance always ends. Then the
partition is taken from it. A member that is gone need not let go.

A new aim may bring a partition back to the owner that was asked to let go of it. Then it just stays: no other
member has had it.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto

from goqueue.core.groups.assignors import Assignment, TopicPartition

LETTING_GO_SECONDS_MAX = 60.0


class Handover(Enum):
    AT_ONCE = auto()
    ONE_BY_ONE = auto()
    ALL_TOGETHER = auto()


class Ownership:
    def __init__(self) -> None:
        self._aim: dict[TopicPartition, str] = {}
        self._owners: dict[TopicPartition, str] = {}
        self._letting_go: dict[TopicPartition, float] = {}
        """The time until which the owner must let go, for some of the owned partitions."""

    @property
    def is_settled(self) -> bool:
        return not self._letting_go

    def owners(self) -> dict[TopicPartition, str]:
        return dict(self._owners)

    def aimed_at(self) -> dict[str, Assignment]:
        """What each member is to have in the end."""
        return _by_member(self._aim.items())

    def held(self) -> dict[str, Assignment]:
        """What each member has now, what it lets go of included."""
        return _by_member(self._owners.items())

    def let_go_by(self) -> dict[str, Assignment]:
        """What each member was asked to let go of, and has not yet."""
        return _by_member((partition, self._owners[partition]) for partition in self._letting_go)

    def next_deadline(self) -> float | None:
        return min(self._letting_go.values(), default=None)

    # Events. `follow` puts them into effect.

    def restore(self, held: Mapping[str, Assignment]) -> None:
        """What each member had before the broker started, if no member has anything yet."""
        for member, partitions in held.items():
            for partition in partitions:
                self._owners.setdefault(partition, member)
        self._aim = dict(self._owners)

    def aim(self, aim: Mapping[TopicPartition, str], handover: Handover, now: float) -> None:
        changed = aim != self._aim
        self._aim = dict(aim)
        if handover is Handover.ALL_TOGETHER:
            self._ask(self._owners if changed else self._letting_go, now)
        else:
            misplaced = [key for key, owner in self._owners.items() if self._aim.get(key) != owner]
            self._ask(misplaced, now)

    def let_go(self, member: str) -> None:
        """The member has let go of all that it was asked to."""
        self._free([key for key in self._letting_go if self._owners[key] == member])

    def member_gone(self, member: str) -> None:
        self._free([key for key, owner in self._owners.items() if owner == member])

    def keep_only(self, exists: Callable[[TopicPartition], bool]) -> None:
        """The other partitions are gone: no member lets go of them, and none gets them."""
        self._free([key for key in self._owners if not exists(key)])
        self._aim = {key: member for key, member in self._aim.items() if exists(key)}

    def time_passed(self, now: float) -> None:
        self._free([key for key, until in self._letting_go.items() if until <= now])

    def follow(self, handover: Handover) -> None:
        """Give out the partitions that can be given out now."""
        if handover is Handover.AT_ONCE:
            self._free(list(self._letting_go))
        if handover is Handover.ALL_TOGETHER and self._letting_go:
            return
        for partition, member in self._aim.items():
            self._owners.setdefault(partition, member)

    def _ask(self, partitions: Iterable[TopicPartition], now: float) -> None:
        until = now + LETTING_GO_SECONDS_MAX
        self._letting_go = {key: self._letting_go.get(key, until) for key in partitions}

    def _free(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            del self._owners[partition]
            self._letting_go.pop(partition, None)


def _by_member(pairs: Iterable[tuple[TopicPartition, str]]) -> dict[str, Assignment]:
    gathered: dict[str, set[TopicPartition]] = {}
    for partition, member in pairs:
        gathered.setdefault(member, set()).add(partition)
    return {member: frozenset(partitions) for member, partitions in gathered.items()}

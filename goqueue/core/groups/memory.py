"""The members of a group and what each of them owned, as a broker remembers them across a restart.

It is a hint, and may be a second old. It decides for which members partitions are kept, never which may read: that
is decided by the generations that are given out after the start, none of which was given out before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from goqueue.core.groups.assignors import Assignment, TopicPartition
from goqueue.core.groups.subscription import Subscription

MEMBERS_REMEMBERED_MAX = 1_000
PARTITIONS_REMEMBERED_MAX = 10_000
"""Limits for one group. Larger groups are not remembered, so a change of members writes some 100 KiB at most."""


@dataclass(frozen=True, slots=True)
class RememberedMember:
    id: str
    client: str
    subscription: Subscription
    assignment: Assignment

    def to_plain(self) -> list[Any]:
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(self.assignment):
            numbers.setdefault(topic, []).append(number)
        return [self.id, self.client, self.subscription.to_plain(), list(map(list, numbers.items()))]

    @classmethod
    def from_plain(cls, plain: Sequence[Any]) -> "RememberedMember":
        member, client, subscription, numbers = plain[:4]
        assignment = frozenset(TopicPartition(str(topic), int(each)) for topic, some in numbers for each in some)
        return cls(str(member), str(client), Subscription.to(subscription), assignment)


def worth_remembering(members: Iterable[RememberedMember]) -> tuple[RememberedMember, ...]:
    """The members in order of their ids; none of a group that is too large."""
    found = sorted(members, key=lambda each: each.id)
    partitions = sum(len(each.assignment) for each in found)
    is_small = len(found) <= MEMBERS_REMEMBERED_MAX and partitions <= PARTITIONS_REMEMBERED_MAX
    return tuple(found) if is_small else ()

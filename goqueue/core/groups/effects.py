"""What a group wants done, in this order: members that are expelled or replaced, partitions that change hands,
members that are told.

A partition learns its owner before the owner hears of it, so that the first request of a new owner is not refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from goqueue.core.groups.assignors import Assignment


@dataclass(frozen=True, slots=True)
class Expelled:
    """A member is no more, and did not ask for it."""

    member: str
    reason: str
    was_absent: bool = False
    """No consumer acted for it."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """Only this consumer is the member now: what the one before it holds is lost, and it is given nothing more."""

    member: str
    instance: int
    before: int
    """The instance before; the same one, if it had closed and comes back."""


@dataclass(frozen=True, slots=True)
class Assign:
    """From now on only this member takes from, or commits to, the partition; None: no member."""

    topic: str
    partition: int
    member: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class Tell:
    """To be pushed to a member. `assignment` is all it may read now; a repeat changes nothing.

    `revoked` is what it must let go of. In stream mode, and in eager groups, it confirms that with this generation.
    """

    member: str
    generation: int
    assignment: Assignment
    revoked: Assignment = frozenset()


Effect: TypeAlias = Expelled | Replaced | Assign | Tell


def tells(effects: Iterable[Effect]) -> list[Tell]:
    return [effect for effect in effects if isinstance(effect, Tell)]

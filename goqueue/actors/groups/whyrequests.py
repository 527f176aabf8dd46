"""What a partition and a group are asked when somebody wants to know why nothing is delivered."""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from goqueue.actors.runtime.messages import Request
from goqueue.core.why.facts import GroupFacts, PartitionFacts


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """What a partition knows of a group. The owner is the group's to say."""

    partition: PartitionFacts
    held: Mapping[str, int]
    """Messages in flight by member."""
    held_alone: Set[str]
    asked_ago: Mapping[str, float]
    """Seconds since each member last asked here; 0 for who waits."""


@dataclass(frozen=True, slots=True)
class GatherLedgerFacts(Request[LedgerFacts | None]):
    """To a partition. None when the group has not begun there."""

    group: str


@dataclass(frozen=True, slots=True)
class GatherFacts(Request[GroupFacts]):
    """To a group: of all of it, or what concerns one member. `UnknownMember`."""

    member: str | None

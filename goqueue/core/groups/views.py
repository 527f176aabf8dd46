"""A group as its members and operators are shown it: plain values, which the front translates to the wire."""

from typing import NamedTuple

from goqueue.core.ledger.damage import DamagedRun
from goqueue.core.ledger.views import LaneFigures
from goqueue.errors import GoQueueError
from goqueue.types import Microseconds, Offset, Scalar


class OwnedPartition(NamedTuple):
    topic: str
    uuid: bytes
    partition: int


class MemberState(NamedTuple):
    """What a member has: it may receive from `assignment` in this generation, and lets go of `revoked`."""

    member: str
    generation: int
    settings: dict[str, Scalar]
    assignment: tuple[OwnedPartition, ...]
    revoked: tuple[OwnedPartition, ...] = ()


class DescribedMember(NamedTuple):
    member: str
    client: str
    subscription: tuple[str, ...]
    assignment: tuple[OwnedPartition, ...]
    member_for_ms: int
    silent_for_ms: int
    is_away: bool = False
    """Its connection ended, or it closed: its membership is kept for it."""
    address: str | None = None
    """The client's end of the connection over which it joined."""


class DescribedPartition(NamedTuple):
    """How far a group is with a partition. `lag` counts what is deliverable and not done."""

    topic: str
    partition: int
    member: str | None
    committed: Offset = 0
    end: Offset = 0
    lag: int = 0
    in_flight: int = 0
    waiting: int = 0
    """Messages that wait for their retry."""
    leaving: int = 0
    """Messages on their way to the dead-letter topic."""
    removed_unacked: int = 0
    oldest_unacked_ms: int | None = None
    error: GoQueueError | None = None
    lanes: tuple[LaneFigures, ...] = ()
    """One for each priority, the highest first."""
    damaged: int = 0
    """Messages that wait until the log can be read again. The lag does not count them."""
    damages: tuple[DamagedRun, ...] = ()
    progress_lost_at: Microseconds | None = None
    """When the journal of the partition's ledgers was found damaged or gone: messages are redelivered."""
    shown_before: Offset | None = None
    """If all progress was lost: the committed offset that was shown last."""


class DescribedGroup(NamedTuple):
    name: str
    state: str
    generation: int
    settings: dict[str, Scalar]
    members: tuple[DescribedMember, ...]
    partitions: tuple[DescribedPartition, ...]


class MovedOffset(NamedTuple):
    """A reset of one partition: the committed offset before and after."""

    topic: str
    partition: int
    before: Offset
    after: Offset

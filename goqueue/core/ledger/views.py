"""Views of a ledger: what may be delivered, and how far its group is."""

from dataclasses import dataclass
from typing import NamedTuple

from goqueue.core.ledger.attempts import AttemptRuns
from goqueue.core.ledger.damage import DamagedRun
from goqueue.core.ledger.shares import ENDLESS, Counts, LaneShares
from goqueue.types import Offset, Priority


class FreshLanes(NamedTuple):
    """Which lanes have fresh messages, or may have."""

    mask: int
    is_mixed: bool
    """True if more than one priority occurs at or after the slowest lane's position."""

    @property
    def lane(self) -> int:
        """The lowest lane of the mask; if it is not mixed, the only one."""
        return self.mask.bit_length() - 1 if self.mask else Priority.NORMAL


@dataclass(frozen=True, slots=True)
class Dealt:
    """How several lanes share a delivery."""

    now: float
    wanted: int
    counts: Counts
    work: Counts
    ready: tuple[AttemptRuns, ...]
    """For each lane its redeliveries, at most as many as are wanted."""
    shares: LaneShares

    def has_fresh(self, lane: int) -> bool:
        return self.work[lane] >= ENDLESS

    def further(self, taken: Counts, left: int, work: Counts) -> Counts:
        """How to share the rest of a delivery when some lanes had less than expected; `work` is what each still
        has."""
        shares = self.shares.copy()
        shares.took(self.now, taken, [count + more for count, more in zip(taken, work, strict=True)])
        return shares.allot(self.now, left, work)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a member may be delivered now."""

    again: AttemptRuns
    fresh_from: Offset
    fresh_max: int
    """Limit of the fresh messages that may follow the redeliveries."""
    look_max: int
    """Limit of the fresh messages to look at; those that are not delivered are held back."""
    is_alone: bool
    alone_waiting: bool
    """A message that must be delivered alone waits, and this member holds others: let it settle them first."""
    lane: int = Priority.NORMAL
    """The lane of the fresh messages, if there is only one."""
    dealt: Dealt | None = None
    """If several lanes have work: what each may have, in place of `fresh_from`. The limits hold for all lanes
    together."""


class LaneHeld(NamedTuple):
    """The messages of one lane that were delivered and are not done, dead letters apart."""

    in_flight: int
    ready: int
    first: Offset | None


class Progress(NamedTuple):
    committed: Offset
    """Everything below is done."""
    next_fresh: Offset
    """Every lane was scanned below this offset."""
    in_flight: int
    waiting: int
    ready_again: int
    leaving: int
    in_transfer: int
    removed_unacked: int
    first_unsettled: Offset | None
    """The first message that was delivered, or found damaged, and is not done; None: there is none."""
    ahead: int = 0
    """The number of offsets behind `next_fresh` that were scanned too, by lanes that are further."""
    damaged: int = 0
    """The number of messages that wait for a repair of the log. The lag does not count them."""
    damages: tuple[DamagedRun, ...] = ()

    @property
    def handed_out(self) -> int:
        """The number of messages that were delivered and are not done."""
        return self.in_flight + self.waiting + self.ready_again + self.leaving + self.in_transfer

    def lag(self, end: Offset, hidden: int = 0) -> int:
        """The number of messages before `end` that are not done. Unscanned offsets count as messages, but for
        `hidden` of them, which are known to be none."""
        return max(0, end - self.next_fresh - self.ahead - hidden) + self.handed_out


class LaneFigures(NamedTuple):
    """One lane of a partition, as a group has it."""

    ready: int | None
    """Messages to deliver, as far as is known without reading the log; None: some."""
    in_flight: int
    served: int
    """Delivered since the partition was opened."""
    oldest_ms: int | None
    """The age of the first message that is not done."""

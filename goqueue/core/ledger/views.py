"""What a ledger says of itself: what may be handed out, and how far its group is."""

from dataclasses import dataclass
from typing import NamedTuple

from goqueue.core.ledger.attempts import AttemptRuns
from goqueue.core.ledger.damage import DamagedRun
from goqueue.core.ledger.shares import ENDLESS, Counts, LaneShares
from goqueue.types import Offset, Priority


class FreshLanes(NamedTuple):
    """Which lanes have messages that nobody has looked at, or may have."""

    mask: int
    is_mixed: bool
    """From the place on at which the last of the lanes is, the log holds more than one priority."""

    @property
    def lane(self) -> int:
        """The lowest of them. Where it is not mixed, the only one."""
        return self.mask.bit_length() - 1 if self.mask else Priority.NORMAL


@dataclass(frozen=True, slots=True)
class Dealt:
    """How several lanes share what is wanted."""

    now: float
    wanted: int
    counts: Counts
    work: Counts
    ready: tuple[AttemptRuns, ...]
    """Of each lane those that may be handed out again, as many as are wanted."""
    shares: LaneShares

    def has_fresh(self, lane: int) -> bool:
        return self.work[lane] >= ENDLESS

    def further(self, taken: Counts, left: int, work: Counts) -> Counts:
        """How to share what is left when some lanes had less than was hoped for, and there is so much still."""
        shares = self.shares.copy()
        shares.took(self.now, taken, [count + more for count, more in zip(taken, work, strict=True)])
        return shares.allot(self.now, left, work)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a member may be given now."""

    again: AttemptRuns
    fresh_from: Offset
    fresh_max: int
    """So many fresh messages may follow those that are handed out again."""
    look_max: int
    """Among so many; those that are not handed out are held back."""
    is_alone: bool
    alone_waiting: bool
    """A message that must be handed out alone waits, and this member holds others: let it settle them first."""
    lane: int = Priority.NORMAL
    """Of the fresh ones, where there is only one."""
    dealt: Dealt | None = None
    """Several lanes have work: what each may have, and not `fresh_from` on. The bounds hold for all together."""


class LaneHeld(NamedTuple):
    """What of one lane was handed out and is not done, dead letters apart."""

    in_flight: int
    ready: int
    first: Offset | None


@dataclass(frozen=True, slots=True)
class Progress:
    committed: Offset
    """Everything below is done."""
    next_fresh: Offset
    """Everything below was looked at."""
    in_flight: int
    waiting: int
    ready_again: int
    leaving: int
    in_transfer: int
    removed_unacked: int
    first_unsettled: Offset | None
    """Of those handed out; None: all of them are done."""
    ahead: int = 0
    """So many behind `next_fresh` were looked at too, in lanes that are further."""
    damaged: int = 0
    """So many wait for a repair of the log. The lag does not count them."""
    damages: tuple[DamagedRun, ...] = ()

    @property
    def handed_out(self) -> int:
        """And not done."""
        return self.in_flight + self.waiting + self.ready_again + self.leaving + self.in_transfer

    def lag(self, end: Offset, hidden: int = 0) -> int:
        """What is not done before here. Those that nobody has looked at count as if all were to be handed out, but
        for so many that are known not to be."""
        return max(0, end - self.next_fresh - self.ahead - hidden) + self.handed_out


class LaneFigures(NamedTuple):
    """One lane of a partition, as a group has it."""

    ready: int | None
    """To be delivered, as far as is known without reading the log; None: some."""
    in_flight: int
    served: int
    """Delivered since the partition was opened."""
    oldest_ms: int | None
    """The age of the first message that is not done."""

"""What a ledger says of itself: what may be handed out, and how far its group is."""

from dataclasses import dataclass

from goqueue.core.ledgerattempts import AttemptRuns
from goqueue.types import Offset


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


@dataclass(frozen=True, slots=True)
class Progress:
    committed: Offset
    """Everything below is done."""
    next_fresh: Offset
    in_flight: int
    waiting: int
    ready_again: int
    leaving: int
    departing: int
    removed_unacked: int
    first_unsettled: Offset | None
    """Of those handed out; None: all of them are done."""

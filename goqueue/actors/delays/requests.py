"""What a partition can be asked about its delayed messages. Each is named by its original's offset."""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.actors.runtime.messages import Request
from goqueue.core.delays.pending import DelayState
from goqueue.types import Microseconds, Offset, Priority


@dataclass(frozen=True, slots=True)
class CancelDelayed(Request[bool]):
    """Whether it will never be delivered."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class MoveDelayed(Request[bool]):
    """To another time, or with `delay` so long from now; whether it was pending."""

    offset: Offset
    due: int
    """As records say it: a time, or with the top bit a delay."""


@dataclass(frozen=True, slots=True)
class DelayedView:
    offset: Offset
    state: DelayState
    due: Microseconds | None
    """Of one that is pending, or is known to have been."""
    finished: Microseconds | None = None
    delivered_at: Offset | None = None
    """Where the message lies that was delivered."""
    priority: Priority = Priority.NORMAL
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class DelayedViews:
    views: Sequence[DelayedView]
    """None only when there are no more."""
    pending: int
    """All there are in the partition."""


@dataclass(frozen=True, slots=True)
class ListDelayed(Request[DelayedViews]):
    """From this offset on, so many at most, in order of offsets: those pending, or those that are no longer."""

    first: Offset
    count_max: int
    finished: bool


@dataclass(frozen=True, slots=True)
class CountDelayed(Request[Sequence[int]]):
    """How many are pending and due before each of these times, which rise, and how many later."""

    edges: Sequence[Microseconds]

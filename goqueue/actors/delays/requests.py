"""The requests of a partition about its delayed messages. Each message is named by its original's offset."""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.actors.runtime.messages import Request
from goqueue.core.delays.pending import DelayState
from goqueue.types import Microseconds, Offset, Priority


@dataclass(frozen=True, slots=True)
class CancelDelayed(Request[bool]):
    """Answered with whether the message will never be delivered."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class MoveDelayed(Request[bool]):
    """Move to another due time. Answered with whether the message was pending."""

    offset: Offset
    due: int
    """As in records: a time, or with the top bit set a delay from now."""


@dataclass(frozen=True, slots=True)
class DelayedView:
    offset: Offset
    state: DelayState
    due: Microseconds | None
    """The due time of a pending message; None once it is no longer pending."""
    finished: Microseconds | None = None
    delivered_at: Offset | None = None
    """The offset of the message that was fired."""
    priority: Priority = Priority.NORMAL
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class DelayedViews:
    views: Sequence[DelayedView]
    """Empty only when there are no more."""
    pending: int
    """The number of all pending messages of the partition."""


@dataclass(frozen=True, slots=True)
class ListDelayed(Request[DelayedViews]):
    """At most `count_max` messages from an offset on, in the order of offsets: pending or finished ones."""

    first: Offset
    count_max: int
    finished: bool


@dataclass(frozen=True, slots=True)
class CountDelayed(Request[Sequence[int]]):
    """The number of pending messages due before each of these rising times, and the number due later."""

    edges: Sequence[Microseconds]

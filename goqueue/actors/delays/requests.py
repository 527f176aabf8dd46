"""The requests about delayed messages: of a partition, and of the timer wheel, which has news, too.

A message is named by its original's offset. Timers belong to a partition, which gets an owner number when it opens.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.actors.runtime.messages import News, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.delays.pending import DelayState
from goqueue.types import Microseconds, Offset, Priority

# To a partition.


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
    message_id: bytes | None = None


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
class FindDelayed(Request[DelayedViews]):
    """The pending messages with this id, at most `count_max` from an offset on, in the order of offsets."""

    message_id: bytes
    first: Offset
    count_max: int


@dataclass(frozen=True, slots=True)
class CountDelayed(Request[Sequence[int]]):
    """The number of pending messages due before each of these rising times, and the number due later."""

    edges: Sequence[Microseconds]


# To the wheel, and from it.


@dataclass(frozen=True, slots=True)
class OpenTimers(Request[int]):
    """Tell this owner from now on what falls due. The timers of an earlier owner of this name are forgotten: so an
    owner may begin anew, when most of its timers are of messages that are no longer pending."""

    name: str
    listener: ActorRef


@dataclass(frozen=True, slots=True)
class CloseTimers(Request[None]):
    owner: int


@dataclass(frozen=True, slots=True)
class LoadTimers(Request[None]):
    """Set many timers, in the order of their offsets.

    While more are to come, no timer of any owner falls due: overdue messages must fire in the order of their due
    times, though they are loaded piece by piece.
    """

    owner: int
    offsets: "array[int]"
    dues: "array[int]"
    more: bool = False


@dataclass(frozen=True, slots=True)
class SetTimers(Request[None]):
    """Set timers. Nothing is ever moved or removed: the owner ignores what it hears of and does not wait for."""

    owner: int
    timers: Sequence[tuple[Offset, Microseconds]]


@dataclass(frozen=True, slots=True)
class TakeDue(Request[Sequence[tuple[Offset, Microseconds]]]):
    """Take timers that have fallen due, in the order of due times, and no more than may fire now."""

    owner: int
    count_max: int


@dataclass(frozen=True, slots=True)
class TimersDue(News):
    """Timers of this owner have fallen due: take them."""

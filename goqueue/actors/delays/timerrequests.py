"""The requests of the timer wheel, and its news.

Timers belong to a partition, which gets an owner number when it opens. A timer is an offset and a due time.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.actors.runtime.messages import News, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.types import Microseconds, Offset


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

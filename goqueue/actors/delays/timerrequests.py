"""The requests of the timer wheel, and its news.

Timers belong to a partition, which gets an owner number when it opens. A timer is named by its owner and an offset.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.actors.runtime.messages import News, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.types import Microseconds, Offset


@dataclass(frozen=True, slots=True)
class OpenTimers(Request[int]):
    """Tell this owner from now on what falls due. The timers of an earlier owner of this name are forgotten."""

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
    """Changes in order: each sets a timer, moves it, or with None removes it."""

    owner: int
    changes: Sequence[tuple[Offset, Microseconds | None]]


@dataclass(frozen=True, slots=True)
class TakeDue(Request[Sequence[tuple[Offset, Microseconds]]]):
    """Take timers that have fallen due, in the order of due times, and no more than may fire now."""

    owner: int
    count_max: int


@dataclass(frozen=True, slots=True)
class TimersDue(News):
    """Timers of this owner have fallen due: take them."""

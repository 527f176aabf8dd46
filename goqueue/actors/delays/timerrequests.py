"""What the timer wheel can be asked, and what it tells.

Who owns timers is a partition, by a number that it is given when it opens. A timer is named by its owner and an
offset.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.actors.runtime.messages import News, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.types import Microseconds, Offset


@dataclass(frozen=True, slots=True)
class OpenTimers(Request[int]):
    """From now on this owner is told what falls due. Timers that one of this name had before are forgotten."""

    name: str
    listener: ActorRef


@dataclass(frozen=True, slots=True)
class CloseTimers(Request[None]):
    owner: int


@dataclass(frozen=True, slots=True)
class LoadTimers(Request[None]):
    """Many at once, in order of their offsets.

    While there are more to come nothing falls due, be it anybody's: what is overdue is to fire in due order, though
    it is loaded piece by piece.
    """

    owner: int
    offsets: "array[int]"
    dues: "array[int]"
    more: bool = False


@dataclass(frozen=True, slots=True)
class SetTimers(Request[None]):
    """In this order: a timer is set to a time, or set anew, or with None taken away."""

    owner: int
    changes: Sequence[tuple[Offset, Microseconds | None]]


@dataclass(frozen=True, slots=True)
class TakeTimer(Request[Microseconds | None]):
    """Take one away that has not fallen due: when it would have; None when it is not there."""

    owner: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class TakeDue(Request[Sequence[tuple[Offset, Microseconds]]]):
    """What has fallen due, in due order, and no more at a time than may fire now."""

    owner: int
    count_max: int


@dataclass(frozen=True, slots=True)
class AskDueTimes(Request[Sequence[Microseconds | None]]):
    owner: int
    offsets: Sequence[Offset]


@dataclass(frozen=True, slots=True)
class AskEarliest(Request[tuple[Microseconds | None, Offset | None]]):
    """The first due time among some thousands of timers from an offset on, and with which offset to go on."""

    owner: int
    first: Offset


@dataclass(frozen=True, slots=True)
class TimersDue(News):
    """Something of yours has fallen due: take it."""

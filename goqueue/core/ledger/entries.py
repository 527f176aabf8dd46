"""What can happen to a ledger, as entries of its journal.

An entry says all that a replay needs. The settings counted when it was decided, so that a replay under other
settings gives the same state. Times are durations, counted from the moment at which the entry was written. The one
exception is `wall`, which decides nothing: it ends up in a header.

Written down, an entry is an array: the number of its kind, then its fields in order. Arrays grow at their end only;
unknown fields are ignored, and fields that came later may be missing. An unknown kind is refused: to ignore it
could deliver again what is done. Runs are written flat. Messages from several lanes are scattered, and are written
as a set of offsets.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from operator import attrgetter, call
from reprlib import repr as shortened
from typing import Any, NamedTuple, TypeAlias

from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.errors import UnknownFormat
from goqueue.types import LANE_COUNT, Microseconds, Offset, Priority

Runs: TypeAlias = tuple[Run, ...]


class RetryAfter(NamedTuple):
    delay: float
    runs: AttemptRuns


class LaneTaken(NamedTuple):
    """The messages of one lane that are delivered for the first time. The lane was scanned up to `scanned_to`."""

    lane: int
    scanned_to: Offset
    offsets: OffsetSet


class LaneOffsets(NamedTuple):
    lane: int
    offsets: OffsetSet


@dataclass(frozen=True, slots=True)
class Entry:
    def to_plain(self) -> list[Any]:
        kind = _KINDS[type(self)]
        values = kind.values_of(self)
        for default in kind.defaults:
            if values[-1] != default:
                break
            values = values[:-1]
        return [kind.number, *map(call, kind.writers, values)]

    @staticmethod
    def from_plain(plain: object) -> "Entry":
        """The entry, or `UnknownFormat`."""
        number = plain[0] if isinstance(plain, list | tuple) and plain else None
        if type(number) is not int or number not in _NUMBERS:
            raise _unknown(plain)
        assert isinstance(plain, list | tuple)
        kind = _NUMBERS[number]
        try:
            return kind.entry(*(shape.read(value) for shape, value in zip(kind.shapes, plain[1:], strict=False)))
        except (TypeError, ValueError) as error:
            raise _unknown(plain) from error


@dataclass(frozen=True, slots=True)
class Began(Entry):
    offset: Offset


@dataclass(frozen=True, slots=True)
class Delivered(Entry):
    """A delivery from one lane. Offsets before `scanned_to` that were neither delivered before nor are fresh here
    are passed over: other lanes have no messages there."""

    wall: Microseconds
    member: str
    nonce: int
    visibility: float
    again: AttemptRuns
    fresh: Runs
    scanned_to: Offset
    is_alone: bool
    lane: int = Priority.NORMAL
    tells_begun: bool = False
    """The messages count as delivered once the member says that it has begun with them."""


@dataclass(frozen=True, slots=True)
class LanesDelivered(Entry):
    """A delivery from several lanes, each with a position of its own."""

    wall: Microseconds
    member: str
    nonce: int
    visibility: float
    again: AttemptRuns
    lanes: tuple[LaneTaken, ...]
    is_alone: bool
    tells_begun: bool = False
    """As in `Delivered`."""


@dataclass(frozen=True, slots=True)
class PassedOver(Entry):
    """Messages that were to be redelivered, or to become dead letters, and are gone; and there is nothing before
    `scanned_to`, or in each lane before its own position."""

    runs: Runs
    scanned_to: Offset
    why: str
    lanes: tuple[Offset, ...] = ()


@dataclass(frozen=True, slots=True)
class Acked(Entry):
    nonce: int
    runs: AttemptRuns | None
    """None: all that are in flight."""


@dataclass(frozen=True, slots=True)
class Nacked(Entry):
    nonce: int
    retries: tuple[RetryAfter, ...]
    leaving: AttemptRuns
    reason: str


@dataclass(frozen=True, slots=True)
class Rejected(Entry):
    nonce: int
    runs: AttemptRuns
    reason: str
    to: Destination | None = None
    """Where a redrive sends them; None: to the dead-letter topic."""


@dataclass(frozen=True, slots=True)
class Released(Entry):
    nonce: int
    runs: AttemptRuns


@dataclass(frozen=True, slots=True)
class Extended(Entry):
    nonce: int
    runs: AttemptRuns | None
    """None: all that are in flight."""
    visibility: float


@dataclass(frozen=True, slots=True)
class Expired(Entry):
    nonce: int
    runs: AttemptRuns
    reason: str | None
    """Why they become dead letters; None: they are ready for a redelivery."""


@dataclass(frozen=True, slots=True)
class TransferBegun(Entry):
    sequence: int
    runs: Runs


@dataclass(frozen=True, slots=True)
class TransferDone(Entry):
    """A redrive says in `decided` when it began, in wall time, and which letters could only go back to the
    dead-letter topic."""

    sequence: int
    decided: Microseconds | None = None
    returned: OffsetSet = field(default_factory=OffsetSet)


@dataclass(frozen=True, slots=True)
class Removed(Entry):
    """Retention removed everything below `offset`; `unacked` of the removed messages were not done."""

    offset: Offset
    unacked: int


@dataclass(frozen=True, slots=True)
class CutBack(Entry):
    end: Offset


@dataclass(frozen=True, slots=True)
class Reset(Entry):
    offset: Offset


@dataclass(frozen=True, slots=True)
class Committed(Entry):
    """A stream committed: everything below is done, and nothing from here on."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class Damaged(Entry):
    """The log cannot read `first` to `last`, which `path` should hold. `offsets` are those that are not done: they
    wait."""

    first: Offset
    last: Offset
    path: str
    offsets: OffsetSet


@dataclass(frozen=True, slots=True)
class Repaired(Entry):
    """The log can read `first` to `last` again. `lanes` are the messages for the group among those that were never
    delivered. The others are passed over."""

    first: Offset
    last: Offset
    lanes: tuple[LaneOffsets, ...]


@dataclass(frozen=True, slots=True)
class Skipped(Entry):
    """An operator gives up the damaged messages of `first` to `last`; `unacked` of them were not done. `letters`:
    the dead letters under way too, which then leave without their content."""

    first: Offset
    last: Offset
    unacked: int
    letters: bool


@dataclass(frozen=True, slots=True)
class Begun(Entry):
    """The member begins with these messages of a delivery that tells it: they count from now on."""

    nonce: int
    runs: AttemptRuns


@dataclass(frozen=True, slots=True)
class LettersDismissed(Entry):
    """An operator dismisses these dead letters of a delivery to a redrive: they are done."""

    nonce: int
    runs: AttemptRuns
    decided: Microseconds
    note: str


@dataclass(frozen=True, slots=True)
class SentAgain(Entry):
    """These dead letters were decided upon before, and leave for a destination once more."""

    letters: OffsetSet
    to: Destination
    reason: str


def leaves(entry: Entry) -> bool:
    """Whether the entry makes dead letters, or may."""
    match entry:
        case Rejected() | Repaired() | SentAgain():
            return True
        case Nacked():
            return bool(entry.leaving)
        case Expired():
            return entry.reason is not None
        case _:
            return False


# How fields are written.


class _Shape(NamedTuple):
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class _Kind(NamedTuple):
    number: int
    entry: type[Entry]
    shapes: Sequence[_Shape]
    defaults: tuple[Any, ...] = ()
    """The defaults of fields at the end that came later, the last one first: such a field is left out while it and
    those behind it have their defaults."""
    values_of: Callable[[Any], tuple[Any, ...]] = tuple
    """The values of an entry's fields."""
    writers: Sequence[Callable[[Any], Any]] = ()

    def made(self) -> "_Kind":
        """With what its fields and shapes say: for every entry that is written."""
        return self._replace(values_of=_values_of(self.entry), writers=[shape.write for shape in self.shapes])


def _values_of(entry: type[Entry]) -> Callable[[Entry], tuple[Any, ...]]:
    first, *others = [each.name for each in fields(entry)]
    return attrgetter(first, *others) if others else lambda some: (getattr(some, first),)


def _flat(runs: Iterable[Sequence[int]]) -> list[int]:
    return list(chain.from_iterable(runs))


def _read_runs(flat: Any) -> Runs:
    return tuple(map(Run._make, zip(flat[::2], flat[1::2], strict=True)))


def _read_attempt_runs(flat: Any) -> AttemptRuns:
    return tuple(map(AttemptRun._make, zip(flat[::3], flat[1::3], flat[2::3], strict=True)))


def _write_retries(retries: Iterable[RetryAfter]) -> list[Any]:
    return [[delay, _flat(runs)] for delay, runs in retries]


def _read_retries(plain: Any) -> tuple[RetryAfter, ...]:
    return tuple(RetryAfter(delay, _read_attempt_runs(flat)) for delay, flat in plain)


def _write_lanes(lanes: Iterable[LaneTaken]) -> list[Any]:
    return [[lane, scanned_to, offsets.to_plain()] for lane, scanned_to, offsets in lanes]


def _read_lanes(plain: Any) -> tuple[LaneTaken, ...]:
    return tuple(
        LaneTaken(_read_lane(lane), scanned_to, OffsetSet.from_plain(offsets))
        for lane, scanned_to, offsets in plain
    )


def _write_lane_offsets(lanes: Iterable[LaneOffsets]) -> list[Any]:
    return [[int(lane), offsets.to_plain()] for lane, offsets in lanes]


def _read_lane_offsets(plain: Any) -> tuple[LaneOffsets, ...]:
    return tuple(LaneOffsets(_read_lane(lane), OffsetSet.from_plain(offsets)) for lane, offsets in plain)


def _read_lane(lane: Any) -> int:
    if type(lane) is not int or not 0 <= lane < LANE_COUNT:
        raise ValueError(f"{shortened(lane)} is no lane")
    return lane


def _read_places(plain: Any) -> tuple[Offset, ...]:
    if len(plain) not in (0, LANE_COUNT):
        raise ValueError(f"{len(plain)} places are not one for each lane")
    return tuple(plain)


def _perhaps(shape: _Shape) -> _Shape:
    def or_none(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: None if value is None else change(value)

    return _Shape(or_none(shape.write), or_none(shape.read))


def _exactly(kind: type) -> _Shape:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{shortened(value)} is not {kind.__name__}")
        return value

    return _Shape(kind, read)


_whole, _seconds, _text, _flag = map(_exactly, (int, float, str, bool))
_runs = _Shape(_flat, _read_runs)
_attempt_runs = _Shape(_flat, _read_attempt_runs)
_retries = _Shape(_write_retries, _read_retries)
_offsets = _Shape(OffsetSet.to_plain, OffsetSet.from_plain)
_destination = _Shape(lambda to: to and list(to), Destination.from_plain)
_lane_offsets = _Shape(_write_lane_offsets, _read_lane_offsets)
_lane, _places, _lanes = _Shape(int, _read_lane), _Shape(list, _read_places), _Shape(_write_lanes, _read_lanes)

NO_OFFSETS = OffsetSet()

_TABLE = (
    _Kind(1, Began, (_whole,)),
    _Kind(
        2,
        Delivered,
        (_whole, _text, _whole, _seconds, _attempt_runs, _runs, _whole, _flag, _lane, _flag),
        (False, Priority.NORMAL),
    ),
    _Kind(3, PassedOver, (_runs, _whole, _text, _places), ((),)),
    _Kind(4, Acked, (_whole, _perhaps(_attempt_runs))),
    _Kind(5, Nacked, (_whole, _retries, _attempt_runs, _text)),
    _Kind(6, Rejected, (_whole, _attempt_runs, _text, _destination), (None,)),
    _Kind(7, Released, (_whole, _attempt_runs)),
    _Kind(8, Extended, (_whole, _perhaps(_attempt_runs), _seconds)),
    _Kind(9, Expired, (_whole, _attempt_runs, _perhaps(_text))),
    _Kind(10, TransferBegun, (_whole, _runs)),
    _Kind(11, TransferDone, (_whole, _perhaps(_whole), _offsets), (NO_OFFSETS, None)),
    _Kind(12, Removed, (_whole, _whole)),
    _Kind(13, CutBack, (_whole,)),
    _Kind(14, Reset, (_whole,)),
    _Kind(15, Committed, (_whole,)),
    _Kind(16, LanesDelivered, (_whole, _text, _whole, _seconds, _attempt_runs, _lanes, _flag, _flag), (False,)),
    _Kind(17, Damaged, (_whole, _whole, _text, _offsets)),
    _Kind(18, Repaired, (_whole, _whole, _lane_offsets)),
    _Kind(19, Skipped, (_whole, _whole, _whole, _flag)),
    _Kind(20, Begun, (_whole, _attempt_runs)),
    _Kind(21, LettersDismissed, (_whole, _attempt_runs, _whole, _text)),
    _Kind(22, SentAgain, (_offsets, _destination, _text)),
)
_KINDS = {kind.entry: kind.made() for kind in _TABLE}
_NUMBERS = {kind.number: kind for kind in _TABLE}


def _unknown(plain: object) -> UnknownFormat:
    return UnknownFormat(f"ledger entry {shortened(plain)} is unknown; start a goqueue that knows it")

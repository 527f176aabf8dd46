"""The offsets of a delivery's messages as the broker names them: by runs, or where these would be many by sets of
offsets.

Most deliveries are settled as a whole, without a look at single offsets: so sets are split into runs only when
needed.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from goqueue.core.offsetset import OffsetSet
from goqueue.net.wire.groups import DeliveryRun, DeliverySet, OffsetChunk, count_named
from goqueue.types import Offset


class DeliveredNames:
    __slots__ = ("_by_offset", "_only_attempt", "_runs", "_sets", "are_scattered", "count")

    def __init__(self, runs: tuple[DeliveryRun, ...], sets: Sequence[DeliverySet] = ()) -> None:
        self._runs = runs
        self._sets = [(each.attempt, OffsetSet.from_chunks(each.chunks)) for each in sets]
        self._by_offset: list[DeliveryRun] | None = None
        self.are_scattered = bool(sets)
        self.count = count_named(runs, sets)
        named = sets or runs
        self._only_attempt = named[0].attempt if len(named) == 1 else None

    @property
    def runs(self) -> tuple[DeliveryRun, ...]:
        if not self._runs and self._sets:
            found = [DeliveryRun(*run, attempt) for attempt, offsets in self._sets for run in offsets.runs()]
            self._runs = tuple(sorted(found))
        return self._runs

    @property
    def bounds(self) -> tuple[Offset, Offset]:
        """The lowest and the highest offset."""
        if self._sets:
            both = [bounds for _, offsets in self._sets if (bounds := offsets.bounds) is not None]
            return min((run.first for run in both), default=0), max((run.last for run in both), default=-1)
        return min(run.first for run in self._runs), max(run.last for run in self._runs)

    def offsets(self) -> Iterator[Offset]:
        if self._sets:
            return chain.from_iterable(offsets.offsets() for _, offsets in self._sets)
        return chain.from_iterable(range(run.first, run.last + 1) for run in self._runs)

    def sets_of(self, offsets: Iterable[Offset] | None) -> tuple[DeliverySet, ...]:
        """These offsets, or all, as sets."""
        wanted = None if offsets is None else OffsetSet.of(offsets)
        chosen = [(attempt, each if wanted is None else each.common(wanted)) for attempt, each in self._sets]
        return tuple(
            DeliverySet(attempt, tuple(map(OffsetChunk._make, each.chunks()))) for attempt, each in chosen if each
        )

    def attempt_of(self, offset: Offset) -> int:
        """0 if the offset is not one of them."""
        if self._only_attempt is not None:
            return self._only_attempt
        if self._by_offset is None:
            self._by_offset = sorted(self.runs)
        place = bisect_right(self._by_offset, (offset, 2**63)) - 1
        run = self._by_offset[place] if place >= 0 else None
        return run.attempt if run is not None and offset <= run.last else 0


NO_NAMES = DeliveredNames(())

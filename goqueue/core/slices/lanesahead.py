"""What was cut out of the log for one delivery and is left for the next ones: a stretch for each lane and reader.

Lanes that are far apart have nothing of their reading in common, and each delivery takes a few records of each.
Read anew for every delivery, a batch would be read and taken apart several times for each lane. So what is left of
a stretch is kept, and of a lane that is read on and on more is read at a time.

Only the newest are kept, of no more bytes than are allowed; and none when something has changed in what was read:
then the log says so, and everything is read again.
"""

from goqueue.core.slices.lanestretch import LaneStretch
from goqueue.core.slices.sharedroom import SharedRoom
from goqueue.types import Offset

BYTES_KEPT_MAX = 1024 * 1024
"""Of all lanes and readers of a partition together."""
PLACES_MAX = 64
"""So many are remembered at which more is to be read at a time."""


class LanesAhead:
    def __init__(self, room: SharedRoom, bytes_max: int = BYTES_KEPT_MAX) -> None:
        self._room = room
        self._bytes_max = bytes_max
        self._kept: dict[LaneStretch, None] = {}
        """The one that was used last is the last."""
        self._bytes = 0
        self._past_changes = 0
        self._read_on: dict[tuple[int, Offset], int] = {}
        """Where stretches ended that served more than one delivery, and how much to read there."""

    def holding(self, lane: int, place: Offset, past_changes: int) -> LaneStretch | None:
        """The stretch with this place of a lane in it. `past_changes`: so often what is in the log was changed."""
        if past_changes != self._past_changes:
            self._past_changes = past_changes
            self.forget_all()
            self._room.note(self, 0)
        for stretch in self._kept:
            if stretch.lane == lane and stretch.start <= place < stretch.end:
                return stretch
        return None

    def forget_all(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def how_much(self, lane: int, place: Offset, likely: int) -> int:
        """So many bytes to read from this place on; `likely` are enough for one delivery."""
        return max(likely, self._read_on.pop((lane, place), 0))

    def note_used(self, stretch: LaneStretch, place: Offset, past_changes: int) -> None:
        """Up to here. What is left of it is kept, if nothing in the log has changed since it was read."""
        was_kept = stretch in self._kept
        if was_kept:
            self._forget(stretch)
        if place < stretch.end:
            self._keep(stretch, past_changes)
        elif was_kept:
            self._read_on[stretch.lane, place] = 2 * stretch.bytes_read
            if len(self._read_on) > PLACES_MAX:
                del self._read_on[next(iter(self._read_on))]
        self._room.note(self, self._bytes)

    def _keep(self, stretch: LaneStretch, past_changes: int) -> None:
        if stretch.is_for_all and past_changes == self._past_changes:
            self._kept[stretch] = None
            self._bytes += stretch.bytes_kept
            while self._bytes > self._bytes_max:
                self._forget(next(iter(self._kept)))

    def _forget(self, stretch: LaneStretch) -> None:
        del self._kept[stretch]
        self._bytes -= stretch.bytes_kept

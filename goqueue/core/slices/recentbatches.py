"""The batches that were read last, for a group that comes back to them.

Where the order of keys is kept, some messages of a batch are held back and leave with a later delivery, a few at a
time, and a large batch leaves in several parts. Read anew for each of them, most of what a delivery reads would be
what the ones before have read and checked.

No more bytes are kept than are allowed, the newest; and none when something has changed in what was read: then the
log says so, and everything is read again.
"""

from goqueue.core.slices.deliverable import batches_in
from goqueue.core.slices.sharedroom import SharedRoom
from goqueue.types import Buffer, Offset

BYTES_KEPT_MAX = 512 * 1024
BATCHES_AT_A_TIME = 4
"""Of a read with more of them the batches are small, and none is kept: to find them here would cost as much."""


class RecentBatch:
    __slots__ = ("base", "data", "end")

    def __init__(self, base: Offset, end: Offset, data: bytes) -> None:
        self.base, self.end, self.data = base, end, data


class RecentBatches:
    def __init__(self, room: SharedRoom, bytes_max: int = BYTES_KEPT_MAX) -> None:
        self._room = room
        self._bytes_max = bytes_max
        self._kept: dict[Offset, RecentBatch] = {}
        """By base offset; the one that was read last is the last."""
        self._bytes = 0
        self._past_changes = 0

    def holding(self, offset: Offset, past_changes: int) -> RecentBatch | None:
        """The batch with this offset in it. `past_changes`: so often what is in the log was changed."""
        if past_changes != self._past_changes:
            self._past_changes = past_changes
            self.forget_all()
            self._room.note(self, 0)
        for batch in self._kept.values():
            if batch.base <= offset < batch.end:
                return batch
        return None

    def note(self, data: Buffer, past_changes: int) -> None:
        """These were read and found sound, when the log had changed so often."""
        view = memoryview(data)
        found = [(envelope, position) for position, envelope in batches_in(view)]
        if len(found) > BATCHES_AT_A_TIME or past_changes != self._past_changes:
            return
        for envelope, position in found:
            batch = bytes(view[position : position + envelope.size])
            self._keep(RecentBatch(envelope.base_offset, envelope.end_offset, batch))
        self._room.note(self, self._bytes)

    def forget_all(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def _keep(self, batch: RecentBatch) -> None:
        if batch.base in self._kept:
            self._forget(batch.base)
        self._kept[batch.base] = batch
        self._bytes += len(batch.data)
        while self._bytes > self._bytes_max:
            self._forget(next(iter(self._kept)))

    def _forget(self, base: Offset) -> None:
        self._bytes -= len(self._kept.pop(base).data)

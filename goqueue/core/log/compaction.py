"""Which records compaction by key keeps.

Kept are: the newest record of each key; records without a key; delayed originals that are pending, which are hidden
and supersede nothing until they fire, and control records, those about delays while their original is pending;
tombstones until they are old enough that every reader has seen them. Offsets and order never change.

An original goes before, or together with, the record that says that it has fired or was cancelled: the oldest
segments are rewritten first, and records that end originals in segments that cannot be rewritten stay. So no
delivered message is ever found to be pending again.

Keys are remembered by a 128-bit digest, so that memory is bounded by their number, whatever their size.
"""

from hashlib import blake2b

from goqueue.core.delays.events import moved_by, target_of
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.record import Flag, RecordPlace
from goqueue.types import Buffer, Microseconds, Offset

KEYS_MAX = 500_000
_CONTROL, _DELAYED = int(Flag.CONTROL), int(Flag.DELAYED)
_HIDDEN = _CONTROL | _DELAYED


class NewestByKey:
    """The newest offset of each key below `covered_to`; when `full`, the rest is for the next run."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self.covered_to: Offset = 0
        self._newest: dict[bytes, Offset] = {}
        self._keys_max = keys_max

    @property
    def full(self) -> bool:
        return len(self._newest) >= self._keys_max

    def note(self, key: Buffer, flags: int, offset: Offset) -> None:
        self.covered_to = offset + 1
        if len(key) and not flags & _HIDDEN:
            self._newest[_digest(key)] = offset

    def superseded(self, key: Buffer, offset: Offset) -> bool:
        return self._newest.get(_digest(key), offset) > offset


def keeps_newest(
    newest: NewestByKey,
    key: Buffer,
    flags: int,
    offset: Offset,
    *,
    age: Microseconds,
    tombstone_age: Microseconds,
) -> bool:
    """Whether compaction by key keeps this record, which is no hidden one; `age` is the time since its append."""
    if not len(key) or offset >= newest.covered_to:
        return True
    if newest.superseded(key, offset):
        return False
    return not flags & Flag.TOMBSTONE or age < tombstone_age


def is_hidden(flags: int) -> bool:
    """Control records and delayed originals: whether they are kept does not depend on their keys."""
    return bool(flags & _HIDDEN)


def keeps_hidden(pending: OffsetSet, offset: Offset, records: memoryview, place: RecordPlace) -> bool:
    """Whether compaction by key keeps a hidden record."""
    if place.flags & _DELAYED:
        return offset in pending
    target = moved_by(records, place)
    return target is None or target in pending


def keeps_pending(pending: OffsetSet, offset: Offset, records: memoryview, place: RecordPlace) -> bool:
    """Whether an expired segment keeps this record: only pending originals, and the control records about them."""
    if place.flags & _DELAYED:
        return offset in pending
    target = moved_by(records, place)
    return target is not None and target in pending


def ends_one_of(originals: OffsetSet, records: memoryview, place: RecordPlace) -> bool:
    """Whether this record says what became of one of these delayed originals."""
    target = target_of(records, place)
    return target is not None and target in originals


def _digest(key: Buffer) -> bytes:
    return blake2b(key, digest_size=16).digest()

"""Which records compaction by key keeps.

Kept are: the newest record of each key; records without a key; control records; delayed originals, which are
hidden and supersede nothing until they fire; tombstones until they are old enough that every reader has seen
them. Offsets and order never change.

Keys are remembered by a 128-bit digest, so that memory is bounded by their number, whatever their size.
"""

from collections.abc import Container
from hashlib import blake2b

from goqueue.core.record import Flag
from goqueue.types import Buffer, Microseconds, Offset

KEYS_MAX = 500_000
_ALWAYS_KEPT = Flag.CONTROL | Flag.DELAYED


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
        if len(key) and not flags & _ALWAYS_KEPT:
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
    """Whether compaction by key keeps this record; `age` is the time since its append."""
    if not len(key) or flags & _ALWAYS_KEPT or offset >= newest.covered_to:
        return True
    if newest.superseded(key, offset):
        return False
    return not flags & Flag.TOMBSTONE or age < tombstone_age


def keeps_pending(pending: Container[Offset], flags: int, offset: Offset) -> bool:
    """Whether an expired segment keeps this record: only what is still to be delivered."""
    return bool(flags & Flag.DELAYED) and offset in pending


def _digest(key: Buffer) -> bytes:
    return blake2b(key, digest_size=16).digest()

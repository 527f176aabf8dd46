"""The keys of records in batches, as hashes: for groups that keep the order of keys."""

from bisect import bisect_left
from struct import Struct

from goqueue.core.batch import ENVELOPE_SIZE, Envelope, records_of
from goqueue.core.deliverable import batches_in
from goqueue.core.keyorder import Keyed
from goqueue.core.offsetset import OffsetSet
from goqueue.core.record import HEADER_SIZE
from goqueue.types import Buffer, Offset

_PLACE = Struct(">8xQ10xHI")
"""Of a record: its offset within the batch, and how long its key and its value section are."""


def keys_in(data: Buffer, wanted: OffsetSet) -> list[Keyed]:
    """Of those that are wanted and have a key, in order. The batches have been checked before."""
    view, found = memoryview(data), list[Keyed]()
    for position, envelope in batches_in(view):
        runs = list(wanted.runs(envelope.base_offset, envelope.end_offset - 1))
        if runs:
            body = view[position + ENVELOPE_SIZE : position + envelope.size]
            keyed = _keys_of(envelope, bytes(records_of(envelope, body)), runs[-1].last)
            for first, last in runs:
                found += keyed[bisect_left(keyed, (first,)) : bisect_left(keyed, (last + 1,))]
    return found


def _keys_of(envelope: Envelope, records: bytes, last: Offset) -> list[Keyed]:
    """Up to that offset."""
    unpack, position, base, found = _PLACE.unpack_from, 0, envelope.base_offset, list[Keyed]()
    for _ in range(envelope.record_count):
        relative, key_size, value_size = unpack(records, position)
        if base + relative > last:
            break
        position += HEADER_SIZE
        if key_size:
            found.append((base + relative, hash(records[position : position + key_size])))
        position += key_size + value_size
    return found

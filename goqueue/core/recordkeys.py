"""The keys of records in batches, mostly as hashes: for groups that keep the order of keys."""

from collections.abc import Iterator
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
        if wanted.count(envelope.base_offset, envelope.end_offset - 1):
            body = view[position + ENVELOPE_SIZE : position + envelope.size]
            records = bytes(records_of(envelope, body))
            found += [keyed for keyed in _keys_of(envelope, records) if keyed[0] in wanted]
    return found


def key_at(data: Buffer, offset: Offset) -> bytes | None:
    """The key itself of one message; None when it has none, or is not there."""
    view = memoryview(data)
    for position, envelope in batches_in(view):
        if envelope.base_offset <= offset < envelope.end_offset:
            body = view[position + ENVELOPE_SIZE : position + envelope.size]
            return dict(_all_keys_of(envelope, bytes(records_of(envelope, body)))).get(offset)
    return None


def _keys_of(envelope: Envelope, records: bytes) -> Iterator[Keyed]:
    return ((offset, hash(key)) for offset, key in _all_keys_of(envelope, records))


def _all_keys_of(envelope: Envelope, records: bytes) -> Iterator[tuple[Offset, bytes]]:
    unpack, position = _PLACE.unpack_from, 0
    for _ in range(envelope.record_count):
        relative, key_size, value_size = unpack(records, position)
        begin = position + HEADER_SIZE
        if key_size:
            yield envelope.base_offset + relative, records[begin : begin + key_size]
        position = begin + key_size + value_size

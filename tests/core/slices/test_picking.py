"""A few records out of whole batches: the very bytes that lie there, whatever lies beside them."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Attribute, Batch, Envelope, accept, compress, envelope_for, seal_envelope
from goqueue.core.records.record import encode_record
from goqueue.core.slices.picking import picked_records

BASE = 1_000


def batch_of(values: list[bytes], *, zipped: bool = False) -> Batch:
    body = b"".join(encode_record(number, 5, value, key=b"k") for number, value in enumerate(values))
    return accept(compress(body) if zipped else body, len(values), attributes=int(Attribute.ZSTD) if zipped else 0)


def written(batch: Batch, base: int) -> tuple[Envelope, bytes]:
    envelope = envelope_for(batch, base, leader_epoch=1, append_time=7, durable_offset=0)
    return envelope, seal_envelope(envelope) + bytes(batch.body)


def picked(data: bytes, *offsets: int) -> dict[int, bytes]:
    wanted = OffsetSet((offset, offset) for offset in offsets)
    return {offset: bytes(record) for offset, record in picked_records(memoryview(data), wanted)}


some_values = st.lists(st.sampled_from([b"", b"a", b"bb", bytes(40)]), min_size=1, max_size=9)


@given(
    st.lists(some_values, min_size=1, max_size=4),
    st.sets(st.integers(BASE - 3, BASE + 40)),
    st.booleans(),
)
def test_each_record_is_found_where_it_lies(batches: list[list[bytes]], wanted: set[int], zipped: bool) -> None:
    data, base, expected = b"", BASE, dict[int, bytes]()
    for values in batches:
        data += written(batch_of(values, zipped=zipped), base)[1]
        expected |= {base + n: encode_record(n, 5, value, key=b"k") for n, value in enumerate(values)}
        base += len(values)
    assert picked(data, *wanted) == {offset: record for offset, record in expected.items() if offset in wanted}


def test_what_compaction_left_is_found_at_its_own_offset() -> None:
    records = [encode_record(number, 5, b"v") for number in (1, 3, 4)]
    _, whole = written(batch_of([b"v"] * 6), BASE)
    envelope, _ = written(accept(b"".join(encode_record(n, 5, b"v") for n in range(3)), 3), BASE)
    body = b"".join(records)
    smaller = envelope._replace(last_offset_delta=5)
    data = seal_envelope(smaller) + body
    assert len(whole) > len(data)
    assert picked(data, *range(BASE, BASE + 6)) == {BASE + n: r for n, r in zip((1, 3, 4), records, strict=True)}


def test_a_value_that_looks_like_a_record_is_none() -> None:
    """Its bytes would pass for one that nobody has checked (G16)."""
    false = encode_record(1, 5, bytes(64), key=b"delay-cancel")
    size = len(false)
    first, second = bytes(size - 33) + false, bytes(size - 33)
    values = [first, second[: 3 * size - 2 * 33 - len(first)]]
    data = written(batch_of(values), BASE)[1]
    assert picked(data, BASE + 1) == {BASE + 1: encode_record(1, 5, values[1], key=b"k")}

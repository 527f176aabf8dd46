"""Records: what the bytes are, and that they come back as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.record import (
    DELAY_BIT,
    DELAY_MAX,
    HEADER_SIZE,
    KEY_SIZE_MAX,
    TIMESTAMP_MAX,
    Flag,
    Record,
    decode_records,
    encode_record,
    encode_value,
)
from goqueue.errors import TooLarge
from goqueue.types import Priority

headers = st.dictionaries(st.text(max_size=7), st.binary(max_size=20), max_size=4)
records = st.builds(
    Record,
    offset=st.just(0),
    timestamp=st.integers(0, TIMESTAMP_MAX),
    value=st.binary(max_size=200),
    key=st.one_of(st.none(), st.binary(min_size=1, max_size=40)),
    headers=headers,
    priority=st.sampled_from(Priority),
    due=st.one_of(st.none(), st.integers(0, TIMESTAMP_MAX), st.integers(DELAY_BIT + 1, DELAY_BIT + DELAY_MAX)),
)


def encoded(record: Record, relative_offset: int = 0) -> bytes:
    return encode_record(
        relative_offset,
        record.timestamp,
        record.value,
        key=record.key,
        headers=record.headers,
        priority=record.priority,
        due=record.due,
    )


def test_a_plain_record_is_a_header_of_32_bytes_and_its_value() -> None:
    data = encode_record(1, 2, b"value", priority=Priority.HIGH)
    assert data[:4] == b"GQ\x01\x00"
    assert data[8:16] == (1).to_bytes(8, "big")
    assert data[16:24] == (2).to_bytes(8, "big")
    assert data[24:32] == b"\x01\x00\x00\x00\x00\x00\x00\x05"
    assert data[HEADER_SIZE:] == b"value"


def test_due_time_then_headers_open_the_value_section() -> None:
    data = encode_record(0, 0, b"v", headers={"a": b"1"}, due=DELAY_BIT | 5)
    assert data[3] == Flag.DELAYED | Flag.HEADERS
    assert data[HEADER_SIZE:] == b"\x80\0\0\0\0\0\0\x05" + b"\0\0\0\x06" + b"\x81\xa1a\xc4\x011" + b"v"


def test_an_empty_key_is_no_key() -> None:
    [record] = decode_records(encode_record(0, 0, b"", key=b""), 1, 0)
    assert record.key is None


def test_a_key_that_its_length_field_cannot_hold_is_refused() -> None:
    encode_record(0, 0, b"", key=bytes(KEY_SIZE_MAX))
    with pytest.raises(TooLarge):
        encode_record(0, 0, b"", key=bytes(KEY_SIZE_MAX + 1))


@given(st.lists(records, min_size=1, max_size=8), st.integers(0, 2**40))
def test_records_come_back_as_they_were_at_their_offsets(originals: list[Record], base: int) -> None:
    body = b"".join(encoded(record, number) for number, record in enumerate(originals))
    decoded = list(decode_records(body, len(originals), base))
    assert [record.offset for record in decoded] == list(range(base, base + len(originals)))
    for original, record in zip(originals, decoded, strict=True):
        flags = (Flag.HEADERS if original.headers else 0) | (Flag.DELAYED if original.due is not None else 0)
        assert record.flags == flags
        assert (record.timestamp, record.key, record.value) == (original.timestamp, original.key, original.value)
        assert (record.headers, record.priority, record.due) == (original.headers, original.priority, original.due)


@given(st.integers(0, 2**63), st.integers(0, 2**55 - 1), st.binary(max_size=100))
def test_a_record_with_nothing_but_a_value_is_the_same_in_either_way(number: int, time: int, value: bytes) -> None:
    assert encode_value(number, time, value) == encode_record(number, time, value)

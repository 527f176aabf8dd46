"""Checksums that hold prove nothing of what was written: the records must be what the envelope says."""

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.batch import (
    NO_PRODUCER,
    Attribute,
    Batch,
    Envelope,
    compress,
    envelope_for,
    held_attributes,
)
from goqueue.core.records.inspection import inspect_records
from goqueue.core.records.record import (
    EXPIRES_AT_HEADER,
    FLAGS_FROM_BROKER,
    HEADER,
    MESSAGE_ID_HEADER,
    TIMESTAMP_MAX,
    Flag,
    encode_record,
)
from goqueue.errors import InvalidMessage
from goqueue.storage.verification.batchcheck import fault_in_batch
from tests.storage.logs import NOW

FIRST = encode_record(0, NOW, b"one", key=b"key", headers={"trace": b"\1"})
SECOND = encode_record(1, NOW + 5, b"two", priority=0)
DELAYED = encode_record(1, NOW, b"later", due=NOW)
TOMBSTONE = encode_record(1, NOW, b"", key=b"key", flags=Flag.TOMBSTONE)
WITH_ID = encode_record(1, NOW, b"once", headers={MESSAGE_ID_HEADER: b"id"})
EXPIRING = encode_record(1, NOW, b"soon", headers={EXPIRES_AT_HEADER: NOW.to_bytes(8, "big")})


def envelope_of(body: bytes, count: int = 2, **facts: int) -> Envelope:
    """An envelope that is right for FIRST and SECOND, but for these facts."""
    batch = Batch(body, count, 0, 0b101, NOW + 5, NO_PRODUCER)
    return envelope_for(batch, 100, leader_epoch=1, append_time=NOW, durable_offset=0)._replace(**facts)


def with_crc(record: bytes) -> bytes:
    return record[:4] + crc32c(record[8:]).to_bytes(4, "big") + record[8:]


def changed(record: bytes, position: int, value: bytes) -> bytes:
    """The record with other bytes somewhere, and a checksum that matches them."""
    return with_crc(record[:position] + value + record[position + len(value) :])


def test_what_the_broker_writes_is_sound() -> None:
    body = FIRST + SECOND
    assert fault_in_batch(envelope_of(body), body) is None
    packed = compress(body)
    assert fault_in_batch(envelope_of(packed, attributes=Attribute.ZSTD), packed) is None


def test_gaps_that_compaction_leaves_are_sound() -> None:
    late = encode_record(7, NOW + 5, b"two", priority=0)
    assert fault_in_batch(envelope_of(FIRST + late, last_offset_delta=9), FIRST + late) is None
    empty = envelope_of(b"", 0, last_offset_delta=9, priority_mask=0, highest_timestamp=0)
    assert fault_in_batch(empty, b"") is None


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"priority_mask": 0b100}, "priority mask is 0x04, the records' is 0x05"),
        ({"highest_timestamp": NOW}, f"highest timestamp is {NOW}, the records' is {NOW + 5}"),
        ({"record_count": 1}, "counts 1 records"),
        ({"record_count": 3}, "within record 3 of 3"),
        ({"last_offset_delta": 0}, "relative offset 1 lies behind 0"),
        ({"attributes": 2}, "attributes 0x0002 are unknown"),
        ({"attributes": Attribute.ZSTD}, "no zstd frame"),
    ],
)
def test_an_envelope_that_disagrees_with_its_records_is_told(facts: dict[str, int], words: str) -> None:
    body = FIRST + SECOND
    assert words in (fault_in_batch(envelope_of(body, **facts), body) or "")


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (b"XX" + SECOND[2:], "begins with 0x5858"),
        (SECOND[:2] + b"\2" + SECOND[3:], "version 2"),
        (SECOND[:3] + b"\x80" + SECOND[4:], "flags 0x80"),
        (SECOND[:-1] + b"!", "does not match its checksum"),
        (encode_record(0, NOW + 5, b"two", priority=0), "relative offset 0, behind 0"),
        (encode_record(1, TIMESTAMP_MAX + 1, b"two", priority=0), "beyond"),
        (encode_record(1, NOW + 5, b"two", priority=5), "priority 5"),
        (changed(SECOND, 25, b"\1"), "priority 0"),
        (SECOND[:3] + bytes([Flag.DELAYED]) + SECOND[4:], "no due time"),
        (SECOND[:3] + bytes([Flag.HEADERS]) + SECOND[4:], "has none"),
        (SECOND[:3] + bytes([Flag.TOMBSTONE]) + SECOND[4:], "tombstone, but has a value"),
        (changed(changed(FIRST, 15, b"\1"), 39, b"\xff"), "not msgpack"),
        (changed(changed(FIRST, 15, b"\1"), 39, b"\x91"), "not msgpack"),
        (changed(changed(FIRST, 15, b"\1"), 38, b"\xff"), "headers that do not fit"),
        (encode_record(1, NOW, b"two", headers={MESSAGE_ID_HEADER: bytes(129)}), "129 bytes"),
        (SECOND[: HEADER.size - 1], "within record 2 of 2"),
    ],
)
def test_a_bad_record_is_told(second: bytes, words: str) -> None:
    body = FIRST + second
    assert words in (fault_in_batch(envelope_of(body), body) or "")


@pytest.mark.parametrize(
    ("second", "attribute", "words"),
    [
        (DELAYED, Attribute.HOLDS_DELAYED, "is delayed, but the envelope does not say so"),
        (WITH_ID, Attribute.HOLDS_IDS, "has a message id, but the envelope does not say so"),
        (EXPIRING, Attribute.HOLDS_EXPIRING, "expires, but the envelope does not say so"),
    ],
)
@pytest.mark.parametrize("end", [1, 9])
def test_an_envelope_says_what_its_records_are(second: bytes, attribute: int, words: str, end: int) -> None:
    body, facts = FIRST + second, {"priority_mask": 0b100, "highest_timestamp": NOW}
    assert words in (fault_in_batch(envelope_of(body, **facts, last_offset_delta=end), body) or "")
    told = envelope_of(body, **facts, attributes=attribute, last_offset_delta=end)
    assert fault_in_batch(told, body) is None


def test_a_tombstone_is_sound() -> None:
    facts = {"priority_mask": 0b100, "highest_timestamp": NOW}
    assert fault_in_batch(envelope_of(FIRST + TOMBSTONE, **facts), FIRST + TOMBSTONE) is None


@given(st.sampled_from([SECOND, DELAYED, TOMBSTONE, FIRST, WITH_ID, EXPIRING]), st.data())
def test_it_refuses_just_the_records_that_the_way_in_refuses(second: bytes, data: st.DataObject) -> None:
    """The two checks give one verdict (G16); where the envelope has room for a gap, the slower one alone."""
    position = data.draw(st.integers(0, len(second) - 1))
    value = data.draw(st.binary(min_size=1, max_size=1))
    body = FIRST + changed(second, position, value)
    try:
        contents = inspect_records(body, 2, FLAGS_FROM_BROKER)
    except InvalidMessage:
        assert fault_in_batch(envelope_of(body), body) is not None
    else:
        attributes = held_attributes(contents)
        facts = {"priority_mask": contents.priority_mask, "highest_timestamp": contents.highest_timestamp}
        for end in (1, 9):
            envelope = envelope_of(body, **facts, attributes=attributes, last_offset_delta=end)
            assert fault_in_batch(envelope, body) is None

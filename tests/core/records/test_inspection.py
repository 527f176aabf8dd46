"""The check that every record passes: each kind of bad input has a typed answer, and nothing bad slips through."""

from collections.abc import Mapping

import msgpack
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.inspection import Contents, inspect_records
from goqueue.core.records.record import (
    BROKER_HEADERS_SIZE_MAX,
    CHECKSUMMED_FROM,
    DELAY_BIT,
    DELAY_MAX,
    DUE_TIME,
    EXPIRES_AT_HEADER,
    FLAGS_FROM_BROKER,
    FLAGS_FROM_CLIENTS,
    HEADER,
    HEADER_SIZE,
    HEADERS_LENGTH,
    HEADERS_SIZE_MAX,
    MESSAGE_ID_HEADER,
    TIMESTAMP_MAX,
    VALUE_SIZE_MAX,
    Flag,
    Record,
    encode_record,
)
from goqueue.errors import BatchRefused, CorruptMessage, InvalidMessage, TooLarge
from tests.core.records.test_record import encoded, records

FLAGS_AT = 3
GOOD = encode_record(0, 5, b"value", key=b"key")


def with_section(section: bytes, flags: int, key: bytes = b"") -> bytes:
    """A record whose value section and flags need not agree."""
    header = HEADER.pack(0x4751, 1, flags, 0, 0, 0, 2, 0, len(key), len(section))
    rest = header[CHECKSUMMED_FROM:] + key + section
    return header[:4] + crc32c(rest).to_bytes(4, "big") + rest


def with_headers(packed: bytes) -> bytes:
    return with_section(HEADERS_LENGTH.pack(len(packed)) + packed, Flag.HEADERS)


ID = {MESSAGE_ID_HEADER: b"a"}


def packed_to(size: int, others: Mapping[str, bytes] | None = None) -> bytes:
    """Headers of a program that are so large, and others beside them."""
    headers = {"h": bytes(size - 6)}
    assert len(msgpack.packb(headers)) == size
    packed: bytes = msgpack.packb({**headers, **(others or {})})
    return packed


def changed(position: int, value: int) -> bytes:
    """The good record with one byte changed and its checksum made to fit."""
    data = bytearray(GOOD)
    data[position] = value
    if position >= CHECKSUMMED_FROM:
        data[4:8] = crc32c(memoryview(data)[CHECKSUMMED_FROM:]).to_bytes(4, "big")
    return bytes(data)


def test_sound_records_are_summed_up_for_the_envelope() -> None:
    body = encode_record(0, 7, b"a", priority=0) + encode_record(1, 3, b"b", priority=4, due=9)
    assert inspect_records(body, 2) == Contents(0b10001, 7, Flag.DELAYED, holds_ids=False, holds_expiring=False)


def test_ids_and_expiries_are_seen_in_any_record() -> None:
    """And nowhere else: not as keys, values or parts of other names."""
    plain = encode_record(0, 0, MESSAGE_ID_HEADER.encode(), key=EXPIRES_AT_HEADER.encode(), headers={"h": b"v"})
    body = plain + encode_record(1, 0, b"", headers={"h": b"v", MESSAGE_ID_HEADER: b"a"})
    assert inspect_records(plain, 1)[3:] == (False, False)
    assert inspect_records(body, 2)[3:] == (True, False)
    body += encode_record(2, 0, b"", headers={EXPIRES_AT_HEADER: bytes(8)}, due=1)
    assert inspect_records(body, 3)[3:] == (True, True)


@pytest.mark.parametrize(
    ("record", "kind", "words"),
    [
        (changed(0, ord("X")), InvalidMessage, "not a record"),
        (changed(2, 9), InvalidMessage, "version 9"),
        (changed(3, 128), InvalidMessage, "flags 0x80"),
        (changed(3, Flag.CONTROL), InvalidMessage, "not for clients"),
        (changed(3, Flag.FIRED), InvalidMessage, "not for clients"),
        (GOOD[:-1] + b"X", CorruptMessage, "checksum"),
        (changed(15, 1), InvalidMessage, "relative offset 1 where 0 belongs"),
        (changed(16, 0xFF), InvalidMessage, "timestamp"),
        (changed(24, 5), InvalidMessage, "priority 5"),
        (changed(25, 1), InvalidMessage, "priority"),
        (with_section(b"1234567", Flag.DELAYED), InvalidMessage, "without a due time"),
        (with_section(DUE_TIME.pack(TIMESTAMP_MAX + 1), Flag.DELAYED), InvalidMessage, "beyond the year 3111"),
        (with_section(DUE_TIME.pack(DELAY_BIT), Flag.DELAYED), InvalidMessage, "its delay is zero"),
        (with_section(DUE_TIME.pack(DELAY_BIT + DELAY_MAX + 1), Flag.DELAYED), InvalidMessage, "too long"),
        (with_section(b"123", Flag.HEADERS), InvalidMessage, "do not fit"),
        (with_section(HEADERS_LENGTH.pack(2**32 - 1) + b"12", Flag.HEADERS), InvalidMessage, "do not fit"),
        (encode_record(0, 0, b"value", key=b"k", flags=Flag.TOMBSTONE), InvalidMessage, "a tombstone has no value"),
        (encode_record(0, 0, b"", flags=Flag.TOMBSTONE), InvalidMessage, "a tombstone deletes a key"),
        (encode_record(0, 0, b"", flags=Flag.TOMBSTONE, due=5), InvalidMessage, "a tombstone deletes a key"),
        (with_section(bytes(VALUE_SIZE_MAX + 1), 0), TooLarge, "allowed"),
        (with_section(bytes(VALUE_SIZE_MAX + 9), Flag.DELAYED), TooLarge, "allowed"),
        (with_headers(bytes(HEADERS_SIZE_MAX + BROKER_HEADERS_SIZE_MAX + 1)), TooLarge, "headers have"),
        (with_headers(packed_to(HEADERS_SIZE_MAX + 1)), TooLarge, "headers have 65537 bytes"),
        (with_headers(packed_to(HEADERS_SIZE_MAX + 1, ID)), TooLarge, "headers have 65537 bytes"),
        (with_headers(b"\x82" + 2 * msgpack.packb({"h": bytes(40_000)})[1:]), TooLarge, "headers have"),
        (with_headers(msgpack.packb({MESSAGE_ID_HEADER: b""})), InvalidMessage, "message-id' has 0 bytes"),
        (with_headers(msgpack.packb({MESSAGE_ID_HEADER: bytes(129)})), InvalidMessage, "has to have 1 to 128"),
        (with_headers(msgpack.packb({EXPIRES_AT_HEADER: bytes(7)})), InvalidMessage, "expires-at' has 7 bytes"),
        (with_headers(msgpack.packb({EXPIRES_AT_HEADER: bytes(9)})), InvalidMessage, "it has to have 8"),
        (with_headers(msgpack.packb({MESSAGE_ID_HEADER: "text"})), InvalidMessage, "text to bytes"),
        (with_headers(msgpack.packb({**ID, "goqueue-message-id2": b"a"})), InvalidMessage, "the broker's"),
        (with_headers(b"\xc1"), InvalidMessage, "not msgpack"),
        (with_headers(b"\x81\xa1a"), InvalidMessage, "not msgpack"),
        (with_headers(b"\x91" * 5_000 + b"\x90"), InvalidMessage, "headers"),
        (with_headers(b"\xdd\xff\xff\xff\xff"), InvalidMessage, "not msgpack"),
        (with_headers(b"\x90"), InvalidMessage, "not a map"),
        (with_headers(msgpack.packb({"a": 1})), InvalidMessage, "text to bytes"),
        (with_headers(b"\x81\x01\xc4\x01a"), InvalidMessage, "headers"),
        (with_headers(b"\x81\xc4\x01a\xc4\x01a"), InvalidMessage, "text to bytes"),
        (with_headers(b"\x81\xa2\xff\xfe\xc4\x01a"), InvalidMessage, "headers"),
        (with_headers(msgpack.packb({"goqueue-x": b""})), InvalidMessage, "the broker's"),
    ],
)
def test_a_bad_record_is_named_with_its_reason(record: bytes, kind: type, words: str) -> None:
    with pytest.raises(BatchRefused) as refused:
        inspect_records(record, 1)
    [bad] = refused.value.records
    assert bad.index == 0
    assert type(bad.error) is kind
    assert words in bad.error.message


def test_a_tombstone_has_a_key_unless_the_broker_moves_it() -> None:
    """Older versions have accepted some without: what they stored can still be dead-lettered (G16)."""
    for options in ({}, {"headers": {"a": b"1"}}, {"due": 5}):
        keyless = encode_record(0, 0, b"", flags=Flag.TOMBSTONE, **options)
        assert inspect_records(keyless, 1, FLAGS_FROM_BROKER).flags & Flag.TOMBSTONE
        keyed = encode_record(0, 0, b"", key=b"k", flags=Flag.TOMBSTONE, **options)
        assert inspect_records(keyed, 1).flags & Flag.TOMBSTONE


def test_every_bad_record_of_a_batch_is_named_and_no_good_one() -> None:
    body = b"".join(
        [
            encode_record(0, 0, b"good"),
            encode_record(1, 0, b"bad", priority=7),
            encode_record(2, 0, b"good"),
            encode_record(3, TIMESTAMP_MAX + 1, b"bad"),
        ]
    )
    with pytest.raises(BatchRefused) as refused:
        inspect_records(body, 4)
    assert [bad.index for bad in refused.value.records] == [1, 3]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (GOOD, 0),
        (GOOD, 2),
        (GOOD + b"x", 1),
        (GOOD[:-1], 1),
        (GOOD[: HEADER_SIZE - 1], 1),
        (b"", 1),
        (b"", 0),
        (GOOD + encode_record(1, 0, b""), 1),
    ],
)
def test_a_batch_whose_count_or_length_is_wrong_is_refused_as_a_whole(body: bytes, count: int) -> None:
    with pytest.raises(InvalidMessage) as refused:
        inspect_records(body, count)
    assert not isinstance(refused.value, BatchRefused)


def test_the_limits_themselves_are_allowed() -> None:
    headers = msgpack.unpackb(packed_to(HEADERS_SIZE_MAX))
    body = encode_record(0, TIMESTAMP_MAX, bytes(VALUE_SIZE_MAX), key=bytes(65_535), headers=headers, due=1)
    assert inspect_records(body, 1).highest_timestamp == TIMESTAMP_MAX


@pytest.mark.parametrize("count", [1, 13, 14, 15, 16])
def test_id_and_expiry_stand_outside_the_limit_of_headers(count: int) -> None:
    """However many headers there are: a larger map has a larger head, which is not theirs."""
    headers = {f"{number:02}": b"" for number in range(count)}
    headers["00"] = bytes(HEADERS_SIZE_MAX - len(msgpack.packb(headers)) - 1)
    assert len(msgpack.packb(headers)) == HEADERS_SIZE_MAX
    own = {MESSAGE_ID_HEADER: bytes(128), EXPIRES_AT_HEADER: bytes(8)}
    assert inspect_records(encode_record(0, 0, b"", headers=headers | own), 1)[3:] == (True, True)


def test_the_brokers_own_headers_have_four_kibibytes() -> None:
    largest = {"goqueue-x": bytes(BROKER_HEADERS_SIZE_MAX - 1 - 10 - 3)}
    assert len(msgpack.packb(largest)) == BROKER_HEADERS_SIZE_MAX
    with_others = {"h": bytes(HEADERS_SIZE_MAX - 6), **largest}
    inspect_records(encode_record(0, 0, b"", headers=with_others), 1, FLAGS_FROM_BROKER)
    with pytest.raises(BatchRefused, match="broker's headers have 4097 bytes"):
        inspect_records(
            encode_record(0, 0, b"", headers={"goqueue-x": largest["goqueue-x"] + b"x"}), 1, FLAGS_FROM_BROKER
        )


def test_the_broker_itself_may_use_its_flags_and_headers() -> None:
    body = encode_record(0, 0, b"v", headers={"goqueue-delayed-from": b"7"}, flags=Flag.FIRED)
    assert inspect_records(body, 1, FLAGS_FROM_BROKER).flags == Flag.FIRED | Flag.HEADERS


@given(st.lists(records, min_size=1, max_size=5))
def test_whatever_a_client_encodes_in_order_is_accepted(originals: list[Record]) -> None:
    body = b"".join(encoded(record, number) for number, record in enumerate(originals))
    contents = inspect_records(body, len(originals))
    assert contents.highest_timestamp == max(record.timestamp for record in originals)
    assert contents.priority_mask == sum({1 << record.priority for record in originals})


@given(records, st.data())
def test_one_changed_byte_never_passes_and_never_escapes_as_another_error(
    record: Record, data: st.DataObject
) -> None:
    body = bytearray(encoded(record))
    position = data.draw(st.integers(0, len(body) - 1).filter(lambda place: place != FLAGS_AT))
    body[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(InvalidMessage):
        inspect_records(bytes(body), 1)


@given(records, st.integers(0, 255))
def test_flags_lie_outside_the_checksum_and_are_still_answered_by_name(record: Record, flags: int) -> None:
    body = bytearray(encoded(record))
    body[FLAGS_AT] = flags
    try:
        inspect_records(bytes(body), 1)
    except InvalidMessage:
        return
    assert flags & ~FLAGS_FROM_CLIENTS == 0


@given(st.binary(max_size=300), st.integers(0, 5))
def test_random_bytes_are_refused_by_name(body: bytes, count: int) -> None:
    with pytest.raises(InvalidMessage):
        inspect_records(body, count)

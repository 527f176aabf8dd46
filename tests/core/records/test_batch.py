"""Batches: the envelope, what is accepted, and what is refused before it costs anything."""

import pytest
import zstandard
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.batch import (
    BODY_SIZE_MAX,
    COUNT_MAX,
    ENVELOPE_SIZE,
    Attribute,
    Producer,
    accept,
    body_is_sound,
    compress,
    decompress,
    envelope_for,
    parse_envelope,
    records_of,
    seal_envelope,
)
from goqueue.core.records.record import EXPIRES_AT_HEADER, FLAGS_FROM_BROKER, MESSAGE_ID_HEADER, Flag, encode_record
from goqueue.errors import BatchRefused, InvalidMessage, TooLarge, UnknownFormat

BODY = encode_record(0, 7, b"a", priority=1) + encode_record(1, 9, b"b", priority=3)

u16, u32, u64 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**63)


def sealed(**changes: int) -> bytes:
    envelope = envelope_for(accept(BODY, 2), 10, leader_epoch=3, append_time=5, durable_offset=8)
    return seal_envelope(envelope._replace(**changes))


def test_an_envelope_says_everything_about_its_records() -> None:
    batch = accept(BODY, 2, producer=Producer(77, 2, 40))
    envelope = envelope_for(batch, 10, leader_epoch=3, append_time=5, durable_offset=8)
    found = parse_envelope(seal_envelope(envelope))
    assert found == envelope
    assert (found.base_offset, found.end_offset, found.record_count) == (10, 12, 2)
    assert (found.highest_timestamp, found.append_time, found.durable_offset) == (9, 5, 8)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (77, 2, 40)
    assert (found.priority_mask, found.leader_epoch) == (0b1010, 3)
    assert found.size == ENVELOPE_SIZE + len(BODY)
    assert body_is_sound(found, BODY)


@given(u64, u32, u32, u16, u64, u16, u64)
def test_every_field_comes_back(
    base: int, delta: int, epoch: int, p_epoch: int, p_id: int, attr: int, t: int
) -> None:
    changes = {
        "base_offset": base,
        "last_offset_delta": delta,
        "leader_epoch": epoch,
        "producer_epoch": p_epoch,
        "producer_id": p_id,
        "attributes": attr,
        "append_time": t,
    }
    found = parse_envelope(b"xx" + sealed(**changes), 2)
    assert found is not None
    assert {name: getattr(found, name) for name in changes} == changes


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_an_envelope_says_by_how_much_the_clock_was_behind_its_append_time(wall: int, lead: int) -> None:
    envelope = envelope_for(
        accept(BODY, 2), 10, leader_epoch=3, append_time=wall + lead, durable_offset=8, wall_time=wall
    )
    found = parse_envelope(seal_envelope(envelope))
    assert found is not None
    assert (found.append_time, found.clock_lag, found.wall_time) == (wall + lead, lead, wall)


def test_an_envelope_of_an_older_goqueue_was_written_at_its_append_time() -> None:
    """Zeros stand where the lag is now."""
    found = parse_envelope(sealed(append_time=7))
    assert sealed(append_time=7)[80:] == bytes(16)
    assert found is not None
    assert found.wall_time == 7


@given(st.integers(0, ENVELOPE_SIZE - 1), st.integers(1, 255))
def test_an_envelope_with_any_byte_changed_is_not_sound(position: int, change: int) -> None:
    data = bytearray(sealed())
    data[position] ^= change
    assert parse_envelope(data) is None


def test_a_sound_envelope_of_a_newer_version_is_named_and_never_taken_for_damage() -> None:
    data = bytearray(sealed())
    data[3] = 2
    data[4:8] = crc32c(data[8:], crc32c(data[:4])).to_bytes(4, "big")
    with pytest.raises(UnknownFormat, match="version 2"):
        parse_envelope(data)


def test_too_few_bytes_are_no_envelope() -> None:
    assert parse_envelope(sealed()[:-1]) is None
    assert parse_envelope(b"") is None


def test_a_changed_body_is_not_sound() -> None:
    envelope = parse_envelope(sealed())
    assert envelope is not None
    assert not body_is_sound(envelope, BODY[:-1] + b"x")
    assert not body_is_sound(envelope, BODY[:-1])


def test_a_compressed_body_is_checked_inside_and_kept_as_it_came() -> None:
    body = compress(BODY)
    batch = accept(body, 2, attributes=Attribute.ZSTD)
    assert (batch.body, batch.highest_timestamp) == (body, 9)
    envelope = envelope_for(batch, 0, leader_epoch=1, append_time=1, durable_offset=0)
    assert records_of(envelope, body) == BODY
    with pytest.raises(BatchRefused):
        accept(compress(encode_record(0, 0, b"", priority=9)), 1, attributes=Attribute.ZSTD)


def test_delayed_records_mark_their_batch() -> None:
    assert accept(encode_record(0, 0, b"", due=5), 1).attributes == Attribute.HOLDS_DELAYED
    assert accept(encode_record(0, 0, b"", key=b"k", flags=Flag.TOMBSTONE), 1).attributes == 0


@pytest.mark.parametrize("zstd", [False, True])
def test_ids_and_expiries_mark_their_batch(zstd: bool) -> None:
    first = encode_record(0, 0, b"", headers={MESSAGE_ID_HEADER: b"a"})
    second = encode_record(1, 0, b"", headers={EXPIRES_AT_HEADER: bytes(8), "other": b""}, due=5)
    packed, attributes = (compress, Attribute.ZSTD) if zstd else (bytes, Attribute(0))
    assert accept(packed(first), 1, attributes=attributes).attributes == attributes | Attribute.HOLDS_IDS
    held = Attribute.HOLDS_IDS | Attribute.HOLDS_EXPIRING | Attribute.HOLDS_DELAYED
    assert accept(packed(first + second), 2, attributes=attributes).attributes == attributes | held


@pytest.mark.parametrize("count", [0, -1, COUNT_MAX + 1])
def test_an_impossible_count_is_refused_before_the_body_is_read(count: int) -> None:
    with pytest.raises(InvalidMessage, match="records"):
        accept(BODY, count)


def test_unknown_attributes_are_refused() -> None:
    with pytest.raises(InvalidMessage, match="attributes"):
        accept(BODY, 2, attributes=2)
    with pytest.raises(InvalidMessage, match="attributes"):
        accept(BODY, 2, attributes=1 << 15)


@pytest.mark.parametrize("attribute", sorted(set(Attribute) - {Attribute.ZSTD}))
def test_a_client_cannot_say_what_is_the_brokers_to_say(attribute: int) -> None:
    """Least of all that a batch is one of control records, which readers pass over."""
    with pytest.raises(InvalidMessage, match=f"attributes {attribute:#06x} are the broker's"):
        accept(BODY, 2, attributes=attribute)


def test_the_broker_says_what_is_control_and_looks_for_the_rest_itself() -> None:
    control = Attribute.CONTROL | Attribute.TRANSACTIONAL
    assert accept(BODY, 2, attributes=control, allowed_flags=FLAGS_FROM_BROKER).attributes == control
    for attribute in (Attribute.HOLDS_DELAYED, Attribute.HOLDS_IDS, Attribute.HOLDS_EXPIRING):
        with pytest.raises(InvalidMessage, match="attributes"):
            accept(BODY, 2, attributes=attribute, allowed_flags=FLAGS_FROM_BROKER)


def test_a_body_beyond_the_limit_is_refused() -> None:
    with pytest.raises(TooLarge):
        accept(bytes(BODY_SIZE_MAX + 1), 1)


def test_a_zstd_bomb_is_refused_before_it_grows() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(BODY_SIZE_MAX + 1))
    assert len(bomb) < 10_000
    with pytest.raises(TooLarge, match="unpacks to"):
        accept(bomb, 1, attributes=Attribute.ZSTD)


def test_a_zstd_bomb_that_does_not_say_its_size_is_refused_at_the_limit() -> None:
    writer = zstandard.ZstdCompressor().compressobj()
    bomb = writer.compress(bytes(BODY_SIZE_MAX + 1)) + writer.flush()
    assert zstandard.frame_content_size(bomb) == -1
    with pytest.raises(InvalidMessage):
        accept(bomb, 1, attributes=Attribute.ZSTD)


@pytest.mark.parametrize("body", [b"", b"not zstd", compress(BODY)[:-1], compress(BODY) + b"more"])
def test_what_is_no_single_zstd_frame_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidMessage):
        decompress(body)

"""Batches of the log become the same rows as a reader's messages, whatever is in them. No Spark here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.reading.message import Message, Slice
from goqueue.core.groups.deadletter import Story
from goqueue.core.records.batch import Attribute, accept, compress, envelope_for, seal_envelope
from goqueue.core.records.record import (
    EXPIRES_AT,
    EXPIRES_AT_HEADER,
    FLAGS_FROM_BROKER,
    MESSAGE_ID_HEADER,
    Flag,
    encode_record,
)
from goqueue.core.slices.batchindex import with_records
from goqueue.errors import CorruptMessage
from goqueue.spark.reading import rows
from goqueue.spark.reading.columns import record_batches
from goqueue.spark.reading.rows import WantedRows
from goqueue.spark.schema import arrow_schema, source_schema

NOW = 1_700_000_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EVERYTHING = arrow_schema(source_schema(include_headers=True, include_origin=True))
BEGINNING = b"GQ\x01"
"""Of a record; in a value it looks like one."""
STORY = Story("orders", 3, 17, "billing", 5, NOW - 10, NOW - 5, "no such customer")


@dataclass(frozen=True)
class Entry:
    """A record before it is encoded."""

    value: bytes = b"value"
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    priority: int = 2
    flags: int = 0
    due: int | None = None
    timestamp: int = NOW
    is_kept: bool = True
    """False where compaction has dropped it."""

    def encoded(self, number: int) -> bytes:
        return encode_record(
            number,
            self.timestamp,
            b"" if self.flags & Flag.TOMBSTONE else self.value,
            key=self.key,
            headers=dict(self.headers),
            priority=self.priority,
            flags=self.flags,
            due=self.due,
        )


def batch(entries: Sequence[Entry], base: int = 0, *, packed: bool = False) -> bytes:
    """As it lies in the log."""
    every = [each.encoded(number) for number, each in enumerate(entries)]
    body = compress(b"".join(every)) if packed else b"".join(every)
    attributes = int(Attribute.ZSTD) if packed else 0
    whole = accept(body, len(every), attributes=attributes, allowed_flags=FLAGS_FROM_BROKER)
    envelope = envelope_for(whole, base, leader_epoch=1, append_time=NOW, durable_offset=0)
    kept = [record for entry, record in zip(entries, every, strict=True) if entry.is_kept]
    if len(kept) < len(every):
        return with_records(envelope, b"".join(kept), len(kept))
    return seal_envelope(envelope) + body


def log(*batches: tuple[Sequence[Entry], bool]) -> tuple[bytes, int]:
    """Batches one behind the other, each packed or not, and where they end."""
    pieces, base = list[bytes](), 0
    for entries, packed in batches:
        pieces.append(batch(entries, base, packed=packed))
        base += len(entries)
    return b"".join(pieces), base


def table(data: bytes, start: int, end: int) -> list[dict[str, Any]]:
    wanted = WantedRows("orders.dlq", 1, start, end, NOW)
    found = list(record_batches(data, wanted, EVERYTHING))
    for each in found:
        each.validate(full=True)
        assert each.schema == EVERYTHING
        assert each.num_rows, "an empty one is not worth its way"
    return [row for each in found for row in each.to_pylist()]


def messages(data: bytes, start: int, end: int) -> list[Message]:
    return list(Slice("orders.dlq", 1, data).messages(start, end, NOW))


def expected_of(message: Message, entry: Entry) -> dict[str, Any]:
    story = Story.from_headers(dict(entry.headers))
    return {
        "key": message.key,
        "value": message.value,
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": EPOCH + timedelta(microseconds=entry.timestamp),
        "priority": int(message.priority),
        "headers": [{"key": name, "value": each} for name, each in message.headers.items()],
        "origin_topic": story and story.topic,
        "origin_partition": story and story.partition,
        "origin_offset": story and story.offset,
        "origin_group": story and story.group,
        "attempts": story and story.attempts,
        "first_delivery": story and EPOCH + timedelta(microseconds=story.first_delivery),
        "last_delivery": story and EPOCH + timedelta(microseconds=story.last_delivery),
        "reason": story and story.reason,
    }


# Entries that Hypothesis draws

HEADERS = st.sampled_from(
    [
        (),
        (("trace", b"abc"),),
        (("trace", b""), ("kind", b"\xff")),
        ((MESSAGE_ID_HEADER, b"id-1"),),
        ((EXPIRES_AT_HEADER, EXPIRES_AT.pack(NOW - 1)),),
        ((EXPIRES_AT_HEADER, EXPIRES_AT.pack(NOW)), ("trace", b"x")),
        ((EXPIRES_AT_HEADER, EXPIRES_AT.pack(NOW + 1)), ("trace", b"x")),
        tuple(STORY.to_headers().items()),
    ]
)
VALUES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", BEGINNING, b"x" + BEGINNING + b"\0" * 40, Entry().encoded(1), b"Q" * 33]),
)
ENTRIES = st.builds(
    Entry,
    value=VALUES,
    key=st.none() | st.binary(min_size=1, max_size=8) | st.just(BEGINNING),
    headers=HEADERS,
    priority=st.integers(0, 4),
    flags=st.sampled_from([0, 0, 0, int(Flag.TOMBSTONE), int(Flag.CONTROL), int(Flag.FIRED)]),
    due=st.sampled_from([None, None, None, NOW + 5, 2**63 + 7]),
    timestamp=st.integers(0, 2**55 - 1),
    is_kept=st.booleans() | st.just(True),
)
ALIKE = st.builds(lambda entry, count: [entry] * count, ENTRIES, st.integers(1, 20))
BATCHES = st.lists(st.tuples(st.lists(ENTRIES, min_size=1, max_size=12) | ALIKE, st.booleans()), max_size=6)


@given(BATCHES, st.data())
def test_rows_are_what_a_reader_gets(batches: list[tuple[list[Entry], bool]], data: st.DataObject) -> None:
    stored, count = log(*batches)
    start, end = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    entries = [entry for many, _ in batches for entry in many]
    expected = [expected_of(message, entries[message.offset]) for message in messages(stored, start, end)]
    assert table(stored, start, end) == expected


def test_values_that_look_like_records_are_values() -> None:
    """Each of them makes more beginnings than records, at a place where a record could begin."""
    inner = Entry(value=b"inner").encoded(0)
    stored, count = log(([Entry(inner), Entry(b"x"), Entry(inner + inner)], False), ([Entry(b"y")] * 9, False))
    assert [row["value"] for row in table(stored, 0, count)] == [inner, b"x", inner + inner, *[b"y"] * 9]


def test_batches_outside_of_the_range_are_not_looked_at() -> None:
    stored, _ = log(([Entry(b"a")], False), ([Entry(b"b")] * 3, False), ([Entry(b"c")], False))
    assert [(row["offset"], row["value"]) for row in table(stored, 1, 4)] == [(1, b"b"), (2, b"b"), (3, b"b")]


@pytest.mark.parametrize("length", [6, 2**31, 2**32 - 1])
def test_a_record_with_a_wrong_length_shows_nobody_what_lies_behind_it(length: int) -> None:
    """A broker never gives out such a batch; its checksums are right here."""
    record = bytearray(Entry(b"value").encoded(0))
    record[28:32] = length.to_bytes(4, "big")
    whole = accept(Entry(b"value").encoded(0), 1)
    envelope = envelope_for(
        whole._replace(body=bytes(record)), 0, leader_epoch=1, append_time=NOW, durable_offset=0
    )
    with pytest.raises(CorruptMessage, match="longer than its batch has room for"):
        table(seal_envelope(envelope) + record, 0, 1)


def test_packed_batches_are_unpacked_a_few_at_a_time() -> None:
    """However well they are packed: what is in memory at once has a bound."""
    large = [Entry(b"0" * 1_000_000)] * 3
    stored, count = log(*[(large, True)] * 4)
    assert len(stored) < 100_000
    found = list(record_batches(stored, WantedRows("orders", 0, 0, count, NOW), EVERYTHING))
    assert [each.num_rows for each in found] == [6, 6]
    assert rows.UNPACKED_SIZE_MAX < 2 * 3_000_000


def test_batches_that_changed_on_their_way_are_refused_whole() -> None:
    stored = bytearray(log(([Entry(b"first")], False), ([Entry(b"second")], False))[0])
    stored[-1] ^= 1
    with pytest.raises(CorruptMessage, match=r"what was read of orders\.dlq/1 changed on its way"):
        table(bytes(stored), 0, 2)

"""Messages decode themselves on first use, and are what was published."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.producing.content import acks_of, check_content, priority_of
from goqueue.client.reading.message import Message, Slice
from goqueue.core.records.batch import Attribute, accept, compress, envelope_for, seal_envelope
from goqueue.core.records.record import DELAY_BIT, FLAGS_FROM_BROKER, Flag, encode_record
from goqueue.errors import CorruptMessage, InvalidMessage, TooLarge
from goqueue.types import Acks, Buffer, Priority

NOW = 1_000_000


class Content(NamedTuple):
    value: bytes
    key: bytes | None
    headers: Mapping[str, bytes]
    priority: Priority
    timestamp: int


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def is_free(name: str) -> bool:
    """The others are the broker's."""
    return not name.startswith("goqueue-")


contents = st.builds(
    Content,
    value=st.binary(max_size=100),
    key=st.none() | st.binary(min_size=1, max_size=20),
    headers=st.dictionaries(texts.filter(is_free), st.binary(max_size=20), max_size=4),
    priority=st.sampled_from(Priority),
    timestamp=st.integers(0, 2**50),
)


def record(number: int, content: Content) -> bytes:
    value, key, headers, priority, timestamp = content
    return encode_record(number, timestamp, value, key=key, headers=headers, priority=priority)


def sealed(*records: bytes, base_offset: int = 0, zstd: bool = False) -> bytes:
    """A batch as the broker sends it."""
    body = b"".join(records)
    batch = accept(
        compress(body) if zstd else body,
        len(records),
        attributes=Attribute.ZSTD if zstd else 0,
        allowed_flags=FLAGS_FROM_BROKER,
    )
    envelope = envelope_for(batch, base_offset, leader_epoch=0, append_time=1, durable_offset=0)
    return seal_envelope(envelope) + bytes(batch.body)


def messages_in(topic: str, partition: int, data: Buffer, start: int, end: int | None = None) -> list[Message]:
    return list(Slice(topic, partition, data).messages(start, end, now=NOW))


def content_of(message: Message) -> Content:
    timestamp = round(message.timestamp * 1_000_000)
    return Content(message.value, message.key, message.headers, message.priority, timestamp)


@given(st.lists(st.tuples(st.lists(contents, min_size=1, max_size=4), st.booleans()), max_size=4), st.data())
def test_a_message_is_what_was_published(batches: list[tuple[list[Content], bool]], data: st.DataObject) -> None:
    written = [content for batch, _ in batches for content in batch]
    sent, offset = b"", 7
    for batch, zstd in batches:
        sent += sealed(*map(record, range(len(batch)), batch), base_offset=offset, zstd=zstd)
        offset += len(batch)
    first = data.draw(st.integers(0, offset), label="from offset")
    end = data.draw(st.none() | st.integers(0, offset + 3), label="to offset")
    expected = range(max(first, 7), offset if end is None else min(end, offset))
    found = messages_in("orders", 2, sent, first, end)
    assert [message.offset for message in found] == list(expected)
    assert [content_of(message) for message in found] == [written[number - 7] for number in expected]
    assert {(message.topic, message.partition) for message in found} <= {("orders", 2)}


def test_a_message_outside_a_group_has_neither_attempt_nor_receipt() -> None:
    [message] = messages_in("orders", 0, sealed(encode_record(0, 1_500_000, b"abc")), 0)
    assert (message.attempt, message.receipt, message.timestamp) == (0, None, 1.5)
    assert repr(message) == "<Message orders/0 offset 0, 3 bytes>"


def test_nothing_is_decoded_before_somebody_looks() -> None:
    [message] = messages_in("orders", 0, sealed(encode_record(0, 1, b"abc", key=b"k", headers={"a": b"1"})), 0)
    assert message.value == b"abc"
    assert not hasattr(message, "_headers")
    assert message.headers is message.headers


def test_an_empty_key_is_no_key() -> None:
    [message] = messages_in("orders", 0, sealed(encode_record(0, 1, b"", key=b"")), 0)
    assert (message.key, message.value) == (None, b"")


@pytest.mark.parametrize(
    "hidden",
    [
        encode_record(1, 1, b"", key=b"\0\1", flags=Flag.CONTROL),
        encode_record(1, 1, b"later", due=DELAY_BIT | 5),
        encode_record(1, 1, b"later", due=5, headers={"a": b"1"}),
    ],
    ids=["control", "delayed by a time", "delayed until a time"],
)
def test_records_that_are_no_messages_are_passed_over(hidden: bytes) -> None:
    """G3"""
    sent = sealed(encode_record(0, 1, b"a"), hidden, encode_record(2, 1, b"b", flags=Flag.FIRED))
    assert [(each.offset, each.value) for each in messages_in("orders", 0, sent, 0)] == [(0, b"a"), (2, b"b")]


@pytest.mark.parametrize("zstd", [False, True])
def test_a_tombstone_has_a_key_and_no_value(zstd: bool) -> None:
    records = [
        encode_record(0, NOW, b"", key=b"k"),
        encode_record(1, NOW, b"", key=b"k", flags=Flag.TOMBSTONE),
        encode_record(2, NOW, b"", key=b"k", headers={"a": b"1"}, flags=Flag.TOMBSTONE | Flag.FIRED),
    ]
    messages = list(Slice("orders", 0, sealed(*records, zstd=zstd)).messages(0, None, NOW))
    assert [(each.key, each.value, each.headers) for each in messages] == [
        (b"k", b"", {}),
        (b"k", None, {}),
        (b"k", None, {"a": b"1"}),
    ]
    assert repr(messages[1]) == "<Message orders/0 offset 1, a tombstone>"


@given(st.data())
def test_a_byte_that_changed_on_its_way_is_noticed(data: st.DataObject) -> None:
    """G1: nobody gets a message that nobody published."""
    sent = bytearray(sealed(encode_record(0, 1, b"some value", key=b"key")))
    sent[data.draw(st.integers(0, len(sent) - 1), label="where")] ^= data.draw(st.integers(1, 255), label="how")
    with pytest.raises(CorruptMessage, match="orders/3"):
        messages_in("orders", 3, sent, 0)


@pytest.mark.parametrize(
    ("value", "key", "headers", "error"),
    [
        ("text", None, None, InvalidMessage),
        (b"", "text", None, InvalidMessage),
        (b"", None, {"a": "text"}, InvalidMessage),
        (b"", None, {b"a": b""}, InvalidMessage),
        (b"", None, [("a", b"")], InvalidMessage),
        (b"", None, {"\ud800": b""}, InvalidMessage),
        (None, None, None, InvalidMessage),
        (bytes(16 * 1024 * 1024 + 1), None, None, TooLarge),
        (b"", bytes(65_536), None, TooLarge),
        (b"", None, {"a": bytes(65_536)}, TooLarge),
    ],
)
def test_bad_content_is_refused_before_it_is_encoded(
    value: object, key: object, headers: object, error: type[InvalidMessage]
) -> None:
    """G14"""
    with pytest.raises(error):
        check_content(value, key, headers)


def test_priorities_and_acks_have_names_and_numbers() -> None:
    assert [priority_of(each) for each in ("high", 1, Priority.HIGH, "HIGH")] == [Priority.HIGH] * 4
    assert [acks_of(each) for each in ("leader", 1, Acks.LEADER)] == [Acks.LEADER] * 3
    for bad in ("urgent", 5, -1):
        with pytest.raises(InvalidMessage, match="there are"):
            priority_of(bad)
        with pytest.raises(InvalidMessage, match="there are"):
            acks_of(bad)


@pytest.mark.parametrize(
    ("start", "end"), [(0, None), (100, None), (101, None), (120, 130), (0, 105), (0, 100), (150, None)]
)
def test_messages_that_are_all_alike_are_what_was_published_from_wherever_one_reads(
    start: int, end: int | None
) -> None:
    published = [
        Content(b"value %02d" % number, b"key %02d" % number, {}, Priority.HIGH, 7 + number) for number in range(50)
    ]
    data = sealed(*(record(number, content) for number, content in enumerate(published)), base_offset=100)
    expected = [each for each in enumerate(published, 100) if start <= each[0] < (end or 150)]
    assert [(each.offset, content_of(each)) for each in messages_in("t", 3, data, start, end)] == expected

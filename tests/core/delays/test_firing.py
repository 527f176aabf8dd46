"""Delayed messages as they are delivered: what they were, and where they came from (G8, G16)."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.delays.events import DELAYED_FROM_HEADER, delay_events
from goqueue.core.delays.firing import fired_batch, fired_events
from goqueue.core.groups.deadletter import one_record
from goqueue.core.records.batch import Attribute, accept
from goqueue.core.records.record import (
    EXPIRES_AT_HEADER,
    FLAGS_FROM_BROKER,
    MESSAGE_ID_HEADER,
    TIMESTAMP_MAX,
    Flag,
    decode_records,
    encode_record,
)
from goqueue.types import Offset, Priority

BASE, TIME = 10, 5_000
OFFSET_MAX = 2**48

headers_of_messages = st.dictionaries(st.text(max_size=5), st.binary(max_size=40), max_size=20)
headers_of_clients = st.fixed_dictionaries(
    {}, optional={MESSAGE_ID_HEADER: st.binary(min_size=1, max_size=128), EXPIRES_AT_HEADER: st.just(bytes(8))}
)


@st.composite
def originals(draw: st.DrawFn) -> tuple[Offset, bytes]:
    is_tombstone = draw(st.booleans())
    record = encode_record(
        draw(st.integers(0, 1_000)),
        draw(st.integers(0, TIMESTAMP_MAX)),
        b"" if is_tombstone else draw(st.binary(max_size=300)),
        key=draw(st.binary(max_size=40)),
        headers=draw(headers_of_messages) | draw(headers_of_clients),
        priority=draw(st.sampled_from(Priority)),
        flags=int(Flag.TOMBSTONE) if is_tombstone else 0,
        due=draw(st.integers(0, TIMESTAMP_MAX)),
    )
    return draw(st.integers(0, OFFSET_MAX)), record


some_originals = st.lists(originals(), min_size=1, max_size=8)


@given(some_originals)
def test_what_is_made_without_a_check_would_pass_it(made_from: list[tuple[Offset, bytes]]) -> None:
    """And its envelope says of it what the check finds."""
    batch = fired_batch(made_from)
    assert batch == accept(batch.body, batch.record_count, allowed_flags=FLAGS_FROM_BROKER)
    assert batch.attributes & Attribute.HOLDS_FIRED


@given(some_originals)
def test_each_is_all_that_it_was_but_for_its_id(made_from: list[tuple[Offset, bytes]]) -> None:
    batch = fired_batch(made_from)
    fired = list(decode_records(batch.body, batch.record_count, BASE))
    for number, (offset, record) in enumerate(made_from):
        was, now = one_record(record), fired[number]
        headers = {**was.headers, DELAYED_FROM_HEADER: b"%d" % offset}
        headers.pop(MESSAGE_ID_HEADER, None)
        assert now.headers == headers
        assert (now.offset, now.due) == (BASE + number, None)
        assert (now.timestamp, now.key, now.value) == (was.timestamp, was.key, was.value)
        assert now.priority == was.priority
        assert now.flags == was.flags & ~Flag.DELAYED | Flag.FIRED | Flag.HEADERS


@given(some_originals)
def test_what_it_says_about_delays_is_known_without_a_look(made_from: list[tuple[Offset, bytes]]) -> None:
    batch = fired_batch(made_from)
    found = delay_events(batch.attributes, BASE, TIME, batch.record_count, batch.body)
    assert fired_events([offset for offset, _ in made_from], BASE, TIME) == list(found)

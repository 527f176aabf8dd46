"""Frames: what goes in comes out, and whatever else comes in is refused by name (G14)."""

import tracemalloc
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.errors import ProtocolError
from goqueue.net.wire.codec import decode, encode, open_frame, read_body
from goqueue.net.wire.errors import FrameTooLarge, UnknownKind
from goqueue.net.wire.fields import LIST_COUNT_MAX
from goqueue.net.wire.groups import AlterGroup, JoinGroup, Receive, Received, Settle, Settled
from goqueue.net.wire.kinds import ANSWERS, BODIES, KINDS, Answer, Body, Request
from goqueue.net.wire.messages import (
    AlterTopic,
    CreateTopic,
    DeleteBefore,
    DescribeTopics,
    Done,
    Error,
    Fetched,
    Hello,
    OffsetAtTime,
    Part,
    Produce,
    ProduceBatch,
    Purge,
    Stats,
)
from tests.net import bodies
from tests.net.strategies import any_body, correlations

MIB = 1024 * 1024
UUID = bytes(range(16))
BATCH = ProduceBatch(UUID, 1, 2, 3, 4, 5, 0, 1, b"body")
PRODUCE = Produce(2, (BATCH,))


def packed(kind: type[Body] | int, body: Any, *more: Any, correlation: Any = 7) -> bytes:
    frame: bytes = msgpack.packb([kind if isinstance(kind, int) else KINDS[kind], correlation, body, *more])
    return frame


def refused(data: bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        decode(data, MIB)
    return caught.value


@given(any_body, correlations, st.integers(0, 2**32 - 1))
def test_every_message_comes_back(body: Body, correlation: int, throttle_ms: int) -> None:
    frame = decode(encode(body, correlation, throttle_ms), MIB)
    assert (frame.correlation, frame.body, frame.throttle_ms) == (correlation, body, throttle_ms)
    assert type(frame.body) is type(body)


def test_every_kind_has_one_body_and_every_request_its_answer() -> None:
    assert len(KINDS) == len(BODIES)
    requests = [KINDS[request] for request in ANSWERS]
    assert sorted(requests) == [number for number in BODIES if number >= 16 and number % 2 == 0]
    assert not set(ANSWERS) & set(ANSWERS.values())


def test_the_unions_for_type_checkers_are_those_of_the_messages() -> None:
    assert set(get_args(Request)) == set(ANSWERS)
    assert set(get_args(Answer)) == set(ANSWERS.values())
    assert set(get_args(Body)) == set(KINDS)


@given(
    any_body, st.lists(st.none() | st.integers(0, 9) | st.lists(st.lists(st.just(b"x"))), min_size=1, max_size=4)
)
def test_fields_of_a_newer_version_are_ignored(body: Body, more: list[Any]) -> None:
    assert decode(packed(type(body), [*body, *more]), MIB).body == body
    assert decode(packed(type(body), body, 0, *more), MIB).body == body


def test_newer_fields_inside_a_list_are_ignored_too() -> None:
    assert decode(packed(Produce, [2, [[*BATCH, {"new": [1]}], [*BATCH, 5]]]), MIB).body == Produce(
        2, (BATCH, BATCH)
    )


def test_a_field_that_an_older_version_leaves_out_has_its_default() -> None:
    assert decode(packed(Hello, [1, [], "old"]), MIB).body == Hello(1, (), "old", None, None)
    assert "at least 3" in refused(packed(Hello, [1, []])).message
    altered = decode(packed(AlterGroup, ["g", {}]), MIB).body
    assert altered == AlterGroup("g", {}, force=False)


PLAIN: list[Any] = [None, "", 0, []]
"""The last fields of a settlement."""
JOINED = ["earliest", 30_000, False, 1]
"""Those of a join."""
HOSTILE = {
    "nothing": b"",
    "no array": b"\x01",
    "a map": msgpack.packb({1: 2}),
    "text": b"hello",
    "a short array": msgpack.packb([16, 7]),
    "a kind that is text": msgpack.packb(["16", 7, []]),
    "a kind below zero": msgpack.packb([-1, 7, []]),
    "a true kind": msgpack.packb([True, 7, ["a"]]),
    "a correlation id that is too large": packed(Stats, [], correlation=2**32),
    "a correlation id below zero": packed(Stats, [], correlation=-1),
    "a correlation id of nil": packed(Stats, [], correlation=None),
    "an unknown kind": packed(999, []),
    "a body that is nil": packed(Purge, None),
    "a body that is a map": packed(Purge, {"name": "a"}),
    "too few fields": packed(Purge, []),
    "bytes where text belongs": packed(Purge, [b"orders"]),
    "text where bytes belong": packed(OffsetAtTime, ["0123456789abcdef", 0, 0]),
    "an array where text belongs": packed(Purge, [["orders"]]),
    "an empty array where text belongs": packed(Purge, [[]]),
    "an empty map where text belongs": packed(Purge, [{}]),
    "text that is not UTF-8": b"\x93\x1a\x07\x91\xa2\xff\xfe",
    "a name that is too long": packed(Purge, ["x" * 257]),
    "text beyond every limit": packed(Purge, ["x" * 70_000]),
    "a uuid that is too short": packed(OffsetAtTime, [UUID[1:], 0, 0]),
    "a uuid that is too long": packed(OffsetAtTime, [UUID + b"x", 0, 0]),
    "a negative partition": packed(OffsetAtTime, [UUID, -1, 0]),
    "a partition that is too large": packed(OffsetAtTime, [UUID, 2**32, 0]),
    "an offset that is too large": packed(DeleteBefore, ["a", 0, 2**63]),
    "a truth where a number belongs": packed(DeleteBefore, ["a", True, 0]),
    "a float where a number belongs": packed(DeleteBefore, ["a", 1.0, 0]),
    "nil where a number belongs": packed(DeleteBefore, ["a", None, 0]),
    "a number where a truth belongs": packed(Error, ["a", "b", 1, {}]),
    "unknown acks": packed(Produce, [3, []]),
    "a batch that is no array": packed(Produce, [2, [5]]),
    "a batch with too few fields": packed(Produce, [2, [BATCH[:-1]]]),
    "batches that are a map": packed(Produce, [2, {}]),
    "a config that is an array": packed(AlterTopic, ["a", []]),
    "a config with an array inside": packed(AlterTopic, ["a", {"b": [1]}]),
    "a config with an empty map inside": packed(AlterTopic, ["a", {"b": {}}]),
    "a config with a key of bytes": packed(AlterTopic, ["a", {b"b": 1}]),
    "a config with a key that is too long": packed(AlterTopic, ["a", {"b" * 257: 1}]),
    "a config with a number that is too large": packed(AlterTopic, ["a", {"b": 2**63}]),
    "a config with too many bytes": packed(AlterTopic, ["a", {"b": b"x" * 65_537}]),
    "a config with too much text": packed(AlterTopic, ["a", {"b": "x" * 65_537}]),
    "a config with too many keys": packed(AlterTopic, ["a", {str(n): 1 for n in range(1025)}]),
    "an extension": packed(Purge, [msgpack.ExtType(5, b"abc")]),
    "an empty extension": packed(AlterTopic, ["a", {"b": msgpack.ExtType(5, b"")}]),
    "a timestamp": packed(AlterTopic, ["a", {"b": msgpack.Timestamp(1, 2)}]),
    "too many names": packed(DescribeTopics, [["a"] * (LIST_COUNT_MAX + 1)]),
    "a delivery that is no array": packed(Settle, ["g", [5]]),
    "an action that does not exist": packed(Settle, ["g", [[UUID, 0, 1, 6, [], *PLAIN]]]),
    "a run with a field too few": packed(Settle, ["g", [[UUID, 0, 1, 0, [[4, 5]], *PLAIN]]]),
    "a run below zero": packed(Settle, ["g", [[UUID, 0, 1, 0, [[-1, 5, 1]], *PLAIN]]]),
    "a reason without end": packed(Settle, ["g", [[UUID, 0, 1, 2, [], None, "x" * 4_097, 0, []]]]),
    "too many runs": packed(Settle, ["g", [[UUID, 0, 1, 0, [[1, 1, 1]] * (LIST_COUNT_MAX + 1), *PLAIN]]]),
    "a receive from a topic by name": packed(Receive, ["g", "m", 1, 0, 1, 1, 1, False, [["orders", 0]], 1, 1]),
    "a number where a member is busy": packed(Receive, ["g", "m", 1, 0, 1, 1, 1, 0, [], 1, 1]),
    "a subscription that is text": packed(JoinGroup, ["g", "m", "c", "orders", {}, *JOINED]),
    "a setting of a group that is a list": packed(JoinGroup, ["g", "m", "c", ["orders"], {"mode": [1]}, *JOINED]),
    "a throttle below zero": packed(Done, [], -1),
    "bytes behind the frame": packed(Stats, []) + b"\x00",
    "a byte that msgpack never uses": b"\x93\x1a\x07\x91\xc1",
    "deep nesting": b"\x93\x1a\x07" + b"\x91" * 100_000,
    "deep nesting in a newer field": b"\x93\x1a\x07\x92\xa1a" + b"\x91" * 100_000,
    "an array that claims 4 billion": b"\x93\x22\x07\x92\x02\xdd\xff\xff\xff\xff",
    "bytes that claim 4 billion": b"\x93\x05\x07\x93\x01\x00\xc6\xff\xff\xff\xff",
    "a newer field that claims 4 billion": b"\x93\x1a\x07\xdd\xff\xff\xff\xff\xa1a",
    "a frame that claims 4 billion elements": b"\xdd\xff\xff\xff\xff\x1a\x07\x91\xa1a",
}


def test_what_the_hostile_ones_are_like_without_their_flaw_is_taken() -> None:
    settle = ["g", [[UUID, 0, 1, 0, [[4, 5, 1]], *PLAIN]]]
    receive = ["g", "m", 1, 0, 1, 1, 1, False, [[UUID, 0]], 1, 1]
    join = ["g", "m", "c", ["orders"], {"mode": "queue"}, *JOINED]
    for kind, body in ((Settle, settle), (Receive, receive), (JoinGroup, join)):
        assert type(decode(packed(kind, body), MIB).body) is kind


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_input_is_refused_with_a_reason(data: bytes) -> None:
    """G14."""
    error = refused(data)
    assert len(error.message) > 10
    assert error.code in ("protocol_error", "unknown_kind")


def test_a_refusal_names_the_field() -> None:
    batch = BATCH._replace(partition=-1)
    assert "Produce.batches: ProduceBatch.partition: an integer" in refused(packed(Produce, [2, [batch]])).message
    assert "Purge.name" in refused(packed(Purge, [b"a"])).message


def test_an_unknown_kind_is_an_error_of_its_own() -> None:
    error = refused(packed(999, ["what", {"ever": 1}]))
    assert isinstance(error, UnknownKind)
    assert error.details == {"kind": 999}


def test_a_frame_beyond_its_size_is_not_even_opened() -> None:
    frame = encode(PRODUCE, 7)
    assert decode(frame, len(frame)).body == PRODUCE
    with pytest.raises(FrameTooLarge) as caught:
        decode(frame, len(frame) - 1)
    assert caught.value.details == {"size_max": len(frame) - 1}


def test_a_bad_body_still_tells_whose_it_is() -> None:
    opening = open_frame(packed(Purge, [5], correlation=4711), MIB)
    assert opening.correlation == 4711
    with pytest.raises(ProtocolError):
        read_body(opening)


@given(any_body, st.data())
def test_a_frame_cut_short_is_refused(body: Body, data: st.DataObject) -> None:
    frame = encode(body, 7)
    refused(frame[: data.draw(st.integers(0, len(frame) - 1))])


@given(st.binary(max_size=200))
@example(b"\xc7\x00\xff")
def test_random_bytes_are_a_frame_or_a_protocol_error(data: bytes) -> None:
    check_answer(data)


@given(any_body, st.data())
def test_a_changed_frame_is_a_frame_or_a_protocol_error(body: Body, data: st.DataObject) -> None:
    frame = bytearray(encode(body, 7))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frame) - 1))
        frame[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=6))
        frame = frame or bytearray(b"\xc1")
    check_answer(bytes(frame))


def check_answer(data: bytes) -> None:
    try:
        frame = decode(data, MIB)
    except ProtocolError:
        return
    assert decode(encode(frame.body, frame.correlation, frame.throttle_ms), MIB) == frame or "nan" in repr(frame)


AMPLIFIERS = {
    "empty arrays in a newer field": b"\x93\x1a\x07\x92\xa1a\xdd\x00\x0f\x00\x00" + b"\x90" * 0x0F0000,
    "empty arrays where names belong": b"\x93\x16\x07\x91\xdd\x00\x0f\x00\x00" + b"\x90" * 0x0F0000,
    "arrays that each claim 65,535": b"\x93\x1a\x07\x91" + b"\xdc\xff\xff" * 300_000,
    "maps that each claim 65,535": b"\x93\x1a\x07\x92\xa1a" + b"\xde\xff\xff" * 300_000,
    "a map that claims a billion": b"\x93\x12\x07\x92\xa1a\xdf\x3f\xff\xff\xff",
}


@pytest.mark.parametrize("data", AMPLIFIERS.values(), ids=AMPLIFIERS)
def test_a_hostile_frame_costs_no_more_memory_than_a_few_times_its_size(data: bytes) -> None:
    """G14: sizes are checked before memory is taken."""
    tracemalloc.start()
    try:
        check_answer(data)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


def test_kinds_and_names_stay_what_they_are() -> None:
    """The wire is for ever: a number that changes here breaks every client there is."""
    assert encode(Done(), 1) == b"\x93\x07\x01\x90"
    assert encode(Purge("a"), 2) == b"\x93\x1a\x02\x91\xa1a"
    assert encode(DescribeTopics(None), 3, 9) == b"\x94\x16\x03\x91\xc0\x09"
    assert encode(CreateTopic("a", 3, {"b": 1}), 4) == b"\x93\x10\x04\x94\xa1a\x03\x81\xa1b\x01\xc0"
    assert encode(Part(9, 4, b"xy"), 5) == b"\x93\x05\x05\x93\x09\x04\xc4\x02xy"
    assert encode(Fetched(()), 6) == b"\x93\x25\x06\x91\x90"
    assert encode(bodies.leave("a", "b", 7), 7) == b"\x93\x34\x07\x94\xa1a\xa1b\x07\xc2"
    assert encode(Received(()), 8) == b"\x93\x37\x08\x91\x90"
    assert encode(Settled(()), 9) == b"\x93\x39\x09\x91\x90"

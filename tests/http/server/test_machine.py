"""The machine by transcripts: what a client sends, and what is made of it, in whatever pieces it comes."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.http.server.bodies import ChunkedBody
from goqueue.http.server.machine import HEAD_SIZE_MAX, HttpMachine, answer_head, chunk
from tests.http.server.transcripts import CHUNKED, GET, GOOD, POST, SMUGGLED, Transcript, events_of

ALL = (*GOOD, *SMUGGLED)
PIECES = (
    b"\r\n",
    b"\r",
    b"\n",
    b"\0",
    b" ",
    b"0",
    b"5",
    b";",
    b":",
    b"hello",
    b"content-length: 5\r\n",
    b"transfer-encoding: chunked\r\n",
    GET,
    POST,
    CHUNKED,
)


@pytest.mark.parametrize("transcript", GOOD, ids=lambda each: each.name)
def test_what_is_good_is_understood(transcript: Transcript) -> None:
    assert events_of([transcript.sent]) == list(transcript.events)


@pytest.mark.parametrize("transcript", SMUGGLED, ids=lambda each: each.name)
def test_what_two_readers_could_read_in_two_ways_is_refused(transcript: Transcript) -> None:
    *before, refused = transcript.events
    told = events_of([transcript.sent])
    assert told[:-1] == before
    assert told[-1].startswith(refused)


@pytest.mark.parametrize("transcript", ALL, ids=lambda each: each.name)
def test_a_split_at_any_byte_changes_nothing(transcript: Transcript) -> None:
    sent, whole = transcript.sent, events_of([transcript.sent])
    cuts = range(len(sent)) if len(sent) < 400 else [*range(60), len(sent) // 2, HEAD_SIZE_MAX - 1, len(sent) - 1]
    for cut in cuts:
        assert events_of([sent[:cut], sent[cut:]]) == whole, cut
    assert events_of([sent[at : at + 1] for at in range(min(len(sent), 400))] + [sent[400:]]) == whole


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.data())
@example(GET + b"x: y\r", None)
def test_any_bytes_in_any_pieces_are_the_same(sent: bytes, data: st.DataObject | None) -> None:
    """Neither raises anything but a refusal."""
    at = [] if data is None else sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=6)))
    pieces = [sent[begin:end] for begin, end in zip([0, *at], [*at, len(sent)], strict=True)]
    assert events_of(pieces) == events_of([sent])


@given(st.binary(max_size=300))
def test_noise_is_refused_or_waited_for(sent: bytes) -> None:
    events_of([sent], is_over=False)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.integers(1, 7))
def test_what_is_sent_in_chunks_is_read_from_chunks(parts: list[bytes], step: int) -> None:
    body, buffer, read = ChunkedBody(), bytearray(), b""
    sent = b"".join(map(chunk, parts)) + b"0\r\n\r\n"
    for at in range(0, len(sent), step):
        buffer += sent[at : at + step]
        read += body.take(buffer) or b""
    assert (read, body.take(buffer)) == (b"".join(parts), b"")
    assert not buffer


def test_a_head_of_the_largest_size_is_taken_and_a_byte_more_is_not() -> None:
    rest = HEAD_SIZE_MAX - len(GET + b"x: \r\n\r\n")
    assert events_of([GET + b"x: " + b"y" * rest + b"\r\n\r\n"])[0] == "GET / 0"
    assert events_of([GET + b"x: " + b"y" * (rest + 1) + b"\r\n\r\n"])[0].startswith("refused 431")


def test_tiny_chunks_come_as_one_part() -> None:
    machine = HttpMachine()
    machine.receive(CHUNKED + b"1\r\nx\r\n" * 10_000)
    machine.next_event()
    assert machine.next_event().data == b"x" * 10_000  # type: ignore[union-attr]


def test_an_answer_is_composed_as_it_is_read() -> None:
    head = answer_head(200, {"a": "b"}, 5, is_last=True)
    assert head == b"HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 5\r\nconnection: close\r\n\r\n"
    in_chunks = answer_head(200, {}, None, is_last=False)
    assert in_chunks == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    assert re.fullmatch(rb"HTTP/1.1 204 No Content\r\n\r\n", answer_head(204, {}, -1, is_last=False))

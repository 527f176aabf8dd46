"""Websocket frames, beside wsproto's, split anywhere, and made of nonsense."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode

from goqueue.net.transport.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    NO_CODE,
    PIECES_MAX,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    TOO_LARGE,
    Breach,
    FrameReader,
    ReceivedFrame,
    decode_close,
    encode_close,
    encode_frame,
    mask,
)

SIZE_MAX = 100_000
sizes = st.integers(0, 600) | st.sampled_from([125, 126, 65_535, 65_536, SIZE_MAX])
payloads = st.builds(lambda size, seed: (bytes([seed]) * size)[:size], sizes, st.integers(0, 255)) | st.binary()


def reader(*, masked: bool = True) -> FrameReader:
    return FrameReader(masked=masked, size_max=SIZE_MAX)


def received(frames: FrameReader, pieces: Iterable[bytes]) -> list[ReceivedFrame]:
    found = []
    for piece in pieces:
        frames.feed(piece)
        while (message := frames.next()) is not None:
            found.append(message)
    return found


def split(data: bytes, at: list[int]) -> list[bytes]:
    bounds = [0, *sorted(min(each, len(data)) for each in at), len(data)]
    return [data[begin:end] for begin, end in pairwise(bounds)]


@given(st.lists(payloads, max_size=4), st.booleans(), st.lists(st.integers(0, 200_000), max_size=6))
def test_messages_come_out_as_they_went_in_however_they_are_split(
    messages: list[bytes], masked: bool, at: list[int]
) -> None:
    sent = b"".join(encode_frame(BINARY, message, masked=masked) for message in messages)
    found = received(reader(masked=masked), split(sent, at))
    assert found == [ReceivedFrame(BINARY, message) for message in messages]


@given(payloads, st.booleans())
def test_wsproto_reads_what_we_write(message: bytes, masked: bool) -> None:
    other = FrameProtocol(client=not masked, extensions=[])
    other.receive_bytes(encode_frame(BINARY, message, masked=masked))
    frames = list(other.received_frames())
    assert b"".join(bytes(frame.payload) for frame in frames) == message  # type: ignore[arg-type]
    assert frames[-1].message_finished


@given(st.lists(st.tuples(payloads, st.booleans()), min_size=1, max_size=5), st.booleans())
def test_we_read_what_wsproto_writes_in_any_number_of_frames(parts: list[tuple[bytes, bool]], masked: bool) -> None:
    """Pings stand between the frames of a message, where they may."""
    other = FrameProtocol(client=masked, extensions=[])
    sent, whole = b"", b"".join(part for part, _ in parts)
    if len(whole) > SIZE_MAX:
        return
    for number, (part, pings) in enumerate(parts):
        sent += other.send_data(part, fin=number == len(parts) - 1)
        sent += other.ping(b"there?") if pings else b""
    found = received(reader(masked=masked), [sent])
    assert [each for each in found if each.opcode == BINARY] == [ReceivedFrame(BINARY, whole)]
    assert [each.payload for each in found if each.opcode == PING] == [b"there?"] * sum(pings for _, pings in parts)


def test_a_ping_within_a_message_is_no_part_of_its_size() -> None:
    largest = bytes(SIZE_MAX)
    ping, rest = encode_frame(PING, b"there?", masked=True), encode_frame(BINARY, b"", masked=True)
    sent = encode_frame(BINARY, largest, masked=True)
    begun = bytes([sent[0] & 0x7F]) + sent[1:]
    found = received(reader(), [begun, ping, bytes([0x80 | CONTINUATION]) + rest[1:]])
    assert found == [ReceivedFrame(PING, b"there?"), ReceivedFrame(BINARY, largest)]


@given(
    st.binary(max_size=2_000),
    st.binary(min_size=4, max_size=4) | st.binary(min_size=1, max_size=1).map(lambda byte: byte * 4),
)
def test_masking_twice_is_not_masking(payload: bytes, key: bytes) -> None:
    masked = mask(payload, key)
    assert masked == bytes(byte ^ key[number % 4] for number, byte in enumerate(payload))
    assert mask(masked, key) == payload


@given(st.lists(st.binary(max_size=60), max_size=5), st.booleans())
def test_whatever_comes_nothing_but_a_breach_is_raised(pieces: list[bytes], masked: bool) -> None:
    """G14"""
    frames = reader(masked=masked)
    try:
        for message in received(frames, pieces):
            if message.opcode == CLOSE:
                decode_close(message.payload)
    except Breach:
        pass  # and whatever else would fail the test


def frame(first: int, second: int, rest: bytes = b"") -> bytes:
    return bytes([first, second]) + rest


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(0x82, 0x05, b"abcde"), PROTOCOL_ERROR),  # a client that does not mask
        (frame(0xC2, 0x80, bytes(4)), PROTOCOL_ERROR),  # a reserved bit
        (frame(0x83, 0x80, bytes(4)), PROTOCOL_ERROR),  # an unknown opcode
        (frame(0x09, 0x80, bytes(4)), PROTOCOL_ERROR),  # a ping in pieces
        (frame(0x89, 0xFE, b"\0\x80" + bytes(4)), PROTOCOL_ERROR),  # a large ping
        (frame(0x80, 0x80, bytes(4)), PROTOCOL_ERROR),  # the end of nothing
        (frame(0x02, 0x80, bytes(4)) * 2, PROTOCOL_ERROR),  # a beginning within a message
        (frame(0x82, 0xFE, b"\0\x05" + bytes(9)), PROTOCOL_ERROR),  # a short length in two bytes
        (frame(0x82, 0xFF, bytes(7) + b"\xff" + bytes(300)), PROTOCOL_ERROR),  # a short length in eight
        (frame(0x82, 0xFF, b"\xff" * 8), TOO_LARGE),
        (frame(0x82, 0xFF, (SIZE_MAX + 1).to_bytes(8, "big")), TOO_LARGE),  # before its payload comes
        (
            frame(0x02, 0xFF, SIZE_MAX.to_bytes(8, "big") + bytes(4 + SIZE_MAX)) + frame(0, 0x81, bytes(5)),
            TOO_LARGE,
        ),
    ],
)
def test_what_breaks_the_rules_is_named_by_its_code(data: bytes, code: int) -> None:
    frames = reader()
    with pytest.raises(Breach) as breach:
        received(frames, [data])
    assert breach.value.code == code


def test_a_message_may_come_in_many_pieces_and_not_in_pieces_without_end() -> None:
    """Each step of taking them counts, so that who reads can let others run."""
    frames, first, more = reader(), frame(0x02, 0x80, bytes(4)), frame(CONTINUATION, 0x80, bytes(4))
    assert received(frames, [first] + [more] * (PIECES_MAX - 2)) == []
    assert received(frames, [frame(0x80, 0x80, bytes(4))]) == [ReceivedFrame(BINARY, b"")]
    assert frames.steps >= PIECES_MAX
    with pytest.raises(Breach) as breach:
        received(frames, [first] + [more] * PIECES_MAX)
    assert breach.value.code == TOO_LARGE


def test_a_close_says_why() -> None:
    [said] = received(reader(masked=False), [encode_close(1001, "going away", masked=False)])
    assert (said.opcode, decode_close(said.payload)) == (CLOSE, (1001, "going away"))
    [silent] = received(reader(masked=False), [encode_close(NO_CODE, "", masked=False)])
    assert decode_close(silent.payload) == (NO_CODE, "")
    [long] = received(reader(masked=False), [encode_close(1000, "ä" * 100, masked=False)])
    assert decode_close(long.payload) == (1000, "ä" * 61)


@pytest.mark.parametrize("payload", [b"\x03", b"\x03\xed", b"\x03\xee", b"\x00\x00", b"\xff\xff", b"\x03\xe8\xff"])
def test_a_close_that_says_nonsense_is_a_breach(payload: bytes) -> None:
    with pytest.raises(Breach):
        decode_close(payload)


def test_the_codes_and_opcodes_are_those_of_the_protocol() -> None:
    assert (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG) == (
        Opcode.CONTINUATION,
        Opcode.TEXT,
        Opcode.BINARY,
        Opcode.CLOSE,
        Opcode.PING,
        Opcode.PONG,
    )
    assert (PROTOCOL_ERROR, TOO_LARGE) == (CloseReason.PROTOCOL_ERROR, CloseReason.MESSAGE_TOO_BIG)

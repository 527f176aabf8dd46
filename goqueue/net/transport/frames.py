"""Websocket frames (RFC 6455 §5), without a stream: bytes in, messages out; messages in, bytes out.

     0               1               2               3
    +-+-----+-------+-+-------------+-------------------------------+
    |F| RSV | opcode|M| length      | 2 or 8 bytes more if 126, 127 |
    +-+-----+-------+-+-------------+-------------------------------+
    | masking key, if M                                             |
    +---------------------------------------------------------------+
    | payload, each byte XOR the key's                              |
    +---------------------------------------------------------------+

A general parser takes as many steps for one of our frames as everything else that is done with it, and most frames
are alike: whole, binary, alone in what was received. A frame's length is compared with the limit before its payload
is awaited. A breach of the rules raises `Breach`, with the code to close with, and nothing else is raised.
"""

from struct import Struct
from typing import NamedTuple

from goqueue.types import Buffer

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_DATA = (CONTINUATION, TEXT, BINARY)
_CONTROL = (CLOSE, PING, PONG)
FINAL, RESERVED, MASKED = 0x80, 0x70, 0x80
_WHOLE = FINAL | BINARY
CONTROL_SIZE_MAX = 125
PIECES_MAX = 1_024
"""Limit of frames of one message, however small they are, so that receiving it has an end."""
NO_MASK = bytes(4)
"""The key with which our clients mask: XOR with it changes nothing, and costs nothing. Masks keep scripts in
browsers from writing bytes that a proxy takes for HTTP; our clients run no such scripts."""
SMALL_SIZE_MAX = 512
"""Up to this size it is faster to unmask one large number than four slices of bytes."""

PROTOCOL_ERROR, TOO_LARGE = 1002, 1009
NO_CODE = 1005
_CODES = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})

_U16, _U64 = Struct(">H"), Struct(">Q")
_HEAD, _HEAD_16, _HEAD_64 = Struct(">BB"), Struct(">BBH"), Struct(">BBQ")
_XOR = [bytes(byte ^ mask for byte in range(256)) for mask in range(256)]


class Breach(Exception):
    """The other end breaks the rules; close with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class ReceivedFrame(NamedTuple):
    """A whole message, or a control frame."""

    opcode: int
    payload: bytes


def encode_frame(opcode: int, payload: bytes, *, masked: bool) -> bytes:
    """A whole message in one frame. Clients mask, servers do not."""
    size, mask_bit = len(payload), MASKED if masked else 0
    if size < 126:
        head = _HEAD.pack(FINAL | opcode, mask_bit | size)
    elif size < 65_536:
        head = _HEAD_16.pack(FINAL | opcode, mask_bit | 126, size)
    else:
        head = _HEAD_64.pack(FINAL | opcode, mask_bit | 127, size)
    return head + NO_MASK + payload if masked else head + payload


def encode_close(code: int, reason: str, *, masked: bool) -> bytes:
    said = reason.encode()[: CONTROL_SIZE_MAX - 2].decode("utf-8", "ignore").encode()
    return encode_frame(CLOSE, b"" if code == NO_CODE else _U16.pack(code) + said, masked=masked)


def decode_close(payload: bytes) -> tuple[int, str]:
    """The code and the reason of a close frame."""
    if not payload:
        return NO_CODE, ""
    code = int.from_bytes(payload[:2], "big")
    if len(payload) == 1 or code not in _CODES:
        raise Breach(PROTOCOL_ERROR, "a close frame without a code that may be sent")
    try:
        return code, payload[2:].decode()
    except UnicodeDecodeError:
        raise Breach(PROTOCOL_ERROR, "the reason in a close frame is not UTF-8") from None


def mask(payload: Buffer, key: bytes) -> bytes:
    """Mask or unmask: it is the same operation."""
    if key == NO_MASK:
        return bytes(payload)
    size = len(payload)
    if size <= SMALL_SIZE_MAX:
        keys = (key * (size // 4 + 1))[:size]
        return (int.from_bytes(payload, "little") ^ int.from_bytes(keys, "little")).to_bytes(size, "little")
    if key == key[:1] * 4:
        return bytes(payload).translate(_XOR[key[0]])
    rows = bytearray(payload)
    for number, byte in enumerate(key):
        rows[number::4] = rows[number::4].translate(_XOR[byte])
    return bytes(rows)


class FrameReader:
    """Parses the bytes of the other end, in pieces of any size. `masked`: it is a client, and must mask."""

    def __init__(self, *, masked: bool, size_max: int) -> None:
        self._mask_bit = MASKED if masked else 0
        self._size_max = size_max
        self._buffer: bytes | bytearray = b""
        self._position = 0
        self.steps = 0
        """The number of frames parsed. A task that reads on lets others run after some, and resets it."""
        self._message = bytearray()
        self._pieces = 0
        self._opcode: int | None = None
        """The opcode of a message of which some frames have come."""

    def feed(self, data: bytes) -> None:
        if self._position == len(self._buffer):
            self._buffer = data
        else:
            if not isinstance(self._buffer, bytearray) or self._position:
                self._buffer = bytearray(memoryview(self._buffer)[self._position :])
            self._buffer += data
        self._position = 0

    def next(self) -> ReceivedFrame | None:
        """The next whole message or control frame, or None until more is fed. `Breach` ends it."""
        if self._position == len(self._buffer):  # as most often, after a frame that came alone
            return None
        while (frame := self._next_frame()) is not None:
            first, payload = frame
            if first == _WHOLE and self._opcode is None:  # as most often
                return ReceivedFrame(BINARY, payload)
            opcode = first & 0x0F
            if opcode in _CONTROL or (first & FINAL and self._opcode is None):
                return ReceivedFrame(opcode, payload)
            message = self._gather(opcode, payload, is_last=bool(first & FINAL))
            if message is not None:
                return message
        return None

    def _next_frame(self) -> tuple[int, bytes] | None:
        """The first byte and the payload."""
        buffer, position, mask_bit = self._buffer, self._position, self._mask_bit
        available = len(buffer) - position
        if available < 2:
            return None
        self.steps += 1
        first, second = buffer[position], buffer[position + 1]
        if first != _WHOLE or second & MASKED != mask_bit or self._opcode is not None:
            self._check_head(first, second)
        size, begin = second & 0x7F, position + 2
        if size >= 126:
            extra = _U16 if size == 126 else _U64
            if available < 2 + extra.size:
                return None
            size = extra.unpack_from(buffer, begin)[0]
            begin += extra.size
            if size < (126 if extra is _U16 else 65_536):
                raise Breach(PROTOCOL_ERROR, "a length in more bytes than it needs")
        if len(self._message) + size > self._size_max and first & 0x0F not in _CONTROL:
            raise Breach(TOO_LARGE, f"a message has at most {self._size_max} bytes")
        at = begin + 4 if mask_bit else begin
        end = at + size
        if len(buffer) < end:
            return None
        self._position = end
        payload = buffer[at:end] if type(buffer) is bytes else bytes(memoryview(buffer)[at:end])
        if mask_bit and (key := bytes(buffer[begin:at])) != NO_MASK:
            payload = mask(payload, key)
        return first, payload

    def _check_head(self, first: int, second: int) -> None:
        opcode = first & 0x0F
        if first & RESERVED or opcode not in _DATA + _CONTROL:
            raise Breach(PROTOCOL_ERROR, "a frame of an unknown kind")
        if second & MASKED != self._mask_bit:
            raise Breach(PROTOCOL_ERROR, "clients mask their frames, servers do not")
        if opcode in _CONTROL and not (first & FINAL and second & 0x7F <= CONTROL_SIZE_MAX):
            raise Breach(PROTOCOL_ERROR, "a control frame is whole and small")
        if opcode not in _CONTROL and (opcode == CONTINUATION) != (self._opcode is not None):
            raise Breach(PROTOCOL_ERROR, "a message begins within another one, or goes on without a beginning")

    def _gather(self, opcode: int, payload: bytes, *, is_last: bool) -> ReceivedFrame | None:
        if self._opcode is None:
            self._opcode = opcode
        self._message += payload
        self._pieces += 1
        if self._pieces > PIECES_MAX:
            raise Breach(TOO_LARGE, f"a message comes in at most {PIECES_MAX} pieces")
        if not is_last:
            return None
        message = ReceivedFrame(self._opcode, bytes(self._message))
        self._message, self._pieces, self._opcode = bytearray(), 0, None
        return message

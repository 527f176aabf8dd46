"""Bodies of requests, cut out of the bytes that arrive: of a known length, or in chunks.

Chunks are read more strictly than h11 reads them, for the same reason as heads: a line that ends without CR, also
among the trailers, may mean another thing to a proxy. `take` gives all that has come as one part, so a body of tiny
chunks is no list of tiny parts.
"""

import re
from typing import Protocol

from goqueue.http.server.errors import InvalidRequest

LINE_SIZE_MAX = 256
"""Limit of the line before a chunk: its size, and extensions, which mean nothing here."""
TRAILERS_SIZE_MAX = 4 * 1024
"""Limit of the fields behind the last chunk, which mean nothing here either."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_TRAILER = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n")


class IncomingBody(Protocol):
    def take(self, buffer: bytearray) -> bytes | None:
        """The part that has come, taken out of the buffer; nothing at the end, None while there is none yet."""


class LengthBody:
    def __init__(self, length: int) -> None:
        self._left = length

    def take(self, buffer: bytearray) -> bytes | None:
        if self._left == 0:
            return b""
        if not buffer:
            return None
        part = bytes(buffer) if len(buffer) <= self._left else bytes(buffer[: self._left])
        del buffer[: len(part)]
        self._left -= len(part)
        return part


class ChunkedBody:
    def __init__(self) -> None:
        self._left = 0
        """Bytes of the chunk that are still to come."""
        self._trailers_left = TRAILERS_SIZE_MAX
        self._wants_line_end = self._is_in_trailers = self._is_over = False

    def take(self, buffer: bytearray) -> bytes | None:
        parts = list[bytes]()
        while (part := self._next(buffer) if not parts else self._next_good(buffer)) and part is not None:
            parts.append(part)
        return b"".join(parts) if parts else part

    def _next_good(self, buffer: bytearray) -> bytes | None:
        """What is wrong behind good parts is raised when it is asked for again."""
        try:
            return self._next(buffer)
        except InvalidRequest:
            return None

    def _next(self, buffer: bytearray) -> bytes | None:
        if self._left == 0 and not (self._is_over or self._begin_chunk(buffer)):
            return None
        if self._is_over:
            return b""
        if not buffer:
            return None
        part = bytes(buffer[: self._left])
        del buffer[: len(part)]
        self._left -= len(part)
        self._wants_line_end = self._left == 0
        return part

    def _begin_chunk(self, buffer: bytearray) -> bool:
        """False while its line is not whole. The last one is followed by trailers and an empty line."""
        if self._wants_line_end:
            if not b"\r\n".startswith(buffer[:2]):
                raise InvalidRequest("a chunk is longer than it says")
            if len(buffer) < 2:
                return False
            del buffer[:2]
            self._wants_line_end = False
        if not self._is_in_trailers:
            line = _line(buffer, LINE_SIZE_MAX)
            if line is None:
                return False
            size = _SIZE.fullmatch(line)
            if size is None:
                raise InvalidRequest(
                    "a chunk begins with its size, a plain hexadecimal number, on a line of its own"
                )
            del buffer[: len(line)]
            self._left = int(size[1], 16)
            self._is_in_trailers = self._left == 0
        return not self._is_in_trailers or self._end(buffer)

    def _end(self, buffer: bytearray) -> bool:
        while (line := _line(buffer, self._trailers_left)) is not None:
            if line != b"\r\n" and _TRAILER.fullmatch(line) is None:
                raise InvalidRequest("what follows the last chunk are fields, each on one line, and an empty line")
            del buffer[: len(line)]
            self._trailers_left -= len(line)
            if line == b"\r\n":
                self._is_over = True
                return True
        return False


def _line(buffer: bytearray, size_max: int) -> bytes | None:
    """The first line with its end; None while it is not whole."""
    end = buffer.find(b"\n", 0, size_max)
    if end >= 0:
        return bytes(buffer[: end + 1])
    if len(buffer) >= size_max:
        raise InvalidRequest("a line between chunks is too long")
    return None

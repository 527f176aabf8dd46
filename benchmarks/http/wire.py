"""A client of the gateway that is written for speed: raw blocking sockets, and a parser for its answers alone."""

import re
import socket
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from benchmarks.peers.workload import Wrong

RECEIVE_SIZE = 1024 * 1024
NO_CONTENT = 204
SECONDS_MAX = 60.0
"""Limit of the wait for an answer."""
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n")


class HttpSocket:
    """A connection that is kept alive. `send` and `receive` are apart, so that one thread can keep several busy."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        assert address.hostname is not None
        self._host = address.netloc.encode()
        self._socket = socket.create_connection((address.hostname, address.port or 80), SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def request(self, method: str, target: str, body: bytes = b"") -> bytes:
        """The bytes of a request, which may be sent many times."""
        kind = b"content-type: application/json\r\n" if method == "POST" else b""
        return b"%b %b HTTP/1.1\r\nhost: %b\r\n%bcontent-length: %d\r\n\r\n%b" % (
            *(method.encode(), target.encode(), self._host, kind, len(body)),
            body,
        )

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        data = self._rest
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        begin, size, status = end + 4, 0, int(data[9:12])
        if status != NO_CONTENT:
            found = _LENGTH.search(data, 0, end + 2)
            if found is None:
                raise Wrong(f"an answer without a length: {data[:200]!r}")
            size = int(found[1])
        if len(data) - begin < size:
            pieces, missing = [data], size - (len(data) - begin)
            while missing > 0:
                pieces.append(piece := self._more())
                missing -= len(piece)
            data = b"".join(pieces)
        self._rest = data[begin + size :]
        return status, data[begin : begin + size]

    def _more(self) -> bytes:
        data = self._socket.recv(RECEIVE_SIZE)
        if not data:
            raise Wrong("the gateway closed the connection")
        return data

    def ask(self, method: str, target: str, body: Any = None, expected: int = 200) -> Any:
        """One request and its answer, which must have the status that is expected."""
        self.send(self.request(method, target, b"" if body is None else orjson.dumps(body)))
        return self.expect(expected)

    def expect(self, expected: int = 200) -> Any:
        status, body = self.receive()
        if status != expected:
            raise Wrong(f"status {status} in the place of {expected}: {body[:300]!r}")
        return orjson.loads(body) if body else None

"""A broker in memory, and clients that speak HTTP to it. Every answer that they hear is held to the document."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import h11
import orjson
import trio

from goqueue.testing.memory import HOST, PORT, Machine
from tests.http.declared import check_declared

HTTP_PORT = PORT + 1


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


class HttpClient:
    """One connection, one request after the other."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.stream = stream
        self._parser = h11.Connection(h11.CLIENT)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def ask(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """`body`: bytes as they are, anything else as JSON."""
        sent = {"host": f"{HOST}:{HTTP_PORT}", **(headers or {})}
        data = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        if body is not None or method == "POST":
            sent = {"content-type": "application/json", **sent, "content-length": str(len(data))}
        request = h11.Request(method=method, target=target, headers=list(sent.items()))
        head = self._parser.send(request)
        assert head is not None
        await self.stream.send_all(head + (self._parser.send(h11.Data(data=data)) or b"" if data else b""))
        rest = self._parser.send(h11.EndOfMessage())
        if rest:
            await self.stream.send_all(rest)
        answered = await self.answer()
        kind = answered.headers.get("content-type", "")
        check_declared(method, target, answered.status, kind, answered.body)
        return answered

    async def answer(self) -> Answered:
        response, pieces = await self.head(), []
        while piece := await self.piece():
            pieces.append(piece)
        headers = {name.decode(): value.decode() for name, value in response.headers}
        if self._parser.our_state is h11.DONE and self._parser.their_state is h11.DONE:
            self._parser.start_next_cycle()
        return Answered(response.status_code, headers, b"".join(pieces))

    async def head(self) -> h11.Response:
        while not isinstance(event := await self._event(), h11.Response):
            assert isinstance(event, h11.InformationalResponse), event
        return event

    async def piece(self) -> bytes:
        """The next piece of an answer's body; nothing at its end."""
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def _event(self) -> Any:
        while (event := self._parser.next_event()) is h11.NEED_DATA:
            self._parser.receive_data(bytes(await self.stream.receive_some(65_536)))
        if isinstance(event, h11.ConnectionClosed):
            raise trio.BrokenResourceError("the broker has closed the connection")
        return event


@asynccontextmanager
async def connected(machine: Machine, name: str = "http client") -> AsyncIterator[HttpClient]:
    stream = await machine.network.machine(name).connect(HOST, HTTP_PORT)
    async with stream:
        yield HttpClient(stream)


async def ask(machine: Machine, method: str, target: str, body: Any = None, **headers: str) -> Answered:
    """On a connection of its own."""
    async with connected(machine) as client:
        return await client.ask(method, target, body, {n.replace("_", "-"): v for n, v in headers.items()})

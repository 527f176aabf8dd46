"""Websockets: over memory streams, over real sockets, and with those who do not play by the rules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from goqueue.errors import Closed, ProtocolError
from goqueue.net.session.client import ClientSession
from goqueue.net.session.events import AnswerReceived, HelloReceived, RequestReceived, SessionClosed, Welcomed
from goqueue.net.session.machine import Session
from goqueue.net.transport import websocket
from goqueue.net.transport.frames import TEXT, encode_frame
from goqueue.net.transport.origin import Address, refusal_of
from goqueue.net.transport.transport import Transport
from goqueue.net.transport.websocket import Headers, WebsocketTransport, accept_websocket, connect_websocket
from goqueue.net.wire.errors import ConnectionLost, HandshakeRefused
from goqueue.net.wire.limits import FRAME_SIZE_MAX
from goqueue.net.wire.messages import Produce, ProduceBatch, Produced, ProducedBatch
from tests.net.ends import CLUSTER, HELLO, new_server

UPGRADE = b"GET / HTTP/1.1\r\nHost: %b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + (
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def welcome_all(_: Headers) -> str | None:
    return None


@asynccontextmanager
async def over_memory(**options: Any) -> AsyncIterator[tuple[WebsocketTransport, WebsocketTransport]]:
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        accepted: list[WebsocketTransport] = []

        async def accept() -> None:
            accepted.append(await accept_websocket(far, welcome_all, **options))

        async with trio.open_nursery() as handshakes:
            handshakes.start_soon(accept)
            client = await connect_websocket(near, "127.0.0.1:7710")
        yield client, accepted[0]
        nursery.cancel_scope.cancel()


async def test_frames_of_every_size_arrive_whole_and_in_order(autojump_clock: trio.testing.MockClock) -> None:
    frames = [bytes([n]) * size for n, size in enumerate((0, 1, 125, 126, 65_535, 65_536, FRAME_SIZE_MAX))]
    async with over_memory() as (client, server), trio.open_nursery() as nursery:

        async def send(end: Transport) -> None:
            for frame in frames:
                await end.send(frame)

        nursery.start_soon(send, client)
        nursery.start_soon(send, server)
        assert [await server.receive() for _ in frames] == frames
        assert [await client.receive() for _ in frames] == frames


async def test_frames_that_are_sent_together_are_one_write(autojump_clock: trio.testing.MockClock) -> None:
    frames = [b"one", b"", b"x" * 70_000]
    async with over_memory() as (client, server):
        writes: list[bytes] = []
        stream = server._stream
        assert isinstance(stream, trio.StapledStream)
        assert isinstance(stream.send_stream, trio.testing.MemorySendStream)
        send_all = stream.send_stream.send_all

        async def noting(data: bytes) -> None:
            writes.append(bytes(data))
            await send_all(data)

        stream.send_stream.send_all = noting  # type: ignore[method-assign,assignment]
        await server.send(*frames)
        assert [await client.receive() for _ in frames] == frames
        assert len(writes) == 1


async def test_an_orderly_close_ends_both_without_an_error(autojump_clock: trio.testing.MockClock) -> None:
    async with over_memory() as (client, server), trio.open_nursery() as nursery:
        await client.send(b"last")
        nursery.start_soon(client.aclose)
        assert [await server.receive(), await server.receive()] == [b"last", None]
        with pytest.raises(ConnectionLost):
            await server.send(b"x")
        assert await client.receive() is None
        with pytest.raises(Closed):
            await client.send(b"x")
        await client.aclose()


async def test_a_close_that_nobody_answers_ends_in_time(autojump_clock: trio.testing.MockClock) -> None:
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.send_all, UPGRADE % b"127.0.0.1")
        server = await accept_websocket(far, welcome_all)
        await server.aclose()
    assert trio.current_time() == websocket.CLOSE_TIMEOUT


async def test_a_server_that_never_finishes_its_handshake_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(far.send_all, b"HTTP/1.1 101 \r\n")
        with pytest.raises(ConnectionLost):
            await connect_websocket(near, "h")
    assert trio.current_time() == websocket.HANDSHAKE_TIMEOUT


async def test_a_stream_that_just_ends_is_a_loss(autojump_clock: trio.testing.MockClock) -> None:
    async with over_memory() as (client, server):
        await trio.aclose_forcefully(client._stream)
        with pytest.raises(ConnectionLost):
            await server.receive()
        with pytest.raises(ConnectionLost):
            await client.receive()
        with pytest.raises(ConnectionLost):
            await server.send(b"x")


async def test_a_frame_that_is_too_large_ends_the_connection(autojump_clock: trio.testing.MockClock) -> None:
    async with over_memory(frame_size_max=1000) as (client, server):
        await client.send(b"x" * 1001)
        with pytest.raises(ConnectionLost, match="1009"):
            await server.receive()
        with pytest.raises(ConnectionLost, match="1009"):
            await client.receive()


async def test_text_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with over_memory() as (client, server):
        await client._send(encode_frame(TEXT, b"text", masked=True))
        with pytest.raises(ProtocolError):
            await server.receive()
        with pytest.raises(ConnectionLost, match="1003"):
            await client.receive()


async def test_a_send_that_was_cancelled_leaves_no_half_frame_before_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with over_memory() as (client, _):

        async def send_half(_: bytes) -> None:
            await trio.sleep_forever()

        client._stream.send_all = send_half  # type: ignore[assignment, method-assign]
        with trio.move_on_after(1):
            await client.send(b"half")
        with pytest.raises(ConnectionLost):
            await client.send(b"next")


def local_only(headers: Headers) -> str | None:
    return refusal_of(headers, [Address("127.0.0.1", 7710)])


@pytest.mark.parametrize(
    ("host", "headers"),
    [("evil.example:7710", ()), ("127.0.0.1:7710", ((b"Origin", b"http://evil.example"),))],
)
async def test_a_page_of_another_site_is_refused_with_403(
    host: str, headers: Headers, autojump_clock: trio.testing.MockClock
) -> None:
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            with pytest.raises(HandshakeRefused, match=r"evil\.example"):
                await accept_websocket(far, local_only)

        nursery.start_soon(accept)
        with pytest.raises(HandshakeRefused, match=r"403.*evil\.example"):
            await connect_websocket(near, host, headers=headers)


async def test_our_own_host_and_origin_are_welcome(autojump_clock: trio.testing.MockClock) -> None:
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept_websocket, far, local_only)
        headers = [(b"Origin", b"http://localhost:7710")]
        client = await connect_websocket(near, "127.0.0.1:7710", headers=headers)
        await client.send(b"x")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        UPGRADE % b"xn--\xff\xfe",
        UPGRADE % (b"a" * 100_000),
        UPGRADE % b"xn--" + b"x" * 70,
        (UPGRADE % b"127.0.0.1").replace(b"Host", b"Guest"),
        (UPGRADE % b"127.0.0.1").replace(b"GET /", b"GET /\xff"),
    ],
)
async def test_a_handshake_that_is_none_harms_nobody(data: bytes, autojump_clock: trio.testing.MockClock) -> None:
    """G14: whatever the parsers below make of it, one typed error comes and the nursery lives."""
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:

        async def dial() -> None:
            await near.send_all(data)
            await near.send_eof()

        nursery.start_soon(dial)
        with pytest.raises((HandshakeRefused, ConnectionLost)):
            await accept_websocket(far, local_only)
    assert trio.current_time() == 0


async def test_who_speaks_http_here_reads_that_http_is_elsewhere(autojump_clock: trio.testing.MockClock) -> None:
    """A person with a browser or curl, who took the wrong one of two ports."""
    near, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            with pytest.raises(HandshakeRefused):
                await accept_websocket(far, local_only)

        nursery.start_soon(accept)
        await near.send_all(b"GET /topics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = b"".join([part async for part in near])
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"content-type: text/plain" in head
    assert body.startswith(b"this is goqueue's port for websockets; for HTTP use its other one, 7711")


async def test_a_stream_that_ends_during_the_handshake_is_noticed_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    near, far = trio.testing.memory_stream_pair()
    await far.aclose()
    with pytest.raises(ConnectionLost):
        await connect_websocket(near, "127.0.0.1")
    assert trio.current_time() == 0


@pytest.mark.parametrize(
    "data", [b"\xff" * 20, b"\x82\xff" + b"\xff" * 8, b"\x83\x80\x00\x00\x00\x00", b"\x82\x05abcde"]
)
async def test_bytes_that_are_no_websocket_frames_end_the_connection_alone(
    data: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    """G14."""
    async with over_memory() as (client, server):
        await client._stream.send_all(data)
        with pytest.raises(ConnectionLost):
            await server.receive()


class EndlessStream(trio.abc.ReceiveStream):
    """Always has more of the same, at once, as the socket of one who floods it: reading lets nobody else run."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return self._data

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    "flood",
    [
        b"\x89\x80\0\0\0\0",
        b"\x02\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 1_000 + b"\x80\x80\0\0\0\0",
        b"\x82\x80\0\0\0\0" * 1_000,
    ],
    ids=["pings", "empty pieces", "frames"],
)
async def test_one_who_floods_this_end_lets_the_others_have_their_turns(flood: bytes) -> None:
    """G14"""
    async with over_memory() as (_, server):
        stream = server._stream
        assert isinstance(stream, trio.StapledStream)
        stream.receive_stream = EndlessStream(flood)
        turns = 0

        async def read_on() -> None:
            while True:
                await server.receive()

        async def count_turns() -> None:
            nonlocal turns
            for turns in range(100):  # noqa: B007
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_on)
            nursery.start_soon(count_turns)
        assert turns == 99


async def test_a_close_ends_in_time_although_the_other_end_talks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads without a pause cannot be cancelled either."""
    monkeypatch.setattr(websocket, "CLOSE_TIMEOUT", 0.01)
    async with over_memory() as (_, server):
        stream = server._stream
        assert isinstance(stream, trio.StapledStream)
        stream.receive_stream = EndlessStream(b"\x82\x80\0\0\0\0")
        with trio.fail_after(5):
            await server.aclose()


async def test_a_silent_dialler_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    _, far = trio.testing.memory_stream_pair()
    with pytest.raises(ConnectionLost):
        await accept_websocket(far, welcome_all)
    assert trio.current_time() == websocket.HANDSHAKE_TIMEOUT


async def pump(session: Session, transport: Transport) -> None:
    while (frame := session.next_frame()) is not None:
        await transport.send(frame)


async def answer_everything(transport: Transport) -> None:
    session = new_server()
    while (frame := await transport.receive()) is not None:
        match session.receive(frame):
            case HelloReceived():
                session.welcome()
            case RequestReceived(correlation, Produce() as produce):
                session.answer(correlation, Produced(tuple(ProducedBatch(len(b.body), 1) for b in produce.batches)))
            case SessionClosed() as closed:
                raise AssertionError(closed.error)
            case _:
                pass
        await pump(session, transport)


async def test_two_sessions_talk_over_real_sockets() -> None:
    """Hello, a produce that fits a frame and one in parts, answers, close."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]

    def own(headers: Headers) -> str | None:
        return refusal_of(headers, [Address("127.0.0.1", port)])

    async def serve(stream: trio.SocketStream) -> None:
        transport = await accept_websocket(stream, own)
        await answer_everything(transport)
        await transport.aclose()

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            transport = await connect_websocket(stream, f"127.0.0.1:{port}")
            assert await ask_for(transport, [100, 3_000_000]) == [100, 3_000_000]
            await transport.aclose()
            nursery.cancel_scope.cancel()


async def ask_for(transport: Transport, sizes: list[int]) -> list[int]:
    session = ClientSession()
    session.hello(HELLO)
    await pump(session, transport)
    assert isinstance(session.receive(await transport.receive() or b""), Welcomed)
    offsets = []
    for size in sizes:
        session.request(Produce(2, (ProduceBatch(CLUSTER, 0, 0, 0, 0, 0, 0, 1, b"x" * size),)))
        await pump(session, transport)
        event = session.receive(await transport.receive() or b"")
        assert isinstance(event, AnswerReceived)
        assert isinstance(event.answer, Produced)
        offsets.append(event.answer.batches[0].base_offset or 0)
    return offsets

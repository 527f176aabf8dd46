"""Others' websockets speak to ours: trio-websocket at either end."""

from contextlib import aclosing
from functools import partial

import trio
from trio_websocket import ConnectionClosed, WebSocketRequest, open_websocket_url, serve_websocket

from goqueue.net.transport.websocket import accept_websocket, connect_websocket
from goqueue.net.wire.limits import FRAME_SIZE_MAX
from goqueue.tcp import TcpListener, TcpStream

FRAMES = [b"", b"small", bytes(70_000), bytes(range(256)) * (FRAME_SIZE_MAX // 256)]


async def test_another_client_speaks_to_our_server() -> None:
    [inner] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listener = TcpListener(inner)

    async def echo(stream: TcpStream) -> None:
        transport = await accept_websocket(stream, lambda _: None)
        while (frame := await transport.receive()) is not None:
            await transport.send(frame)
        await transport.aclose()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, echo, [listener])
            async with open_websocket_url(f"ws://127.0.0.1:{listener.port}", max_message_size=2**21) as socket:
                for frame in FRAMES:
                    await socket.send_message(frame)
                    assert await socket.get_message() == frame
                await socket.ping(b"are you there?")
            nursery.cancel_scope.cancel()


async def test_our_client_speaks_to_another_server() -> None:
    async def echo(request: WebSocketRequest) -> None:
        socket = await request.accept()
        try:
            while True:
                await socket.send_message(await socket.get_message())
        except ConnectionClosed:
            pass

    serve = partial(serve_websocket, echo, "127.0.0.1", 0, None, max_message_size=2**21)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve)
            stream = TcpStream(await trio.open_tcp_stream("127.0.0.1", server.port))
            assert stream.peer == f"127.0.0.1:{server.port}"
            transport = await connect_websocket(stream, f"127.0.0.1:{server.port}")
            async with aclosing(transport):
                for frame in FRAMES:
                    await transport.send(frame)
                    assert await transport.receive() == frame
            nursery.cancel_scope.cancel()

"""A bare trio-websocket that sends back what it gets: what a single publish is compared with. Prints its port."""

from functools import partial

import trio
from trio_websocket import ConnectionClosed, WebSocketRequest, serve_websocket


async def echo(request: WebSocketRequest) -> None:
    socket = await request.accept()
    try:
        while True:
            await socket.send_message(await socket.get_message())
    except ConnectionClosed:
        pass


async def main() -> None:
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve_websocket, echo, "127.0.0.1", 0, None))
        print(server.port, flush=True)


if __name__ == "__main__":
    trio.run(main)

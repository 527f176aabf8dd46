"""The floor: a bare Trio server that sends back what it gets, and a client. It prints its port.

Frames have 180 bytes, which is what a publish of 100 bytes takes on the wire.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import trio

from benchmarks.natural.meter import Meter
from benchmarks.natural.task import Task
from benchmarks.peers.workload import check_count

FRAME = bytes(180)


async def echo(stream: trio.SocketStream) -> None:
    async for frame in stream:
        await stream.send_all(frame)


async def serve() -> None:
    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, echo, 0, host="127.0.0.1"))
        print(listener.socket.getsockname()[1], flush=True)


def run(function: Callable[..., Awaitable[None]], task: Task, meter: Meter) -> None:
    trio.run(function, task, meter)


async def echo_from_connections(task: Task, meter: Meter) -> None:
    """The frames that come back are counted by their bytes: a small one comes in one piece."""
    returned = 0

    async def send_each(stream: trio.SocketStream, values: list[bytes]) -> None:
        nonlocal returned
        for _ in meter.each(values):
            await stream.send_all(FRAME)
            back = await stream.receive_some()
            returned += len(back)

    port = int(task.addresses["echo"])
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
            for _ in range(task.at_once)
        ]
        with meter.measuring():
            async with trio.open_nursery() as nursery:
                for stream, share in zip(streams, task.shares(), strict=True):
                    nursery.start_soon(send_each, stream, share)
        check_count(returned, len(FRAME) * task.count, "bytes sent back")


if __name__ == "__main__":
    trio.run(serve)

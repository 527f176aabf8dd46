"""A line that swallows the broker's answers and is cut: the client repeats, and nothing is there twice (G11)."""

from functools import partial
from pathlib import Path
from random import Random

import pytest
import trio

import goqueue
from goqueue.storage.disk.disk import RealDisk
from tests.process.brokers import HOST, broker_on_loopback
from tests.process.histories import TOPIC, History, Publisher, everything

CUTS = 30
PUBLISHERS = 3
PARTITIONS = 2
CONFIRMED_MAX = 12
"""So many messages are confirmed between two cuts, at most."""
SECONDS_MAX = 60.0


class Proxy:
    """Passes bytes on, until it is told to swallow what the broker says and then to cut the line."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lines: dict[trio.CancelScope, None] = {}
        self._swallows = False
        self.swallowed = trio.Event()
        """Something was kept from the client since it was last told to."""

    async def serve(self, client: trio.SocketStream) -> None:
        with trio.CancelScope() as line:
            self._lines[line] = None
            try:
                async with await trio.open_tcp_stream(HOST, self._port) as broker, trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass_on, client, broker, line)
                    await self._pass_back(broker, client)
                    line.cancel()
            finally:
                del self._lines[line]

    async def _pass_on(self, client: trio.SocketStream, broker: trio.SocketStream, line: trio.CancelScope) -> None:
        try:
            async for data in client:
                await broker.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        line.cancel()

    async def _pass_back(self, broker: trio.SocketStream, client: trio.SocketStream) -> None:
        try:
            async for data in broker:
                if self._swallows:
                    self.swallowed.set()
                else:
                    await client.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def lose_answers(self) -> None:
        """Keep at least one answer from the client, then cut the line."""
        self._swallows, self.swallowed = True, trio.Event()
        await self.swallowed.wait()
        self.cut()
        self._swallows = False

    def cut(self) -> None:
        for line in list(self._lines):
            line.cancel()


@pytest.mark.parametrize("acks", [goqueue.Acks.ALL, goqueue.Acks.LEADER])
async def test_lost_answers_lose_double_and_disorder_nothing(tmp_path: Path, acks: goqueue.Acks) -> None:
    """G11"""
    seed = 10 + int(acks)
    print("seed", seed)  # shown when the test fails
    random, history = Random(seed), History()
    with trio.fail_after(SECONDS_MAX):
        async with broker_on_loopback(RealDisk(), str(tmp_path)) as url, goqueue.connect(url) as reader:
            await reader.create_topic(TOPIC, partitions=PARTITIONS)
            proxy = Proxy(int(url.rpartition(":")[2]))
            async with trio.open_nursery() as nursery:
                [listener] = await nursery.start(partial(trio.serve_tcp, proxy.serve, 0, host=HOST))
                address = f"ws://{HOST}:{listener.socket.getsockname()[1]}"
                async with goqueue.connect(address) as client, trio.open_nursery() as publishers:
                    for number in range(PUBLISHERS):
                        name = f"publisher-{number}"
                        publisher = Publisher(history, client, name, lambda: random.randrange(PARTITIONS))
                        publishers.start_soon(publisher.run, acks)
                    for _ in range(CUTS):
                        await history.wait_for(random.randint(0, CONFIRMED_MAX))
                        await proxy.lose_answers()
                    await history.wait_for(PUBLISHERS)
                    publishers.cancel_scope.cancel()
                nursery.cancel_scope.cancel()
            messages = await everything(reader)
            history.check(messages)
    assert len(messages) - len(history.confirmed) <= PUBLISHERS, "only what was under way at the end is unconfirmed"

"""Many of each on one node, in small: what a broker holds does not grow with what has passed."""

from pathlib import Path

import trio

import goqueue
from goqueue.storage.disk.disk import RealDisk
from tests.process.brokers import broker_on_loopback

CONNECTIONS = 100


async def test_many_connections_are_served_and_leave_nothing_behind(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with broker_on_loopback(RealDisk(), str(tmp_path)) as url, goqueue.connect(url) as first:
            await first.create_topic("orders", partitions=4)
            all_there, idle = trio.Event(), trio.Event()
            there = 0

            async def be_one_of_many() -> None:
                nonlocal there
                async with goqueue.connect(url) as client:
                    await client.publish("orders", b"a")
                    there += 1
                    if there == CONNECTIONS:
                        all_there.set()
                    await idle.wait()

            async with trio.open_nursery() as nursery:
                for _ in range(CONNECTIONS):
                    nursery.start_soon(be_one_of_many)
                await all_there.wait()
                assert (await first.stats())["connections.open"] == CONNECTIONS + 1
                idle.set()
            stats = await first.stats()
            while stats["connections.open"] > 1:
                stats = await first.stats()
            assert (stats["connections.accepted"], stats["published.messages"]) == (CONNECTIONS + 1, CONNECTIONS)

"""The answer to a change of topics is swallowed and the line is cut: the client repeats, and it is done once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
import trio.testing

import goqueue
from goqueue.net.wire import messages as wire
from goqueue.storage.disk.disk import RealDisk
from tests.process.brokers import HOST, broker_on_loopback
from tests.process.test_proxy import Proxy

SECONDS_MAX = 60.0


@asynccontextmanager
async def through_proxy(url: str) -> AsyncIterator[tuple[Proxy, goqueue.Client]]:
    proxy = Proxy(int(url.rpartition(":")[2]))
    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, proxy.serve, 0, host=HOST))
        async with goqueue.connect(f"ws://{HOST}:{listener.socket.getsockname()[1]}") as client:
            await client.topics()  # connected: what is swallowed next is an answer
            yield proxy, client
        nursery.cancel_scope.cancel()


async def answer_lost(proxy: Proxy, change: Callable[[], Awaitable[Any]]) -> Any:
    result: list[Any] = []

    async def ask() -> None:
        result.append(await change())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(proxy.lose_answers)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask)
    return result[0]


async def test_a_create_an_alter_and_a_widening_whose_answers_are_lost_are_done_once(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS_MAX):
        async with broker_on_loopback(RealDisk(), str(tmp_path)) as url, through_proxy(url) as (proxy, client):
            made = await answer_lost(proxy, partial(client.create_topic, "orders", partitions=2))
            assert made == await client.topic("orders")
            wider = await answer_lost(proxy, partial(client.add_partitions, "orders", 3))
            assert (wider.uuid, len(wider.partitions)) == (made.uuid, 3)
            altered = await answer_lost(proxy, partial(client.alter_topic, "orders", {"retention_hours": 7}))
            assert (altered.uuid, altered.config["retention_hours"]) == (made.uuid, 7)


async def test_a_delete_whose_answers_are_lost_is_done_once(tmp_path: Path) -> None:
    with trio.fail_after(SECONDS_MAX):
        async with broker_on_loopback(RealDisk(), str(tmp_path)) as url, through_proxy(url) as (proxy, client):
            for _ in range(5):
                made = await client.create_topic("orders", partitions=1)
                await answer_lost(
                    proxy, partial(client.call, wire.DeleteTopic("orders", made.uuid.bytes), wire.Done)
                )
                assert await client.topics() == []
            await client.create_topic("orders", partitions=1)
            await answer_lost(proxy, partial(client.delete_topic, "orders"))
            assert await client.topics() == []

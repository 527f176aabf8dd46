"""The broker as a process under load, ended by `kill -9` and by SIGTERM."""

import json
from pathlib import Path
from random import Random

import pytest
import trio

import goqueue
from goqueue.storage.disk.disk import RealDisk
from tests.process.brokers import broker_on_loopback, broker_process
from tests.process.children import child
from tests.process.histories import TOPIC, History, Publisher, everything

PUBLISHERS = 4
PARTITIONS = 2
CONFIRMED_MAX = 60
"""So many messages are confirmed between two kills, at most."""
SECONDS_MAX = 60.0


async def set_up(data: Path) -> int:
    """Make the topic; the port, which stays the same from now on."""
    async with broker_on_loopback(RealDisk(), str(data)) as url, goqueue.connect(url) as client:
        await client.create_topic(TOPIC, partitions=PARTITIONS)
    return int(url.rpartition(":")[2])


async def read_back(data: Path) -> list[goqueue.Message]:
    async with broker_on_loopback(RealDisk(), str(data)) as url, goqueue.connect(url) as client:
        return await everything(client)


def start_publishers(
    nursery: trio.Nursery, history: History, clients: list[goqueue.Client], random: Random, acks: goqueue.Acks
) -> None:
    for number in range(PUBLISHERS):
        client = clients[number % len(clients)]
        publisher = Publisher(history, client, f"publisher-{number}", lambda: random.randrange(PARTITIONS))
        nursery.start_soon(publisher.run, acks)


async def follow(client: goqueue.Client, seen: list[goqueue.Message]) -> None:
    async for message in client.read(TOPIC):
        seen.append(message)  # noqa: PERF401  (it never ends by itself)


@pytest.mark.parametrize("acks", [goqueue.Acks.ALL, goqueue.Acks.LEADER])
async def test_what_was_confirmed_survives_kill_9_under_load(
    tmp_path: Path, kills: int, acks: goqueue.Acks
) -> None:
    """G1, G3, G11: the same clients publish on; confirmed messages lie where it was said, once, in order.

    Who reads all the while sees each message once, in order.
    """
    seed = int(acks)
    print("seed", seed)  # shown when the test fails
    random, history, seen = Random(seed), History(), list[goqueue.Message]()
    port = await set_up(tmp_path)
    url = f"ws://127.0.0.1:{port}"
    with trio.fail_after(SECONDS_MAX + 10 * kills):
        async with goqueue.connect(url) as one, goqueue.connect(url) as two, trio.open_nursery() as nursery:
            nursery.start_soon(follow, two, seen)
            start_publishers(nursery, history, [one, two], random, acks)
            for _ in range(kills):
                async with broker_process(tmp_path, port) as (process, _):
                    await history.wait_for(random.randint(1, CONFIRMED_MAX))
                    process.process.kill()
                    assert await process.end() == -9
            async with broker_on_loopback(RealDisk(), str(tmp_path), port=port):
                await history.wait_for(PUBLISHERS)
                nursery.cancel_scope.cancel()
        there = await read_back(tmp_path)
    history.check(there)
    assert len(history.confirmed) >= kills
    check_seen(seen, there)


def check_seen(seen: list[goqueue.Message], there: list[goqueue.Message]) -> None:
    assert seen
    for partition in range(PARTITIONS):
        found = [(each.offset, each.value) for each in seen if each.partition == partition]
        assert found == [(each.offset, each.value) for each in there if each.partition == partition][: len(found)]


async def test_a_broker_that_is_asked_to_stop_under_load_stops_in_order(tmp_path: Path) -> None:
    """G15: with exit code 0, in time, with everything that it confirmed; readers at the end do not hold it up."""
    history = History()
    port = await set_up(tmp_path)
    url = f"ws://127.0.0.1:{port}"
    with trio.fail_after(SECONDS_MAX):
        async with goqueue.connect(url) as client, trio.open_nursery() as nursery:
            start_publishers(nursery, history, [client], Random(0), goqueue.Acks.ALL)
            async with broker_process(tmp_path, port) as (process, _):
                await client.create_topic("silent")
                nursery.start_soon(anext, client.read("silent"))
                await history.wait_for(50)
                process.process.terminate()
                with trio.fail_after(30):
                    assert await process.end() == 0
            assert len(process.lines) == 1, "one line, and nothing else on stdout, ever"
            nursery.cancel_scope.cancel()
        history.check(await read_back(tmp_path))


async def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path) -> None:
    """And leaves the first one, and its data, alone."""
    async with broker_process(tmp_path) as (first, url):
        arguments = ["--data", str(tmp_path), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "-o", "json"]
        async with child("goqueue", "serve", *arguments) as second:
            assert await second.end() == 1
        assert second.lines == []
        async with goqueue.connect(url) as client:
            assert await client.topics() == []
        assert json.loads(first.lines[0]).keys() == {"websocket", "http"}

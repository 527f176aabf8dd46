"""The health of a whole broker, from what really happens to it."""

from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.actors.front.bounds import Bounds
from goqueue.actors.front.serving import SERVING
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.node.broker import Broker
from goqueue.actors.statistics.statistics import Stalls
from goqueue.net.wire.messages import CheckHealth, HealthReport
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.memory import Machine
from tests.actors.delivery.gatherers import broker
from tests.actors.topics.test_lost import FOLDER, remove_tree, three_partitions


async def health(running: Broker, **asked: Any) -> tuple[str, list[str]]:
    report = await BrokerSession(running, SERVING, Bounds()).call(CheckHealth(**asked))
    assert isinstance(report, HealthReport)
    return report.status, [each.code for each in report.degraded]


async def test_a_lost_partition_impairs_the_broker_until_it_is_restored(autojump_clock: MockClock) -> None:
    disk = SimulatedDisk(Random(0))
    await three_partitions(disk)
    remove_tree(disk, FOLDER)
    async with broker(disk) as running:
        assert await health(running, for_publish=True) == ("ready", ["partitions_lost"])


async def test_a_broker_that_is_about_to_stop_says_so(autojump_clock: MockClock) -> None:
    async with broker(SimulatedDisk(Random(0))) as running:
        assert await health(running) == ("ready", [])
        running.leaving.set()
        assert await health(running) == ("draining", [])


async def test_a_stall_is_forgotten_after_a_minute(autojump_clock: MockClock) -> None:
    async with broker(SimulatedDisk(Random(0))) as running:
        running.statistics.stalls = Stalls()
        running.statistics.stalls.note(0.9, trio.current_time())
        assert await health(running) == ("ready", [])
        running.statistics.stalls.note(1.1, trio.current_time())
        assert await health(running) == ("ready", ["loop_stalled"])
        await trio.sleep(61)
        assert await health(running) == ("ready", [])


async def test_the_longest_stall_of_the_last_minute_counts() -> None:
    stalls = Stalls()
    for now, seconds in ((0, 5), (30, 2), (50, 3), (55, 1.5)):
        stalls.note(seconds, now)
    assert [stalls.longest_lately(now) for now in (60, 61, 111, 116)] == [5, 3, 1.5, 0]


async def test_a_full_disk_refuses_publishes_and_serves_the_rest(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client:
        assert await client.health(for_publish=True) == goqueue.Health("ready", ())
        machine.fill_disk()
        low = await client.health()
        assert low.is_ready
        assert [each.code for each in low.degraded] == ["disk_low"]
        assert (await client.health(for_publish=True)).status == "disk_low"
        machine.free_disk()
        assert (await client.health(for_publish=True)).is_ready


async def waiting(machine: Machine) -> list[str]:
    async with machine.client() as client:
        return [each.message for each in (await client.health()).degraded]


async def reject(client: goqueue.Client, count: int) -> None:
    async with client.consumer("orders", group="billing") as consumer:
        left = count
        while left:
            messages = await consumer.receive(max_messages=left)
            for message in messages:
                await message.reject("no")
            left -= len(messages)


@pytest.mark.parametrize("way_out", ["dismiss", "redrive"])
async def test_dead_letters_impair_the_broker_until_somebody_decides(
    autojump_clock: MockClock, way_out: str
) -> None:
    async with goqueue.testing.machine() as machine:
        async with machine.client() as client:
            await client.create_topic("orders", partitions=1)
            for number in range(3):
                await client.publish("orders", b"%d" % number)
            assert await waiting(machine) == []
            await reject(client, 3)
            await trio.sleep(5)  # they are carried to their topic
            assert await waiting(machine) == ["3 dead letters wait: orders (3)"]
            await (client.dismiss("orders") if way_out == "dismiss" else client.redrive("orders"))
            assert await waiting(machine) == []
        await machine.restart()
        assert await waiting(machine) == []


async def test_where_a_log_has_gaps_the_count_is_kept_for_a_minute(autojump_clock: MockClock) -> None:
    """It has to be read then, and probes come every few seconds."""
    async with goqueue.testing.machine() as machine, machine.client() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"0")
        await reject(client, 1)
        await trio.sleep(5)
        await machine.stop()
        machine.disk.flip_bit("/data/logs/orders.dlq/0/00000000000000000000.log", 100, 0)
        await machine.start()
        with pytest.raises(goqueue.DamagedData):
            async for _ in client.read("orders.dlq", end="latest"):
                pass
        assert await waiting(machine) == ["messages of orders.dlq/0 cannot be read"]
        await client.publish("orders", b"1")
        await reject(client, 1)
        await trio.sleep(5)
        assert (await waiting(machine))[1:] == ["1 dead letter waits: orders (1)"], "the log ends elsewhere"
        await client.dismiss("orders")
        assert len(await waiting(machine)) == 2
        await trio.sleep(61)
        assert len(await waiting(machine)) == 1

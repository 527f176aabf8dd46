"""Backup, against a whole broker over memory: what is in a copy, whatever happens while it is made."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from goqueue.cli.backup.copying import CopyOutcome, back_up
from goqueue.errors import (
    DiskFull,
    Unavailable,
)
from goqueue.net.wire import messages as wire
from goqueue.storage.verification.verify import NoProgress
from goqueue.testing.disk import SimulatedDisk
from tests.cli.backup.backups import BACKUP, RESTORED, VALUE, Machine, check_sound, check_unusable, contents

BACKUPS = 10


@pytest.fixture
def machine() -> Machine:
    return Machine()


class WhenItBegins:
    """A progress that lets something happen once the snapshot is taken."""

    def __init__(self, nursery: trio.Nursery, happens: Callable[[], Any]) -> None:
        self._nursery = nursery
        self._happens = happens

    def begin(self, total: int) -> None:
        self._nursery.start_soon(self._happens)

    def advance(self, done: int) -> None:
        pass


# What is in it


async def test_a_restored_broker_has_every_message_where_it_was(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G1, G3: keys, values, headers, times, priorities and offsets, of all partitions; settings and UUIDs too."""
    async with machine.both() as client:
        await client.create_topic("orders", config={"retention_hours": 5, "compression": "zstd"})
        await client.create_topic("empty", partitions=1)
        for number in range(60):
            await client.publish(
                "orders", b"%d" % number, key=b"k%d" % (number % 7), headers={"n": b"1"}, priority=number % 5
            )
        topics, before = await client.topics(), await contents(client)
        await machine.back_up(client)
    await machine.restore()
    await check_sound(machine.disk, BACKUP)
    await check_sound(machine.disk, RESTORED)
    for data in (RESTORED, BACKUP):
        async with machine.both(data) as client:
            assert await contents(client) == before
            assert await client.topics() == topics
            described = (await client.call(wire.DescribeTopics(("orders",)), wire.Topics)).topics[0]
            assert all(each.leader_epoch > 1 for each in described.partitions)
            after = await client.publish("orders", b"more", partition=0)
            assert after.offset == topics[1].partitions[0].end
    assert len(before) == 60


async def test_what_was_confirmed_before_is_in_it_and_nothing_without_what_came_before_it(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G1: one who publishes message after message, each to another partition, finds a beginning of its row."""
    confirmed = 0
    async with machine.both() as client, trio.open_nursery() as nursery:
        await client.create_topic("orders", partitions=4)

        async def publish_for_ever() -> None:
            nonlocal confirmed
            while True:
                await client.publish("orders", b"%d" % confirmed, partition=confirmed % 4)
                confirmed += 1

        nursery.start_soon(publish_for_ever)
        least = []
        for number in range(BACKUPS):
            await trio.sleep(0.05)
            least.append(confirmed)
            await machine.back_up(client, f"/backups/{number}")
        assert 0 < least[0] < least[-1] < confirmed
        nursery.cancel_scope.cancel()
    for number in range(BACKUPS):
        found = sorted(int(each.value) for each in await machine.contents(f"/backups/{number}"))
        assert found == list(range(len(found)))
        assert len(found) >= least[number]


async def test_a_restored_broker_is_of_the_same_cluster_and_knows_its_producers(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G11: a repeat of what is in the backup is answered with its first offset."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"a", message_id=b"1")
        done = await machine.back_up(client)
    await machine.restore()
    async with machine.both(RESTORED) as client:
        assert (await client.publish("orders", b"a", message_id=b"1")).offset == 0
        assert (await client.topic("orders")).partitions[0].end == 1
        assert await machine.back_up(client, "/second") is not None
        assert (await machine.restore("/second", "/third")).manifest.meta == done.manifest.meta


async def test_gaps_of_compaction_and_a_later_start_stay(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        config = {"cleanup": "compact", "segment_bytes": 4_096}
        await client.create_topic("orders", partitions=1, config=config)
        await client.create_topic("cut", partitions=2, config={"segment_bytes": 4_096})
        for number in range(200):
            await client.publish("orders", b"%d" % number + VALUE, key=b"k%d" % (number % 3))
            await client.publish("cut", b"%d" % number + VALUE, partition=0)
        await client.delete_before("cut", 0, 77)
        await trio.sleep(200)  # the janitor goes round
        before, cut = await contents(client), await contents(client, "cut")
        assert len(before) < 100
        await machine.back_up(client)
    await machine.restore()
    await check_sound(machine.disk, RESTORED)
    assert await machine.contents(RESTORED) == before
    assert await machine.contents(RESTORED, "cut") == cut
    assert cut[0].offset == 77


async def test_a_purged_partition_goes_on_where_it_was(machine: Machine, autojump_clock: MockClock) -> None:
    """G3: no offset is used again."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([b"a", b"b", b"c"])
        await client.purge("orders")
        await machine.back_up(client)
    await machine.restore()
    async with machine.both(RESTORED) as client:
        assert (await client.publish("orders", b"d")).offset == 3
        assert [each.offset for each in await contents(client)] == [3]


async def test_a_log_that_begins_inside_a_batch_does_so_in_the_copy(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([b"%d" % number for number in range(50)])
        await client.delete_before("orders", 0, 33)
        before = await contents(client)
        await machine.back_up(client)
    await machine.restore()
    assert await machine.contents(RESTORED) == before
    assert before[0].offset == 33


# While it is made


async def test_a_topic_deleted_meanwhile_is_not_in_it(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client, trio.open_nursery() as nursery:
        await client.create_topic("orders", partitions=1)
        await client.create_topic("doomed", partitions=1)
        await client.publish("orders", b"a")
        async with client.producer("doomed") as producer:
            await producer.send_many([VALUE] * 20_000)
        done = await machine.back_up(client, progress=WhenItBegins(nursery, lambda: client.delete_topic("doomed")))
    assert done.deleted == ["doomed"]
    assert machine.disk.list(f"{BACKUP}/logs") == ["__metadata", "__schemas", "orders"]
    assert [each.topic for each in done.manifest.partitions] == ["orders"]
    await machine.restore()
    await check_sound(machine.disk, RESTORED)
    async with machine.both(RESTORED) as client:
        assert [each.name for each in await client.topics()] == ["orders"]


async def test_what_retention_takes_meanwhile_is_not_in_it(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client, trio.open_nursery() as nursery:
        await client.create_topic("orders", partitions=1, config={"segment_bytes": 100_000})
        async with client.producer("orders") as producer:
            await producer.send_many([b"%d" % number + VALUE for number in range(5_000)])
        before = await contents(client)
        done = await machine.back_up(
            client, progress=WhenItBegins(nursery, lambda: client.delete_before("orders", 0, 4_000))
        )
    [copied] = done.manifest.partitions
    assert (copied.start, copied.end) == (4_000, 5_000)
    await machine.restore()
    await check_sound(machine.disk, RESTORED)
    assert await machine.contents(RESTORED) == before[4_000:]


async def test_a_broker_that_is_started_again_meanwhile_is_no_matter(
    machine: Machine, autojump_clock: MockClock
) -> None:
    outcomes: list[CopyOutcome] = []
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([b"%d" % number + VALUE for number in range(5_000)])
        before = await contents(client)
    async with trio.open_nursery() as nursery, machine.client() as client:
        stop = trio.Event()

        async def run() -> None:
            outcomes.append(await machine.back_up(client, progress=WhenItBegins(nursery, end_first)))
            stop.set()

        async def end_first() -> None:
            first.cancel()

        nursery.start_soon(run)
        with trio.CancelScope() as first:
            async with machine.both():
                await stop.wait()
        assert first.cancelled_caught
        async with machine.both():
            await stop.wait()
    assert [each.manifest.partitions[0].end for each in outcomes] == [5_000]
    assert await machine.contents(BACKUP) == before


async def test_a_broker_that_does_not_come_back_leaves_a_copy_that_nobody_takes(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([VALUE] * 5_000)
    async with trio.open_nursery() as nursery, machine.client() as client:

        async def fail() -> None:
            with pytest.raises(Unavailable):
                await machine.back_up(client, progress=WhenItBegins(nursery, end_broker))
            tried.set()

        async def end_broker() -> None:
            scope.cancel()

        tried = trio.Event()
        nursery.start_soon(fail)
        with trio.CancelScope() as scope:
            async with machine.both():
                await tried.wait()
        await tried.wait()
    await check_unusable(machine.disk, BACKUP)


async def test_a_full_disk_leaves_a_copy_that_nobody_takes(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([VALUE] * 5_000)
        target = SimulatedDisk(Random(1), capacity=2_000_000)
        with pytest.raises(DiskFull):
            await back_up(client, target, BACKUP, NoProgress())
    await check_unusable(target, BACKUP)

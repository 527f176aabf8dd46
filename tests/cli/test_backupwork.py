"""Backup and restore, against a whole broker over memory: what is in a copy, whatever happens while it is made."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.actors.serving import serving
from goqueue.cli.backupwork import Outcome, back_up, restore
from goqueue.environment import Disk, Environment
from goqueue.errors import (
    DamagedData,
    DirectoryNotEmpty,
    DiskFull,
    IncompleteCopy,
    Unavailable,
    UnknownFormat,
)
from goqueue.net import messages as wire
from goqueue.storage.backup import DirectoryCopy, Lost
from goqueue.storage.datadirectory import DataDirectory
from goqueue.storage.verification.verify import NoProgress, verify
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.actors.shelves import WatchedDisk
from tests.process.brokers import HTTP, URL, WEBSOCKET, MemoryNetwork
from tests.storage.logs import mounted

BACKUP, RESTORED = "/backup", "/restored"
VALUE = b"x" * 1_000
BACKUPS = 10


class Content(NamedTuple):
    """All that a reader sees of a message."""

    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes
    headers: dict[str, bytes]
    priority: int


class Machine:
    """A disk and a network, on which a broker may run; the clock is the virtual one."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(0))
        self.network = MemoryNetwork()

    @asynccontextmanager
    async def both(self, data: str = "/data", disk: Disk | None = None) -> AsyncIterator[goqueue.Client]:
        environment = Environment(disk or self.disk, self.network, SimulatedClock(), Random(0))
        async with serving(environment, data, listen=WEBSOCKET, http=HTTP), self.client() as client:
            yield client

    def client(self) -> Any:
        return goqueue.connect(URL, network=self.network)

    async def back_up(self, client: goqueue.Client, path: str = BACKUP, progress: Any = None) -> Outcome:
        return await back_up(client, self.disk, path, progress or NoProgress())

    async def restore(self, backup: str = BACKUP, path: str = RESTORED) -> Outcome:
        return await restore(self.disk, backup, path, NoProgress())

    async def contents(self, data: str, topic: str = "orders") -> list[Content]:
        async with self.both(data) as client:
            return await contents(client, topic)


@pytest.fixture
def machine() -> Machine:
    return Machine()


async def contents(client: goqueue.Client, topic: str = "orders") -> list[Content]:
    async with client.read(topic, end="latest") as reader:
        found = [
            Content(
                each.partition, each.offset, each.timestamp, each.key, each.value, dict(each.headers), each.priority
            )
            async for each in reader
        ]
    return sorted(found, key=lambda each: each[:2])


async def check_sound(disk: Disk, path: str) -> None:
    report = await verify(disk, path)
    assert not report.damage()
    assert not report.warnings()


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
    assert machine.disk.list(f"{BACKUP}/logs") == ["__metadata", "orders"]
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
    outcomes: list[Outcome] = []
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


async def check_unusable(disk: SimulatedDisk, path: str) -> None:
    with pytest.raises(IncompleteCopy, match="cut short"):
        await restore(disk, path, RESTORED, NoProgress())
    await check_no_broker_starts(disk, path)
    async with mounted(disk) as volume:
        with pytest.raises(DirectoryNotEmpty, match="cut short"):
            await DirectoryCopy.begin(volume, path)


async def check_no_broker_starts(disk: SimulatedDisk, path: str) -> None:
    async with mounted(disk) as volume:
        with pytest.raises(IncompleteCopy, match="cut short"):
            await DataDirectory.open(volume, path, node="node-1", random=Random(0))


# Restoring


@pytest.mark.parametrize("end", [SimulatedDisk.kill, SimulatedDisk.crash])
async def test_a_restore_that_ends_anywhere_leaves_all_or_nothing_to_start_on(
    machine: Machine, autojump_clock: MockClock, end: Callable[[SimulatedDisk], SimulatedDisk]
) -> None:
    """G1: whatever a kill or a power cut leaves of it is empty, refused, or whole."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=2)
        for number in range(6):
            await client.publish("orders", b"%d" % number, partition=number % 2)
        before = await contents(client)
        await machine.back_up(client)
    watched = WatchedDisk(machine.disk, end)
    watched.images = []
    await restore(watched, BACKUP, RESTORED, NoProgress())
    whole = 0
    for image in [*watched.images, end(machine.disk)]:
        names = set(image.list(RESTORED)) if image.is_directory(RESTORED) else set()
        if names <= {"lock", "incomplete.tmp"}:  # nothing is there yet
            continue
        if "incomplete" in names:
            await check_no_broker_starts(image, RESTORED)
            continue
        whole += 1
        async with machine.both(RESTORED, disk=image) as client:
            assert await contents(client) == before
    assert len(watched.images) > 20
    assert whole >= 1


async def one_backup(machine: Machine, messages: int = 10) -> list[Content]:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        for number in range(messages):
            await client.publish("orders", b"%d" % number)
        await machine.back_up(client)
        return await contents(client)


async def test_a_restore_goes_into_an_empty_directory_only(machine: Machine, autojump_clock: MockClock) -> None:
    before = await one_backup(machine)
    for path in ("/data", BACKUP):
        with pytest.raises(DirectoryNotEmpty):
            await machine.restore(BACKUP, path)
    machine.disk.open("/file", create=True).close()
    with pytest.raises(DirectoryNotEmpty):
        await machine.restore(BACKUP, "/file")
    machine.disk.make_directory(RESTORED)
    machine.disk.make_directory(f"{RESTORED}/lost+found")
    await machine.restore()
    assert await machine.contents(RESTORED) == before


async def test_what_is_no_backup_is_not_restored(machine: Machine, autojump_clock: MockClock) -> None:
    await one_backup(machine)
    for path in ("/nowhere", "/data"):
        with pytest.raises(UnknownFormat):
            await machine.restore(path)
    assert not machine.disk.exists(RESTORED)


@pytest.mark.parametrize("file", ["backup.json", "logs/orders/0/00000000000000000000.log"])
async def test_a_backup_with_a_flipped_bit_is_not_restored(
    machine: Machine, autojump_clock: MockClock, file: str
) -> None:
    await one_backup(machine)
    machine.disk.flip_bit(f"{BACKUP}/{file}", machine.disk.size(f"{BACKUP}/{file}") // 2, 3)
    with pytest.raises((DamagedData, IncompleteCopy)):
        await machine.restore()
    if machine.disk.exists(RESTORED):
        await check_no_broker_starts(machine.disk, RESTORED)


async def test_a_backup_that_lost_a_segment_or_its_end_is_not_restored(
    machine: Machine, autojump_clock: MockClock
) -> None:
    await one_backup(machine)
    log = f"{BACKUP}/logs/orders/0/00000000000000000000.log"
    machine.disk.cut(log, machine.disk.size(log) // 10 * 9)  # ten batches of one size
    with pytest.raises(IncompleteCopy, match="ends at 9"):
        await machine.restore()
    machine.disk.remove(log)
    with pytest.raises(IncompleteCopy):
        await machine.restore(BACKUP, "/other")


async def test_a_backup_that_was_served_is_restored_until_it_is_written_to(
    machine: Machine, autojump_clock: MockClock
) -> None:
    before = await one_backup(machine)
    assert await machine.contents(BACKUP) == before
    await machine.restore()
    assert await machine.contents(RESTORED) == before
    async with machine.both(BACKUP) as client:
        await client.publish("orders", b"more")
    with pytest.raises(IncompleteCopy, match="written to"):
        await machine.restore(BACKUP, "/other")


async def test_what_the_broker_cannot_read_is_named_and_the_rest_is_there(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1, config={"segment_bytes": 4_096})
        for number in range(20):
            await client.publish("orders", b"%d" % number + VALUE)
        await trio.sleep(10)  # sealed
        before = await contents(client)
        machine.disk.flip_bit("/data/logs/orders/0/00000000000000000000.log", 200, 1)
        done = await machine.back_up(client)
    [copied] = done.manifest.partitions
    assert copied.lost == [Lost(0, 1)]
    await machine.restore()
    await check_sound(machine.disk, RESTORED)
    assert await machine.contents(RESTORED) == before[1:]

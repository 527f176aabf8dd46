"""Restore, of what a broker over memory backed up: all of it or nothing, and never what is not as it was."""

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from goqueue.cli.backup.copying import restore
from goqueue.errors import (
    DamagedData,
    DirectoryNotEmpty,
    IncompleteCopy,
    UnknownFormat,
)
from goqueue.storage.backup.backup import Lost
from goqueue.storage.verification.verify import NoProgress
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import WatchedDisk
from tests.cli.backup.backups import (
    BACKUP,
    RESTORED,
    VALUE,
    Content,
    Machine,
    check_no_broker_starts,
    check_sound,
    contents,
)


@pytest.fixture
def machine() -> Machine:
    return Machine()


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
        async with client.consumer("orders", group="billing") as consumer:
            await consumer.ack(await consumer.receive(1, timeout=10))
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
            assert sum(each.committed for each in (await client.group("billing")).partitions) == 1
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

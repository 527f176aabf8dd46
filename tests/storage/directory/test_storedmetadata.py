"""The metadata on disk, and the import of the register of groups that earlier versions kept (G13)."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from goqueue.core.groups.registry import GroupRegistry, RegistryEntry, SeenTopic
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.metadata.metadata import group_record
from goqueue.core.topics.metadata import Metadata
from goqueue.errors import DiskFull, UnknownFormat
from goqueue.storage.directory.recordlog import RecordLog
from goqueue.storage.directory.storedmetadata import StoredMetadata
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.dump import FileKind, kind_of
from goqueue.storage.verification.verify import verify
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults
from tests.actors.delivery.gatherers import WatchedDisk
from tests.storage.journals.crashes import crashes_of, leave_room
from tests.storage.logs import NOW, mounted
from tests.storage.oldregister import LIST, OLD_REGISTER, entries_of, write_old_register

KEPT = f"{OLD_REGISTER}.imported"
CLAIM = f"{OLD_REGISTER}.durable"
ORDERS = Metadata().create_topic("orders", 3, {}, UUID(int=1))
QUICK = Faults(sync_seconds=(0.0, 0.001), cold_read_seconds=(0.0, 0.0))


async def opened(volume: Volume) -> StoredMetadata:
    return await StoredMetadata.open(volume, "/data", NOW)


def names(stored: StoredMetadata) -> tuple[list[str], list[str]]:
    return [topic.name for topic in stored.metadata.topics], [group.name for group in stored.groups]


async def names_on(disk: SimulatedDisk) -> tuple[list[str], list[str]]:
    async with mounted(disk) as volume:
        stored = await opened(volume)
        found = names(stored)
        await stored.close()
    return found


async def of_an_earlier_version(volume: Volume, entries: list[RegistryEntry] | None = None) -> None:
    """A topic in the list, and groups in a register of their own."""
    log, _ = await RecordLog.open(volume, LIST)
    await log.append([ORDERS], NOW)
    await log.close()
    await write_old_register(volume, entries_of("billing", "audit") if entries is None else entries)


async def contents(disk: SimulatedDisk, path: str) -> bytes:
    return bytes(await disk.open(path).read(0, disk.size(path)))


# Its own life


async def test_what_was_committed_survives_a_power_cut(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1"""
    stored = await opened(volume)
    await stored.write([ORDERS, *map(group_record, entries_of("billing"))], NOW)
    assert await stored.commit()
    assert await stored.commit(), "nothing claims it yet"
    await stored.claim(NOW)
    assert not await stored.commit()
    await stored.write([group_record(stored.groups.make("unsynced", 9))], NOW)
    for image in crashes_of(disk):
        topics, groups = await names_on(image)
        assert (topics, "billing" in groups) == (["orders"], True)


async def test_it_stays_small_however_much_is_said_and_a_snapshot_loses_nothing(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    stored = await opened(volume)
    await stored.write([ORDERS, *map(group_record, entries_of("billing", "audit"))], NOW)
    for number in range(12_000):
        await stored.write([group_record(stored.groups.reserve("billing", number))], NOW)
        await stored.commit()
        if number % 1_000 == 0:
            await stored.claim(NOW)
    size = sum(disk.size(f"{LIST}/{name}") for name in disk.list(LIST))
    assert size < 2_500_000
    before = stored.metadata.snapshot()
    async with mounted(disk.crash()) as again:
        reopened = await opened(again)
        assert reopened.metadata.snapshot() == before
        assert reopened.groups.group("billing").generation == 11_999


async def test_changes_go_on_while_a_snapshot_is_written(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A power cut at any moment finds what was committed before it."""
    stored = await opened(volume)
    await stored.write([ORDERS, *map(group_record, entries_of("billing"))], NOW)
    await stored.commit()
    for number in range(12_000):
        await stored.write([group_record(stored.groups.reserve("billing", number))], NOW)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stored.claim, NOW)
        for number in range(12_000, 12_010):
            await stored.write([group_record(stored.groups.reserve("billing", number))], NOW)
            await stored.commit()
            async with mounted(disk.crash()) as image:
                assert (await opened(image)).groups.group("billing").generation >= number
    assert sum(disk.size(f"{LIST}/{name}") for name in disk.list(LIST)) < 10_000
    assert await names_on(disk.crash()) == (["orders"], ["billing"])


async def test_on_a_full_disk_nothing_has_changed(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    stored = await opened(volume)
    await stored.write([ORDERS], NOW)
    leave_room(disk, 0)
    with pytest.raises(DiskFull):
        await stored.write([group_record(stored.groups.make("audit", 2))], NOW)
    assert names(stored) == (["orders"], [])
    leave_room(disk, 1_000_000)
    await stored.write([group_record(stored.groups.make("audit", 2))], NOW)
    await stored.commit()
    assert await names_on(disk.crash()) == (["orders"], ["audit"])


async def test_groups_are_doubtful_after_a_torn_end_and_not_after_a_sound_one(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """What was committed in the second before the end is claimed by nothing, and damage there looks torn."""
    stored = await opened(volume)
    await stored.write([ORDERS], NOW)
    await stored.write([group_record(stored.groups.make("audit", 2))], NOW)
    await stored.commit()
    sound, torn = disk.kill(), disk.kill()
    path = f"{LIST}/{0:020d}.log"
    torn.flip_bit(path, torn.size(path) - 5, 0)
    for image, is_doubtful in ((sound, False), (torn, True)):
        async with mounted(image) as again:
            assert (await opened(again)).groups.is_doubtful is is_doubtful


# The import


async def test_a_register_of_an_earlier_version_is_imported_once_and_kept_aside(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await of_an_earlier_version(volume)
    before = await contents(disk, OLD_REGISTER)
    stored = await opened(volume)
    assert names(stored) == (["orders"], ["audit", "billing"])
    assert not stored.groups.is_doubtful
    assert [disk.exists(path) for path in (OLD_REGISTER, CLAIM)] == [False, False]
    assert await contents(disk, KEPT) == before
    assert await kind_of(disk, KEPT) is FileKind.JOURNAL, "`log dump` shows it"
    assert any(KEPT in report for report in stored.reports)
    await stored.write([group_record(stored.groups.remove("audit"))], NOW)
    await stored.close()
    assert await names_on(disk) == (["orders"], ["billing"]), "what is kept aside is never read again"
    assert (await verify(disk, "/data")).damage() == ()


async def test_everything_that_was_said_of_a_group_is_imported(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    registry, entries = GroupRegistry(), list[RegistryEntry]()
    commands: list[Callable[[], RegistryEntry]] = [
        lambda: registry.make("billing", 7),
        lambda: registry.fix("billing", GroupSettings(max_deliveries=9)),
        lambda: registry.reserve("billing", 1_000),
        lambda: registry.begin("billing", SeenTopic("orders", UUID(int=1), 3, "offset:17")),
        lambda: registry.attach("billing", "orders", UUID(int=1), 2),
        lambda: registry.make("audit", 8),
        lambda: registry.remove("audit"),
    ]
    for command in commands:
        entries.append(command())
        registry.apply(entries[-1])
    await of_an_earlier_version(volume, entries)
    stored = await opened(volume)
    assert stored.groups.snapshot() == registry.snapshot()


@pytest.mark.parametrize("end", [SimulatedDisk.kill, SimulatedDisk.crash])
@pytest.mark.parametrize("damage", ["none", "cut"])
async def test_an_end_at_any_step_of_the_import_loses_nothing(
    autojump_clock: MockClock, end: Callable[[SimulatedDisk], SimulatedDisk], damage: str
) -> None:
    """Nor is the doubt about a damaged register forgotten."""
    disk = SimulatedDisk(Random(0), faults=QUICK)
    async with mounted(disk) as volume:
        await of_an_earlier_version(volume)
    if damage == "cut":
        disk.cut(OLD_REGISTER, disk.size(OLD_REGISTER) - 40)
    groups = ["audit", "billing"] if damage == "none" else ["billing"]
    watched = WatchedDisk(disk, end)
    watched.images = []
    async with mounted(watched) as volume:  # type: ignore[arg-type]
        stored = await opened(volume)
        assert names(stored) == (["orders"], groups)
        images, watched.images = watched.images, None
    assert len(images) > 10
    for image in images:
        async with mounted(image) as volume:
            stored = await opened(volume)
            assert names(stored) == (["orders"], groups)
            assert stored.groups.is_doubtful or damage == "none"
            await stored.close()
        assert [image.exists(path) for path in (OLD_REGISTER, CLAIM, KEPT)] == [False, False, True]


async def test_a_register_that_comes_later_is_only_set_aside(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A goqueue of an earlier version ran in between: the metadata counts, and no file is overwritten."""
    await of_an_earlier_version(volume)
    await (await opened(volume)).close()
    first = await contents(disk, KEPT)
    await write_old_register(volume, entries_of("late"))
    stored = await opened(volume)
    assert names(stored)[1] == ["audit", "billing"]
    assert any(f"{OLD_REGISTER}-2.imported" in report for report in stored.reports)
    assert (await contents(disk, KEPT), disk.exists(f"{OLD_REGISTER}-2.imported")) == (first, True)


@pytest.mark.parametrize("damage", ["cut to nothing", "removed", "cut between entries", "a flipped bit", "torn"])
async def test_what_is_sound_of_a_damaged_register_is_imported_and_the_rest_is_doubted(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock, damage: str
) -> None:
    """G13: the doubt lasts until somebody has looked for the groups, whatever ends before."""
    await of_an_earlier_version(volume)
    size = disk.size(OLD_REGISTER)
    match damage:
        case "removed":
            disk.remove(OLD_REGISTER)
        case "cut to nothing":
            disk.cut(OLD_REGISTER, 0)
        case "cut between entries":
            disk.cut(OLD_REGISTER, 32)
        case "a flipped bit":
            disk.flip_bit(OLD_REGISTER, 100, 3)
        case _:
            disk.remove(CLAIM)
            disk.open(OLD_REGISTER).write(size, [b"torn"])
    for _ in range(2):
        async with mounted(disk) as again:
            stored = await opened(again)
            assert set(names(stored)[1]) < {"audit", "billing"} or damage == "torn"
            assert stored.groups.is_doubtful
            await stored.close()
    async with mounted(disk) as again:
        stored = await opened(again)
        await stored.write([group_record(stored.groups.mend(7))], NOW)
        await stored.close()
    async with mounted(disk) as again:
        assert not (await opened(again)).groups.is_doubtful


async def test_the_report_says_what_was_lost(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await of_an_earlier_version(volume, [*entries_of("billing"), GroupRegistry().make("audit", 7)])
    disk.flip_bit(OLD_REGISTER, 100, 3)
    stored = await opened(volume)
    assert any(f"{OLD_REGISTER} lost entries" in report for report in stored.reports)


@pytest.mark.parametrize("entry", [{"v": 2}, {"v": 1, "kind": "unheard", "group": "a"}, 7])
async def test_a_register_of_a_newer_goqueue_is_left_as_it_is_and_topics_go_on(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock, entry: RegistryEntry
) -> None:
    await of_an_earlier_version(volume, [*entries_of("billing"), entry])
    before = await contents(disk, OLD_REGISTER)
    for _ in range(2):
        stored = await opened(volume)
        assert stored.why_no_groups
        with pytest.raises(UnknownFormat, match="an entry of the groups"):
            _ = stored.groups
        await stored.write([stored.metadata.topics.alter_topic("orders", {"max_messages": 5})], NOW)
        for _ in range(6_000):
            await stored.write([stored.metadata.topics.sign_partitions("orders")], NOW)
        await stored.commit()
        await stored.claim(NOW)
        await stored.close()
    assert await contents(disk, OLD_REGISTER) == before, "a snapshot of the metadata does not end the wait for it"
    assert not disk.exists(KEPT)


async def test_without_room_for_the_import_no_group_can_be_used_and_the_next_start_tries_again(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await of_an_earlier_version(volume)
    leave_room(disk, 0)
    stored = await opened(volume)
    with pytest.raises(UnknownFormat, match="no room"):
        _ = stored.groups
    assert [topic.name for topic in stored.metadata.topics] == ["orders"]
    with suppress(DiskFull):
        await stored.close()
    leave_room(disk, 1_000_000)
    assert await names_on(disk) == (["orders"], ["audit", "billing"])


async def test_a_register_that_was_never_committed_is_taken_as_far_as_it_is_sound(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await of_an_earlier_version(volume)
    disk.rename(OLD_REGISTER, f"{OLD_REGISTER}.new")
    disk.remove(CLAIM)
    assert await names_on(disk) == (["orders"], ["audit", "billing"])
    assert disk.list("/data/groups") == ["registry.imported"]

"""The register of groups on disk: what was committed is there, damage is not passed over."""

import pytest
from trio.testing import MockClock

from goqueue.core.groups.settings import GroupSettings
from goqueue.errors import DiskFull, UnknownFormat
from goqueue.storage.journals.groups import StoredRegistry
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.journals.crashes import crashes_of, leave_room
from tests.storage.logs import mounted

PATH = "/data/groups/registry"


async def made(volume: Volume, *names: str) -> StoredRegistry:
    stored = await StoredRegistry.open(volume, "/data")
    for number, name in enumerate(names):
        stored.write(stored.registry.make(name, number))
    return stored


async def names_on(disk: SimulatedDisk) -> list[str]:
    async with mounted(disk) as volume:
        return [group.name for group in (await StoredRegistry.open(volume, "/data")).registry]


async def test_what_was_committed_survives_a_power_cut(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    stored = await made(volume, "billing", "audit")
    await stored.commit()
    stored.write(stored.registry.make("unsynced", 9))
    for image in crashes_of(disk):
        assert {"billing", "audit"} <= set(await names_on(image))
    assert await names_on(disk.kill()) == ["audit", "billing", "unsynced"]


async def test_it_stays_small_however_much_is_said(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    stored = await made(volume, "billing")
    for number in range(30_000):
        stored.write(stored.registry.reserve("billing", number))
        if stored.wants_compaction:
            await stored.compact()
    assert disk.size(PATH) < 1_200_000
    await stored.close()
    async with mounted(disk.crash()) as again:
        reopened = await StoredRegistry.open(again, "/data")
        assert reopened.registry.group("billing").generation == 29_999


async def test_a_compaction_does_not_follow_on_a_compaction(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Of a registry that is large by itself."""
    stored = await made(volume, *(f"group-{number}" for number in range(8_000)))
    for name in [group.name for group in stored.registry]:
        stored.write(stored.registry.fix(name, GroupSettings()))
    assert stored.wants_compaction
    await stored.compact()
    assert not stored.wants_compaction


async def test_on_a_full_disk_nothing_has_changed(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    stored = await made(volume, "billing")
    leave_room(disk, 0)
    with pytest.raises(DiskFull):
        stored.write(stored.registry.make("audit", 2))
    assert [group.name for group in stored.registry] == ["billing"]
    leave_room(disk, 100_000)
    stored.write(stored.registry.make("audit", 2))
    await stored.commit()
    assert await names_on(disk.crash()) == ["audit", "billing"]


async def test_what_is_sound_in_a_damaged_register_is_used_and_the_rest_is_reported(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13: the groups that it lacks are looked for in the ledgers."""
    stored = await made(volume, "billing")
    await stored.commit()
    middle = disk.size(PATH) - 10
    for entry in (stored.registry.make("audit", 2), stored.registry.fix("billing", GroupSettings())):
        stored.write(entry)
    await stored.commit()
    await stored.close()
    file = disk.open(PATH)
    file.write(middle, [bytes([255 - (await file.read(middle, 1))[0]])])
    async with mounted(disk) as again:
        stored = await StoredRegistry.open(again, "/data")
        assert [group.name for group in stored.registry] == ["audit"]
        assert any("lost entries 1 to 1" in report for report in stored.reports)
        assert any("1 entries of /data/groups/registry" in report for report in stored.reports)
        await stored.compact()
    assert await names_on(disk) == ["audit"]


@pytest.mark.parametrize("damage", ["cut to nothing", "removed", "cut between entries"])
async def test_a_register_that_lost_its_end_says_so(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock, damage: str
) -> None:
    """G13"""
    stored = await made(volume)
    await stored.commit()
    size = disk.size(PATH)
    stored.write(stored.registry.make("billing", 7))
    await stored.commit()
    stored.claim()
    if damage == "removed":
        disk.remove(PATH)
    else:
        disk.cut(PATH, 0 if damage == "cut to nothing" else size)
    async with mounted(disk.kill()) as again:
        stored = await StoredRegistry.open(again, "/data")
        assert list(stored.registry) == []
        assert any("lost entries" in report for report in stored.reports)


async def test_an_entry_of_a_newer_goqueue_stops_the_start(
    volume: Volume, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    stored = await made(volume, "billing")
    stored._journal.append([b"\x81\xa1v\x02"])
    await stored.commit()
    async with mounted(disk.kill()) as again:
        with pytest.raises(UnknownFormat, match="goqueue that knows"):
            await StoredRegistry.open(again, "/data")

"""The groups of a node: durable before anybody is answered, found again after a crash, removed whole."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delivery.requests import AttachGroup, ForgetGroup, LedgerHolder
from goqueue.actors.groups.group import GENERATIONS_RESERVED
from goqueue.actors.groups.requests import Alter, FindGroup, Leave, RemoveGroup
from goqueue.errors import (
    DiskFull,
    GroupConflict,
    InvalidName,
    PartitionUnavailable,
    Unavailable,
    UnknownFormat,
    UnknownGroup,
    UnknownMember,
)
from goqueue.testing.disk import SimulatedDisk
from tests.actors.groups.groupstage import description, group_names, heartbeat, join, on_stage, parts
from tests.storage.journals.crashes import leave_room
from tests.storage.oldregister import OLD_REGISTER, as_before_the_import


def holder_of(attached: AttachGroup) -> LedgerHolder:
    """As the partition's ledgers name the group from then on."""
    return LedgerHolder(attached.group, attached.group_id, attached.settings, attached.group_settings)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_a_group_that_answered_is_there_after_a_power_cut(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        held = await (await stage.group()).call(join("ann", "orders", max_deliveries=8, start="latest"))
        image = disk.crash()
    before = stage.script.of(AttachGroup)[0][1]
    stage.script.heard.clear()
    async with on_stage(image, stage) as after:
        assert await group_names(after.groups) == ["billing"]
        group = await after.groups.call(FindGroup("billing"))
        with pytest.raises(UnknownMember, match="join again"):
            await group.call(heartbeat(held))
        again = await group.call(join("ann", "orders", max_deliveries=8))
        assert again.generation > held.generation
        assert parts(again) == parts(held)
        for _, attached in stage.script.of(AttachGroup):
            assert (attached.group_id, attached.start) == (before.group_id, "latest")
        with pytest.raises(GroupConflict):
            await group.call(join("bob", "orders", max_deliveries=3))


async def test_a_generation_is_never_given_out_twice_whatever_crashes(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        given = set()
        syncs = disk.counts.syncs
        for _ in range(GENERATIONS_RESERVED // 2 + 10):
            given.add((await group.call(join("ann", "orders"))).generation)
            await group.call(Leave("ann"))
        assert disk.counts.syncs - syncs < 20, "they are reserved in blocks"
        image = disk.crash()
    async with on_stage(image, stage) as after:
        held = await (await after.group()).call(join("ann", "orders"))
        assert held.generation > max(given)


async def test_settings_outlive_members_and_restarts(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await group.call(Leave("ann"))
        await group.call(Alter({"max_deliveries": 12}, force=False))
    async with on_stage(disk, stage) as after:
        group = await after.group()
        assert (await description(group)).settings["max_deliveries"] == 12
        with pytest.raises(GroupConflict):
            await group.call(join("ann", "orders", max_deliveries=3))
        await group.call(join("ann", "orders"))  # what is left out is as the group has it
        assert (await description(group)).settings["max_deliveries"] == 12


async def test_a_group_without_members_is_attached_again_after_a_restart(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Its dead letters may have been under way."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        await (await stage.group()).call(join("ann", "orders"))
    stage.script.heard.clear()
    async with on_stage(disk, stage):
        await trio.sleep(1)
        assert sorted(place for place, _ in stage.script.of(AttachGroup)) == [("orders", 0), ("orders", 1)]


async def test_a_group_that_nobody_joined_is_forgotten_at_the_next_start(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.group("unused")
    async with on_stage(disk, stage) as after:
        assert await group_names(after.groups) == []


@pytest.mark.parametrize("name", ["", "..", "a/b", "__redrive", "x" * 197])
async def test_a_bad_name_makes_no_group(disk: SimulatedDisk, autojump_clock: MockClock, name: str) -> None:
    async with on_stage(disk) as stage:
        with pytest.raises(InvalidName):
            await stage.group(name)
        with pytest.raises(UnknownGroup):
            await stage.groups.call(FindGroup(name))


async def test_a_group_with_members_is_not_removed(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        held = await group.call(join("ann", "orders"))
        with pytest.raises(GroupConflict):
            await stage.groups.call(RemoveGroup("billing"))
        assert await group.call(heartbeat(held, 0.1)) == held
        with pytest.raises(UnknownGroup):
            await stage.groups.call(RemoveGroup("missing"))


async def test_a_removed_group_is_forgotten_everywhere_and_begins_anew(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await trio.sleep(6)
        assert disk.exists("/data/offsets/billing/offsets.json")
        await group.call(Leave("ann"))
        await stage.groups.call(RemoveGroup("billing"))
        assert sorted(place for place, _ in stage.script.of(ForgetGroup)) == [("orders", 0), ("orders", 1)]
        assert not disk.exists("/data/offsets/billing")
        assert await group_names(stage.groups) == []
        image = disk.crash()
        await (await stage.group()).call(join("ann", "orders"))
        ids = {attached.group_id for _, attached in stage.script.of(AttachGroup)}
        assert len(ids) == 2
    stage.script.heard.clear()
    async with on_stage(image, stage) as after:
        assert await group_names(after.groups) == []
        assert stage.script.of(ForgetGroup) == [], "they have forgotten it already"


async def test_a_partition_that_was_down_forgets_a_removed_group_at_the_next_start(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await group.call(Leave("ann"))
        stage.script.refusing["orders", 1] = PartitionUnavailable("it cannot be opened")
        await stage.groups.call(RemoveGroup("billing"))
        assert [place for place, _ in stage.script.of(ForgetGroup)] == [("orders", 0)]
        image = disk.crash()
    stage.script.refusing.clear()
    async with on_stage(image, stage):
        assert ("orders", 1) in [place for place, _ in stage.script.of(ForgetGroup)]


async def test_what_was_removed_is_forgotten_by_its_id_once_its_name_is_in_use(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Else the partition would forget the new one; and the old one's ledger would come back as a group."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await group.call(Leave("ann"))
        stage.script.refusing["orders", 0] = PartitionUnavailable("it cannot be opened")
        await stage.groups.call(RemoveGroup("billing"))
        stage.script.refusing.clear()
        await (await stage.group()).call(join("ann", "orders"))
    async with on_stage(disk, stage) as after:
        [(_, forgotten)] = stage.script.of(ForgetGroup)
        ids = [attached.group_id for _, attached in stage.script.of(AttachGroup)]
        assert forgotten.group_id == ids[0] != ids[-1]
        assert await group_names(after.groups) == ["billing"]


async def test_on_a_full_disk_a_join_is_refused_and_works_again_later(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G14"""
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        leave_room(disk, 0)
        with pytest.raises(DiskFull):
            await group.call(join("ann", "orders"))
        assert (await description(group)).members == ()
        leave_room(disk, 1_000_000)
        held = await group.call(join("ann", "orders"))
        assert (parts(held), stage.script.owner("orders", 0)) == ([("orders", 0)], "ann")


async def test_on_a_full_disk_settings_stay_as_they_were(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G14"""
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        before = await description(group)
        leave_room(disk, 0)
        with pytest.raises(DiskFull):
            await group.call(Alter({"mode": "stream"}, force=True))
        after = await description(group)
        assert (after.settings, len(after.members)) == (before.settings, 1)
        leave_room(disk, 1_000_000)
        await group.call(Alter({"mode": "stream"}, force=True))
        altered = await description(group)
        assert (altered.settings["mode"], altered.members) == ("stream", ())


async def test_a_topic_that_the_register_had_no_room_for_is_read_once_it_has(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        await stage.create("returns", 1)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        leave_room(disk, 0)
        with pytest.raises(Unavailable):  # told otherwise, it would miss what is published meanwhile (G5)
            await group.call(join("ann", "orders", "returns", start="latest"))
        assert stage.script.owner("returns", 0) is None
        leave_room(disk, 1_000_000)
        await trio.sleep(3)
        assert ("returns", 0) in parts(await group.call(join("ann", "orders", "returns", start="latest")))
        [attached] = [each for place, each in stage.script.of(AttachGroup) if place == ("returns", 0)]
        assert (attached.member, attached.start) == ("ann", "latest")


async def flip_byte(disk: SimulatedDisk, path: str, position: int) -> None:
    file = disk.open(path)
    file.write(position, [bytes([255 - (await file.read(position, 1))[0]])])


async def test_a_group_that_a_damaged_register_lost_is_adopted_from_the_ledgers(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """G13: made again under another id, a group's progress would count for nothing."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        held = await (await stage.group()).call(join("ann", "orders", max_deliveries=8))
    [before, _] = [attached for _, attached in stage.script.of(AttachGroup)][:2]
    await as_before_the_import(disk)
    await flip_byte(disk, OLD_REGISTER, 40)
    stage.script.ledgers = {("orders", number): (holder_of(before),) for number in range(2)}
    stage.script.heard.clear()
    async with on_stage(disk, stage) as after:
        assert await group_names(after.groups) == ["billing"]
        group = await after.groups.call(FindGroup("billing"))
        again = await group.call(join("ann", "orders", max_deliveries=8, start="latest"))
        assert again.generation > held.generation
        attached = [attached for _, attached in stage.script.of(AttachGroup)]
        assert {each.group_id for each in attached} == {before.group_id}
        assert all(each.is_expected for each in attached)
    texts = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert any(text.startswith("adopted group billing") for text in texts)
    assert any("/data/groups/registry lost entries" in text for text in texts)
    stage.script.ledgers.clear()
    caplog.clear()
    async with on_stage(disk, stage) as after:
        assert await group_names(after.groups) == ["billing"], "it is in the register again"
    assert not [text for text in caplog.messages if "lost" in text]


async def test_a_group_that_was_deleted_does_not_come_back(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Its ledger is there still: the partition was down when the group was deleted, and is again."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        await (await stage.group()).call(join("ann", "orders"))
        await (await stage.group()).call(Leave("ann"))
        stage.script.refusing["orders", 0] = PartitionUnavailable("it cannot be opened")
        await stage.groups.call(RemoveGroup("billing"))
        stage.script.refusing.clear()
    [(_, attached), *_] = stage.script.of(AttachGroup)
    stage.script.ledgers["orders", 0] = (holder_of(attached),)
    async with on_stage(disk, stage) as after:
        assert await group_names(after.groups) == []


async def test_a_partition_is_told_once_that_its_ledger_is_expected(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """The register knows which partitions have the group's ledger durably: there a missing one was lost."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        stage.script.refusing["orders", 1] = PartitionUnavailable("it cannot be opened")
        await (await stage.group()).call(join("ann", "orders"))
        await trio.sleep(3)
    first = stage.script.of(AttachGroup)
    assert [attached.is_expected for _, attached in first] == [False]
    stage.script.refusing.clear()
    stage.script.heard.clear()
    async with on_stage(disk.crash(), stage):
        await trio.sleep(3)
    expected = {place: attached.is_expected for place, attached in stage.script.of(AttachGroup)}
    assert expected == {("orders", 0): True, ("orders", 1): False}


async def test_a_register_of_a_newer_version_refuses_groups_and_nothing_else_and_is_left_as_it_is(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        await (await stage.group()).call(join("ann", "orders"))
    await as_before_the_import(disk, more=[{"v": 2, "kind": "new"}])
    file = disk.open(OLD_REGISTER)
    before = await file.read(0, disk.size(file.path))
    async with on_stage(disk, stage) as after:
        for request in (FindGroup("billing"), FindGroup("new", create=True), RemoveGroup("billing")):
            with pytest.raises(UnknownFormat, match="goqueue that knows"):
                await after.groups.call(request)
    assert await file.read(0, disk.size(file.path)) == before

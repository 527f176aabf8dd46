"""`offsets.json`: what people see of a group's progress, in time and at little cost."""

import json
from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delivery.requests import AssignPartition
from goqueue.actors.groups.requests import (
    CommitFromOutside,
    FindGroup,
    Leave,
    OutsideCommit,
    RemoveGroup,
    ResetOffsets,
)
from goqueue.actors.partition.requests import Maintain, Produce
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import encode_record
from goqueue.errors import ActorDied
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker
from tests.actors.groups.groupstage import Stage, join, on_stage
from tests.actors.groups.groupworld import consumer, create, described, partition_of

PATH = "/data/offsets/billing/offsets.json"
IN_TIME = 5.1


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def shown(disk: SimulatedDisk) -> dict[str, int]:
    """Of topic orders."""
    file = json.loads(await disk.open(PATH).read(0, disk.size(PATH)))
    assert file["group"] == "billing"
    offsets: dict[str, int] = file["offsets"]["orders"]
    return offsets


async def commit(stage: Stage, number: int, offset: int) -> None:
    """As a member does: a ledger of the partition changes."""
    stage.script.committed["orders", number] = offset
    await stage.refs[stage.topics["orders"].uuid, number].call(AssignPartition("others", None, 0))


async def test_people_are_shown_the_committed_offsets(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        await (await stage.group()).call(join("ann", "orders", static=True, session=600))
        await commit(stage, 0, 7)
        await trio.sleep(IN_TIME)
        assert await shown(disk) == {"0": 7, "1": 0}
        asked, synced = len(stage.script.heard), disk.counts.syncs
        await trio.sleep(60)
        assert (len(stage.script.heard), disk.counts.syncs) == (asked, synced), "nothing has moved"
        await commit(stage, 0, 9)
        await trio.sleep(IN_TIME)
        assert await shown(disk) == {"0": 9, "1": 0}


async def test_what_a_short_lived_consumer_did_is_shown(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await commit(stage, 0, 7)
        await group.call(Leave("ann"))
        await trio.sleep(IN_TIME)
        assert await shown(disk) == {"0": 7}


async def test_a_consumers_last_words_are_shown_when_it_has_left(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await commit(stage, 0, 7)
        await trio.sleep(6)
        await commit(stage, 0, 9)
        await group.call(Leave("ann"))
        await trio.sleep(IN_TIME)
        assert await shown(disk) == {"0": 9}


async def test_what_is_done_to_a_group_that_nobody_is_in_is_shown(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await trio.sleep(17)
        stage.script.committed["orders", 0] = 5
        await group.call(CommitFromOutside((OutsideCommit(stage.topics["orders"].uuid, 0, 5),)))
        await trio.sleep(IN_TIME)
        assert await shown(disk) == {"0": 5}
        await trio.sleep(300)
        await group.call(ResetOffsets(None, None, "offset:50", dry_run=False, force=False))
        await trio.sleep(IN_TIME)
        assert await shown(disk) == {"0": 50}


async def test_what_an_expelled_member_settles_is_shown(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Its leases go on for a while."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders", session=6))
        await trio.sleep(30)
        await commit(stage, 0, 7)
        await trio.sleep(IN_TIME)
        assert await shown(disk) == {"0": 7}


async def test_an_orderly_stop_shows_what_has_changed(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        await (await stage.group()).call(join("ann", "orders"))
        await commit(stage, 0, 7)
        stopped_at = trio.current_time()
    assert await shown(disk) == {"0": 7, "1": 0}
    assert trio.current_time() < stopped_at + 1


async def test_a_stop_does_not_wait_long_for_what_is_only_to_be_looked_at(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 200)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await group.call(Leave("ann"))
        stage.script.hanging.update(("orders", number) for number in range(200))
        await stage.groups.call(RemoveGroup("billing"))
        assert "did not stop in time" not in caplog.text
        stage.script.hanging.clear()


async def test_groups_that_nobody_uses_ask_nothing_and_write_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Least of all because of each other."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 3)
        for name in ("billing", "shipping", "statistics"):
            group = await stage.group(name)
            await group.call(join("ann", "orders"))
            await group.call(Leave("ann"))
            await trio.sleep(1)
        await trio.sleep(120)
        stage.script.heard.clear()
        stage.script.looks.clear()
        synced = disk.counts.syncs
        await trio.sleep(3_600)
        assert (stage.script.heard, stage.script.looks, disk.counts.syncs) == ([], [], synced)


async def test_what_changes_without_members_is_shown_in_time(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Leases end, and dead letters arrive, long after the last member left."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await group.call(Leave("ann"))
        await trio.sleep(3_600)
        await commit(stage, 0, 7)
        await trio.sleep(IN_TIME)
        assert await shown(disk) == {"0": 7}


async def test_partitions_that_are_busy_for_other_groups_are_not_looked_at(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A look goes through all partitions of a group: without a hint of its own a group is spared it."""
    async with broker(disk) as running:
        await create(running, "orders")
        ann = await consumer(running, "orders")
        await consumer(running, "orders", group="idle")
        partition = await partition_of(running, "orders")
        idle = await running.groups.call(FindGroup("idle"))
        busy = await running.groups.call(FindGroup("billing"))
        await partition.call(Produce(encode_record(0, 1, b"one"), 1))
        hints, hints_of_busy = idle.counts.hints, busy.counts.hints
        await ann.settle("orders", 0, await ann.take("orders"), Action.ACK)
        assert idle.counts.hints == hints
        assert busy.counts.hints > hints_of_busy


async def test_a_topic_that_is_made_again_is_shown_anew(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        await (await stage.group()).call(join("ann", "orders", static=True, session=600))
        await commit(stage, 0, 7)
        await trio.sleep(6)
        assert await shown(disk) == {"0": 7}
        await stage.delete("orders")
        await stage.create("orders", 1)
        await commit(stage, 0, 0)
        await trio.sleep(6)
        assert await shown(disk) == {"0": 0}


async def test_a_partition_that_is_down_keeps_its_offset_until_it_is_back(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        await group.call(join("ann", "orders", static=True, session=600))
        await commit(stage, 1, 4)
        await trio.sleep(IN_TIME)
        ref = stage.refs[stage.topics["orders"].uuid, 1]
        ref._mailbox.board = None
        stage.script.committed["orders", 1] = 5
        await commit(stage, 0, 3)
        await trio.sleep(IN_TIME)
        assert await shown(disk) == {"0": 3, "1": 4}
        stage.script.crashing.add(("orders", 1))
        with pytest.raises(ActorDied):
            await commit(stage, 1, 6)
        await trio.sleep(2 + IN_TIME)
        assert await shown(disk) == {"0": 3, "1": 6}


async def test_a_partition_hints_at_entries_of_a_ledger_and_at_nothing_else(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        ann = await consumer(running, "orders")
        partition, group = await partition_of(running, "orders"), await running.groups.call(FindGroup("billing"))
        before = group.counts.hints
        await partition.call(Produce(encode_record(0, 1, b"one"), 1))
        await described(running)
        await partition.call(Maintain(compact=False))
        assert group.counts.hints == before
        taken = await ann.take("orders")
        held = group.counts.hints
        await ann.settle("orders", 0, taken, Action.ACK)
        assert before < held < group.counts.hints

"""A group and its partitions: some are down, are started again, come later or go."""

from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import AttachGroup, ListLedgers
from goqueue.actors.groups.attachments import Attachment
from goqueue.actors.groups.requests import Alter, Leave, ResetOffsets
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.errors import (
    ActorDied,
    GroupConflict,
    InvalidConfig,
    PartitionUnavailable,
    Unavailable,
    UnknownMember,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.testing.disk import SimulatedDisk
from tests.actors.groups.groupstage import Stage, description, heartbeat, join, on_stage, parts
from tests.actors.runtime.troupe import start_call


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


def attached(stage: Stage, topic: str, number: int) -> list[AttachGroup]:
    return [message for place, message in stage.script.of(AttachGroup) if place == (topic, number)]


# Trouble


async def test_a_partition_that_hangs_does_not_hang_the_group(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 3)
        stage.script.hanging.add(("orders", 1))
        group = await stage.group()
        begin = trio.current_time()
        ann = await group.call(join("ann", "orders"))
        assert trio.current_time() - begin < 1
        assert stage.script.owner("orders", 0) == stage.script.owner("orders", 2) == "ann"
        begin = trio.current_time()
        await group.call(join("bob", "orders", connection=2))
        assert trio.current_time() == begin, "nobody waits for it a second time"
        assert len(ann.assignment) == 3


async def test_many_partitions_that_take_long_are_one_line_in_the_log(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A first group over many partitions has a journal made in each of them, which may take a slow disk seconds."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 200)
        stage.script.hanging.update(("orders", number) for number in range(1, 200))
        group = await stage.group()
        ann = await group.call(join("ann", "orders"))
        for _ in range(10):
            ann = await group.call(heartbeat(ann))
        lines = [line for line in caplog.messages if "cannot reach" in line]
        assert len(lines) == 1
        assert lines[0].startswith("group billing cannot reach partition 1 of orders and 198 more: ")


async def test_a_partition_that_refuses_is_tried_again(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """A consumer alive, connected and silently receiving nothing."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        stage.script.refusing["orders", 1] = PartitionUnavailable("it cannot be opened")
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await trio.sleep(5)
        assert stage.script.owner("orders", 1) is None
        stage.script.refusing.clear()
        await trio.sleep(2)
        assert stage.script.owner("orders", 1) == "ann"


async def test_partitions_that_cannot_be_found_are_looked_for_again(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """They are looked for all at once: so one failure is the failure of each."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 3)
        stage.script.nothing_found = Unavailable("the topics are being opened")
        group = await stage.group()
        ann = await group.call(join("ann", "orders"))
        assert len(ann.assignment) == 3
        await trio.sleep(5)
        assert attached(stage, "orders", 0) == []
        [line] = [line for line in caplog.messages if "cannot reach" in line]
        assert line.startswith(
            "group billing cannot reach partition 0 of orders and 2 more: the topics are being opened"
        )
        stage.script.nothing_found = None
        await trio.sleep(2)
        assert {stage.script.owner("orders", number) for number in range(3)} == {"ann"}


async def test_topics_that_hang_do_not_hang_the_group(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 3)
        group = await stage.group()
        stage.script.finding_hangs = True
        begin = trio.current_time()
        ann = await group.call(join("ann", "orders"))
        assert trio.current_time() - begin < 1
        assert len(ann.assignment) == 3


async def test_a_group_without_members_looks_at_no_partition_until_one_is_started_again(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, is_settled = list[str](), vars(Attachment)["is_settled"].fget

    def counting(attachment: Attachment) -> bool:
        looks.append(attachment.topic.name)
        return bool(is_settled(attachment))

    async with on_stage(disk) as stage:
        await stage.create("orders", 20)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        await group.call(Leave("ann"))
        await trio.sleep(120)
        monkeypatch.setattr(Attachment, "is_settled", property(counting))
        await trio.sleep(3_600)
        assert not looks
        before = len(attached(stage, "orders", 7))
        stage.script.crashing.add(("orders", 7))
        with pytest.raises(ActorDied):
            await stage.refs[stage.topics["orders"].uuid, 7].call(ListLedgers())
        await trio.sleep(60)
        assert len(attached(stage, "orders", 7)) == before + 1
        assert looks
        await trio.sleep(120)
        looks.clear()
        await trio.sleep(3_600)
        assert not looks, "it rests again"


async def test_a_partition_that_was_started_again_is_told_everything_anew(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        held = await group.call(join("ann", "orders"))
        stage.script.crashing.add(("orders", 0))
        with pytest.raises(ActorDied):
            await stage.refs[stage.topics["orders"].uuid, 0].call(ListLedgers())
        await trio.sleep(2)
        assert len(attached(stage, "orders", 0)) == 2
        assert attached(stage, "orders", 0)[-1].generation == held.generation
        assert len(attached(stage, "orders", 1)) == 1


async def test_the_newest_owner_wins_after_trouble(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        stage.script.refusing = {("orders", 0): PartitionUnavailable("x"), ("orders", 1): PartitionUnavailable("x")}
        bob = await group.call(join("bob", "orders", connection=2))
        stage.script.refusing.clear()
        await trio.sleep(3)
        [place] = parts(bob)
        assert stage.script.owner(*place) == "bob"


async def test_a_group_that_rested_tells_its_partitions_again_after_trouble(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Neither a new owner nor new settings are lost on a partition that refused just then."""
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        await group.call(join("ann", "orders", session=600, static=True))
        await trio.sleep(5)
        stage.script.refusing = {("orders", 0): PartitionUnavailable("x")}
        await group.call(Leave("ann"))
        await group.call(join("bob", "orders", connection=2, session=600, static=True))
        stage.script.refusing.clear()
        await trio.sleep(3)
        assert stage.script.owner("orders", 0) == "bob"
        await trio.sleep(5)
        stage.script.refusing = {("orders", 0): PartitionUnavailable("x")}
        await group.call(Alter({"max_deliveries": 7}, force=True))
        stage.script.refusing.clear()
        await trio.sleep(3)
        assert attached(stage, "orders", 0)[-1].settings.max_deliveries == 7


# Topics


async def test_a_topic_made_later_is_read_from_its_beginning(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: it was all published after the group began, whatever the group said of its start."""
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders-eu", 1)
        group = await stage.group()
        held = await group.call(join("ann", "orders-*", start="latest"))
        waiting = start_call(nursery, group, heartbeat(held))
        await stage.create("orders-us", 2)
        await trio.sleep(1)
        assert parts(waiting.answer) == [("orders-eu", 0), ("orders-us", 0), ("orders-us", 1)]
        assert attached(stage, "orders-eu", 0)[0].start == "latest"
        assert {each.start for number in range(2) for each in attached(stage, "orders-us", number)} == {"earliest"}


async def test_partitions_added_later_begin_at_their_beginning(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        held = await group.call(join("ann", "orders", start="latest"))
        await stage.grow("orders", 3)
        held = await group.call(heartbeat(held))
        assert len(held.assignment) == 3
        assert [attached(stage, "orders", number)[0].start for number in range(3)] == [
            "latest",
            "earliest",
            "earliest",
        ]


async def test_members_are_told_when_their_topic_is_deleted_and_begin_anew_when_it_is_made_again(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        await stage.create("returns", 1)
        group = await stage.group()
        held = await group.call(join("ann", "orders", "returns", start="offset:5"))
        first = stage.topics["orders"].uuid
        await stage.delete("orders")
        held = await group.call(heartbeat(held))
        assert parts(held) == [("returns", 0)]
        await stage.create("orders", 2)
        held = await group.call(heartbeat(held))
        assert parts(held) == [("orders", 0), ("orders", 1), ("returns", 0)]
        assert held.assignment[0].uuid == stage.topics["orders"].uuid.bytes != first.bytes
        assert attached(stage, "orders", 1)[-1].start == "earliest"


async def test_a_topic_made_again_in_one_breath_is_another_topic(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 1)
        group = await stage.group()
        held = await group.call(join("ann", "orders"))
        watchers, stage.watchers = stage.watchers, []
        await stage.delete("orders")
        stage.watchers = watchers
        await stage.create("orders", 1)
        await trio.sleep(1)
        held = await group.call(heartbeat(held))
        assert [each.uuid for each in held.assignment] == [stage.topics["orders"].uuid.bytes]
        assert len(attached(stage, "orders", 0)) == 2
        assert stage.script.owner("orders", 0) == "ann"


async def test_dead_letters_have_no_dead_letters(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders.dlq", 1)
        await stage.create("orders", 1)
        await (await stage.group()).call(join("ann", "orders", "orders.dlq", max_deliveries=5))
        assert attached(stage, "orders.dlq", 0)[0].settings == LedgerSettings(0, has_dead_letters=False)
        assert attached(stage, "orders", 0)[0].settings == LedgerSettings(5)


# Operators


async def test_other_settings_reach_every_partition(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        held = await group.call(join("ann", "orders"))
        with pytest.raises(GroupConflict):
            await group.call(Alter({"max_deliveries": 9}, force=False))
        with pytest.raises(InvalidConfig):
            await group.call(Alter({"max_delivery": 9}, force=True))
        with pytest.raises(InvalidConfig, match="true or false"):
            await group.call(Alter({"key_order": "perhaps"}, force=True))
        assert len(attached(stage, "orders", 0)) == 1
        await group.call(Alter({"max_deliveries": 9}, force=True))
        assert (await description(group)).settings["max_deliveries"] == 9
        for number in range(2):
            last = attached(stage, "orders", number)[-1]
            assert (last.settings.max_deliveries, last.member) == (9, "ann")
        assert (await group.call(heartbeat(held, 0.1))).settings["max_deliveries"] == 9


async def test_members_that_read_in_another_manner_now_have_to_join_anew(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders", 2)
        group = await stage.group()
        waiting = start_call(nursery, group, heartbeat(await group.call(join("ann", "orders"))))
        await wait_all_tasks_blocked()
        await group.call(Alter({"shared": True}, force=True))
        await wait_all_tasks_blocked()
        assert isinstance(waiting.error, UnknownMember)
        assert attached(stage, "orders", 0)[-1].is_shared
        assert stage.script.owner("orders", 0) is None


async def test_a_group_is_described_with_all_its_partitions(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        stage.script.committed["orders", 0] = 40
        group = await stage.group()
        held = await group.call(join("ann", "orders"))
        await trio.sleep(2)
        stage.script.refusing["orders", 1] = PartitionUnavailable("it cannot be opened")
        told = await description(group)
        assert (told.name, told.state, told.generation) == ("billing", "stable", held.generation)
        [ann] = told.members
        assert (ann.member, ann.subscription, ann.assignment) == ("ann", ("orders",), held.assignment)
        assert 2_000 <= ann.member_for_ms == ann.silent_for_ms < 2_100
        good, bad = told.partitions
        assert (good.topic, good.partition, good.member) == ("orders", 0, "ann")
        assert (good.committed, good.end, good.lag, good.in_flight) == (40, 100, 60, 1)
        assert (good.waiting, good.leaving, good.removed_unacked, good.oldest_unacked_ms) == (2, 4, 5, 7)
        assert bad.error is not None
        assert (bad.partition, bad.error.code) == (1, "partition_unavailable")


async def test_a_description_does_not_wait_for_a_partition_that_hangs(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        stage.script.hanging.add(("orders", 0))
        begin = trio.current_time()
        told = await description(group)
        assert trio.current_time() < begin + 3
        assert [each.error is None for each in told.partitions] == [False, True]


async def test_a_reset_is_for_groups_without_members(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with on_stage(disk) as stage:
        await stage.create("orders", 2)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        with pytest.raises(GroupConflict, match=r"force=True, --force"):
            await group.call(ResetOffsets(None, None, "earliest", dry_run=False, force=False))
        with pytest.raises(InvalidConfig):
            await group.call(ResetOffsets(None, None, "whenever", dry_run=False, force=True))
        with pytest.raises(UnknownTopic):
            await group.call(ResetOffsets("returns", None, "earliest", dry_run=False, force=True))
        with pytest.raises(UnknownPartition):
            await group.call(ResetOffsets("orders", 2, "earliest", dry_run=False, force=True))
        told = await group.call(ResetOffsets("orders", None, "offset:50", dry_run=True, force=False))
        assert told == (("orders", 0, 0, 50), ("orders", 1, 0, 50))
        assert stage.script.committed == {}
        told = await group.call(ResetOffsets("orders", 1, "offset:50", dry_run=False, force=True))
        assert (told, stage.script.committed) == ((("orders", 1, 0, 50),), {("orders", 1): 50})

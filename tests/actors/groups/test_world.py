"""Groups and real partitions together: what a member does in a day, with crashes in between."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.groups.requests import (
    AwaitMembership,
    FindGroup,
    Leave,
    RemoveGroup,
    ResetOffsets,
)
from goqueue.actors.topics.requests import AddPartitions, DeleteTopic
from goqueue.core.groups.views import MovedOffset
from goqueue.core.ledger.settlements import Action
from goqueue.errors import StaleGeneration, UnknownMember
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker
from tests.actors.groups.groupworld import Consumer, consumer, create, described, partition_of, patience
from tests.actors.partition.test_partition import publish


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def handed_out(who: Consumer, topic: str = "orders", number: int = 0) -> list[int]:
    taken = await who.take(topic, number)
    return [offset for run in taken.runs for offset in range(run.first, run.last + 1)]


async def test_the_first_delivery_comes_within_a_second_of_joining(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders", 3)
        for number in range(3):
            await (await partition_of(running, "orders", number)).call(publish(b"a"))
        begin = trio.current_time()
        who = await consumer(running, "orders")
        for number in range(3):
            assert await handed_out(who, number=number) == [0]
        assert trio.current_time() - begin < 1


async def test_receipts_and_progress_stand_after_a_kill(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """The member comes back under its id, and settles what it was handed before."""
    async with broker(disk) as running:
        await create(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"a", b"b", b"c"))
        who = await consumer(running, "orders")
        done = await who.take("orders", count=1)
        await who.settle("orders", 0, done, Action.ACK)
        held = await who.take("orders", count=1)
        image = disk.kill()
    async with broker(image) as after:
        group = await after.groups.call(FindGroup("billing"))
        old = who.held
        with pytest.raises(UnknownMember):
            await group.call(AwaitMembership(old.member, old.generation, trio.current_time() + 1, 2))
        who = await consumer(after, "orders")
        assert who.held.generation > old.generation
        await who.settle("orders", 0, held, Action.ACK)
        assert await handed_out(who) == [2]
        [view] = (await described(after)).partitions
        assert (view.committed, view.in_flight, view.member) == (2, 1, "ann")


async def test_only_the_owner_takes(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G10: stale generation accepted on poll."""
    async with broker(disk) as running:
        await create(running, "orders", 2)
        for number in range(2):
            await (await partition_of(running, "orders", number)).call(publish(b"a"))
        ann = await consumer(running, "orders")
        bob = await consumer(running, "orders", member="bob")
        [lost] = [each.partition for each in bob.held.assignment]
        with pytest.raises(StaleGeneration):
            await ann.take("orders", lost)
        assert await handed_out(bob, number=lost) == [0]
        assert await handed_out(ann, number=1 - lost) == [0], "what does not move does not pause"


async def test_who_leaves_gives_back_what_it_held_uncounted(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"a", b"b"))
        ann = await consumer(running, "orders")
        assert await handed_out(ann) == [0, 1]
        await (await running.groups.call(FindGroup("billing"))).call(Leave("ann"))
        bob = await consumer(running, "orders", member="bob")
        taken = await bob.take("orders")
        assert [(run.first, run.last, run.attempt) for run in taken.runs] == [(0, 1, 1)]


async def test_a_group_that_was_removed_begins_anew(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"a"))
        who = await consumer(running, "orders")
        await who.settle("orders", 0, await who.take("orders"), Action.ACK)
        await (await running.groups.call(FindGroup("billing"))).call(Leave("ann"))
        await running.groups.call(RemoveGroup("billing"))
        assert await handed_out(await consumer(running, "orders")) == [0]


async def test_a_topic_made_again_begins_anew(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"a", b"b"))
        who = await consumer(running, "orders")
        await who.settle("orders", 0, await who.take("orders"), Action.ACK)
        await running.topics.call(DeleteTopic("orders"))
        await create(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"c"))
        await patience()
        who = await consumer(running, "orders")
        assert await handed_out(who) == [0]
        [view] = (await described(running)).partitions
        assert (view.committed, view.end) == (0, 1)


async def test_partitions_that_are_added_are_read_from_their_beginning(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await consumer(running, "orders")
        await running.topics.call(AddPartitions("orders", 2))
        await (await partition_of(running, "orders", 1)).call(publish(b"a"))
        await patience()
        assert await handed_out(await consumer(running, "orders"), number=1) == [0]


async def test_a_reset_goes_back(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"a", b"b", b"c"))
        who = await consumer(running, "orders")
        await who.settle("orders", 0, await who.take("orders"), Action.ACK)
        group = await running.groups.call(FindGroup("billing"))
        told = await group.call(ResetOffsets("orders", 0, "offset:1", dry_run=False, force=True))
        assert told == (MovedOffset("orders", 0, 3, 1),)
        assert await handed_out(who) == [1, 2]

"""What a partition shows of its groups without being asked."""

from random import Random
from uuid import UUID

import pytest
from trio.testing import MockClock

from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.groups.attachments import Attachment
from goqueue.actors.groups.description import Found, look_at_each
from goqueue.actors.partition.board import PartitionBoard
from goqueue.actors.partition.requests import DeleteBefore
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.registry import SeenTopic
from goqueue.errors import GoQueueError
from goqueue.storage.slices import Slices
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, OTHER, Desk, desk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


def board_of(there: Desk) -> LedgerBoard:
    board = there.ref.board
    assert isinstance(board, PartitionBoard)
    return board.ledgers


async def looked_at(ref: ActorRef) -> Found:
    place = Attachment(SeenTopic("orders", UUID(int=1), 1, "earliest"), 0, ref)
    return (await look_at_each([place], GROUP, Slices()))[TopicPartition("orders", 0)]


async def test_a_group_at_rest_looks_as_it_does_when_the_partition_is_asked(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        board = board_of(there)
        assert board.at_rest(GROUP) == await there.view()
        await there.publish(b"a", b"b", lanes=[0, 3])
        assert board.at_rest(GROUP) is None, "it has something before it"
        taken = await there.take()
        assert board.at_rest(GROUP) is None, "it has something in hand"
        await there.settle(taken)
        assert board.at_rest(GROUP) == await there.view()


async def test_a_look_at_a_group_sends_its_partitions_no_message(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        for count in (0, 1):
            if count:
                await there.publish(b"a")
            expected, before = await there.view(), there.ref.counts.handled
            assert await looked_at(there.ref) == expected
            assert there.ref.counts.handled == before


async def test_a_partition_that_has_ended_shows_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        pass
    assert there.ref.board is None
    assert isinstance(await looked_at(there.ref), GoQueueError)


async def test_groups_that_stand_at_the_same_offset_read_the_log_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.attach(OTHER)
        await there.publish(b"a", b"b", lanes=[0, 3])
        board = board_of(there)
        expected = [await there.view(), await there.view(OTHER)]
        first, before = await board.view(GROUP), disk.counts.reads
        assert [first, await board.view(OTHER)] == expected
        assert disk.counts.reads - before <= 1, "only what lanes have is counted again"


async def test_what_retention_removes_is_not_remembered(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        for lane in (0, 3, 3):
            await there.publish(b"a", lanes=[lane])
        board = board_of(there)
        before = await board.view(GROUP)
        await there.ref.call(DeleteBefore(1))
        after = await board.view(GROUP)
        assert before is not None
        assert after is not None
        assert before.lanes[0].ready == 1
        assert after == await there.view()
        assert (after.progress.committed, after.lanes[0].ready) == (1, 0)

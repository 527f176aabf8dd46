"""What a partition shows of its groups without being asked."""

from random import Random
from uuid import UUID

import pytest
from trio.testing import MockClock

from goqueue.actors.groupattachments import Attachment
from goqueue.actors.groupdescription import Found, look_at_each
from goqueue.actors.ledgerboard import LedgerBoard
from goqueue.actors.ref import ActorRef
from goqueue.core.assignors import TopicPartition
from goqueue.core.groupregistry import SeenTopic
from goqueue.errors import GoQueueError
from goqueue.testing.disk import SimulatedDisk
from tests.actors.test_ledgers_desk import GROUP, Desk, desk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


def board_of(there: Desk) -> LedgerBoard:
    board = there.ref.board
    assert isinstance(board, LedgerBoard)
    return board


async def looked_at(ref: ActorRef) -> Found:
    place = Attachment(SeenTopic("orders", UUID(int=1), 1, "earliest"), 0, ref)
    return (await look_at_each([place], GROUP))[TopicPartition("orders", 0)]


async def test_a_group_at_rest_looks_as_it_does_when_the_partition_is_asked(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        board = board_of(there)
        assert board.at_rest(GROUP) == await there.view()
        await there.publish(b"a", b"b", lanes=[0, 3])
        assert board.at_rest(GROUP) is None, "it has something before it"
        for _ in range(2):
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
            expected, before = await there.view(), there.ref.statistics().handled
            assert await looked_at(there.ref) == expected
            assert there.ref.statistics().handled == before


async def test_a_partition_that_has_ended_shows_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        pass
    assert there.ref.board is None
    assert isinstance(await looked_at(there.ref), GoQueueError)

"""Retention by acks: segments go once every group is done with them, durably, and none goes before (G5)."""

from collections.abc import Collection
from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delivery.requests import (
    ConfirmDeadLetters,
    ForgetGroup,
    ResetLedger,
    TakeDeadLetters,
    TopicReader,
    TopicReaders,
)
from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.requests import Maintain, Produce
from goqueue.config import HOUR, LogConfig
from goqueue.core.ledger.settlements import Action
from goqueue.core.names import REDRIVE
from goqueue.core.records.record import encode_record
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, OTHER, Desk, desk, run
from tests.actors.delivery.test_streams import attach, commit
from tests.storage.logs import DIRECTORY

ACKED = LogConfig(segment_bytes=1_100, retention_age=None, retention_acked=True)
VALUE = bytes(400)
"""Two of them fill a segment."""
READER, OTHER_READER = TopicReader(GROUP, 7), TopicReader(OTHER, 7)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def fill(there: Desk, count: int = 10) -> None:
    for _ in range(count):
        await there.publish(VALUE)


async def take_and_ack(there: Desk, count: int, group: str = GROUP) -> None:
    taken = await there.take(count, group=group)
    assert sum(each.size for each in taken.all_runs) == count
    await there.settle(taken, group=group)


async def maintain(there: Desk, readers: Collection[TopicReader] | None = (READER,), end: int | None = None) -> int:
    """Where the log begins afterwards."""
    log = (await board_of(there.ref)).log
    end = log.end_offset if end is None else end
    known = None if readers is None else TopicReaders(frozenset(readers), end)
    await there.ref.call(Maintain(compact=False, readers=known))
    return log.log_start


async def test_segments_go_once_every_group_is_done_with_them(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, ACKED) as there:
        await there.attach(OTHER)
        await fill(there)
        assert await maintain(there) == 0
        await take_and_ack(there, 5)
        assert await maintain(there) == 0
        await take_and_ack(there, 10, OTHER)
        assert await maintain(there) == 4  # offset 4 is done, and lies in a segment with 5, which is not
        await take_and_ack(there, 5)
        assert await maintain(there) == 8  # the last segment is being written to
        await fill(there, 2)
        await take_and_ack(there, 2)
        assert await maintain(there) == 10
        assert (await there.view(OTHER)).progress.removed_unacked == 0


async def test_a_topic_without_groups_keeps_everything(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk, ACKED, attached=False) as there:
        await fill(there)
        assert await maintain(there, []) == 0


async def test_groups_that_are_not_known_hold_everything(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk, ACKED) as there:
        await fill(there)
        await take_and_ack(there, 10)
        assert await maintain(there, None) == 0


@pytest.mark.parametrize("reader", [OTHER_READER, TopicReader(GROUP, 8)])
async def test_a_group_that_has_not_begun_here_holds_everything(
    reader: TopicReader, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """It is about to begin, its ledger was lost, or it was deleted and made again."""
    async with desk(disk, ACKED) as there:
        await fill(there)
        await take_and_ack(there, 10)
        readers = {READER.name: READER, reader.name: reader}.values()
        assert await maintain(there, readers) == 0
        await there.attach(reader.name, group_id=reader.id, start="latest")
        assert await maintain(there, readers) == 8


async def test_a_group_that_began_meanwhile_loses_nothing_that_was_published_since(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """It was not in the register when that was read, and the log ended at offset 4 before."""
    async with desk(disk, ACKED) as there:
        await fill(there)
        await take_and_ack(there, 10)
        assert await maintain(there, end=5) == 4


async def test_a_deleted_group_holds_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk, ACKED) as there:
        await there.attach(OTHER)
        await fill(there)
        await take_and_ack(there, 10)
        assert await maintain(there) == 0
        await there.ref.call(ForgetGroup(OTHER, 7))
        assert await maintain(there) == 8


async def test_what_is_in_flight_comes_again_or_leaves_is_held(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, ACKED) as there:
        await fill(there)
        taken = await there.take(10)
        await there.settle(taken, runs=[run(1, 9)])
        assert await maintain(there) == 0
        await there.settle(taken, Action.NACK, [run(0)], delay=5)
        assert await maintain(there) == 0
        await trio.sleep(5)
        await there.settle(await there.take(1), Action.REJECT)
        assert await maintain(there) == 0
        letters = await there.ref.call(TakeDeadLetters(GROUP, 10, 10_000))
        assert letters is not None
        assert await maintain(there) == 0
        await there.ref.call(ConfirmDeadLetters(GROUP, letters.sequence))
        assert await maintain(there) == 8


async def test_a_stream_holds_what_it_has_not_committed(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk, ACKED, attached=False) as there:
        await attach(there)
        await fill(there)
        await commit(there, 5)
        assert await maintain(there) == 4


async def test_a_redrive_holds_what_it_has_in_its_hands_and_nothing_else(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, ACKED) as there:
        await there.attach(REDRIVE)
        await fill(there)
        await take_and_ack(there, 10)
        taken = await there.take(3, group=REDRIVE)
        assert await maintain(there) == 0
        await there.settle(taken, Action.RELEASE, group=REDRIVE)
        assert await maintain(there) == 8


@pytest.mark.parametrize("seed", range(8))
async def test_a_power_cut_never_brings_progress_back_to_messages_that_were_removed(
    seed: int, autojump_clock: MockClock
) -> None:
    """G5: acks are synced within a second, and what they let go is removed only behind that."""
    disk = SimulatedDisk(Random(seed))
    async with desk(disk, ACKED) as there:
        await fill(there)
        await trio.sleep(2)
        await take_and_ack(there, 9)
        assert await maintain(there) == 8
        image = disk.crash()
    async with desk(image, ACKED) as there:
        view = await there.view()
        assert view.progress.committed >= 8
        assert view.progress.removed_unacked == 0


async def test_a_reset_while_progress_is_synced_keeps_what_it_wants(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, ACKED) as there:
        await fill(there)
        await take_and_ack(there, 10)
        disk.faults.sync_seconds = (0.2, 0.2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(maintain, there)
            await trio.sleep(0.1)
            await there.ref.call(ResetLedger(GROUP, "offset:0"))
        assert (await board_of(there.ref)).log.log_start == 0
        assert await there.committed() == 0


async def test_the_last_segment_goes_when_nothing_was_written_for_long(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    clock = SimulatedClock()
    async with desk(disk, ACKED, clock) as there:
        await fill(there)
        await take_and_ack(there, 10)
        clock.step(24 * HOUR)
        assert await maintain(there) == 10
        assert await there.publish(b"next") == 10


async def test_bytes_bound_what_acks_keep_and_the_loss_is_counted(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    config = LogConfig(segment_bytes=1_100, retention_age=None, retention_acked=True, retention_bytes=2_500)
    async with desk(disk, config) as there:
        await fill(there)
        assert await maintain(there, None) == 6
        assert (await there.view()).progress.removed_unacked == 6


async def test_a_pending_delayed_message_stays_when_its_segment_is_done(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, ACKED) as there:
        await fill(there, 2)
        await there.ref.call(Produce(encode_record(0, 1, b"later", due=2**54), 1))
        await fill(there, 9)
        before = disk.size(f"{DIRECTORY}/{2:020d}.log")
        await take_and_ack(there, 11)
        assert await maintain(there) == 2
        assert disk.size(f"{DIRECTORY}/{2:020d}.log") < before
        assert (await there.view()).progress.removed_unacked == 0

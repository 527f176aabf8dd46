"""The partition: group commit, long polls, and an end that loses nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.partition.appending import SPACE_KNOWN_SECONDS
from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.requests import (
    AwaitMore,
    DeleteBefore,
    Fetch,
    Maintain,
    OffsetAtTime,
    Produce,
)
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.config import HOUR, LogConfig
from goqueue.core.log.admission import Admission
from goqueue.core.records.batch import Producer
from goqueue.core.records.record import encode_record
from goqueue.errors import (
    ActorDied,
    BatchRefused,
    DiskFull,
    Fenced,
    InvalidMessage,
    LogStopped,
    OffsetOutOfRange,
    OutOfOrderSequence,
    TopicFull,
)
from goqueue.storage.log.volume import Volume
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.storage.logs import DIRECTORY, records_in

SYNC_SECONDS = 1 / 128


@asynccontextmanager
async def partition(
    disk: SimulatedDisk,
    config: LogConfig | None = None,
    clock: SimulatedClock | None = None,
    admission: Admission | None = None,
    disk_free_min: int = 0,
) -> AsyncIterator[ActorRef]:
    volume = Volume(disk)
    clock = clock or SimulatedClock()

    def factory() -> Partition:
        return Partition(
            volume, clock, DIRECTORY, config or LogConfig(), admission=admission, disk_free_min=disk_free_min
        )

    spec = ChildSpec("partition", factory)
    async with trio.open_nursery() as nursery:
        await nursery.start(volume.run)
        async with running(spec) as ref:
            yield ref
        nursery.cancel_scope.cancel()


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    disk.faults.sync_seconds = (SYNC_SECONDS, SYNC_SECONDS)
    return disk


def publish(*values: bytes, acks: Acks = Acks.ALL) -> Produce:
    body = b"".join(encode_record(number, 1, value) for number, value in enumerate(values))
    return Produce(body, len(values), acks=acks)


async def values(ref: ActorRef, offset: int = 0) -> list[bytes]:
    return [record.value for record in records_in((await ref.call(Fetch(offset, 100_000))).data)]


async def test_acks_all_is_answered_when_the_batch_is_durable(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1"""
    async with partition(disk) as ref:
        begin = trio.current_time()
        assert (await ref.call(publish(b"a", b"b"))).base_offset == 0
        assert trio.current_time() - begin >= SYNC_SECONDS
        assert await values(ref) == [b"a", b"b"]
        async with partition(disk.crash()) as after:
            assert await values(after) == [b"a", b"b"]


async def test_acks_leader_is_answered_at_once_and_seen_only_when_durable(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with partition(disk) as ref:
        begin = trio.current_time()
        assert (await ref.call(publish(b"a", acks=Acks.LEADER))).base_offset == 0
        assert trio.current_time() == begin
        assert await values(ref) == []
        async with partition(disk.kill()) as after:
            assert await values(after) == [b"a"]


async def test_what_nobody_waits_for_is_durable_within_a_second(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """An idle tail must not wait for the next append."""
    async with partition(disk) as ref:
        await ref.call(publish(b"a", acks=Acks.LEADER))
        await trio.sleep(1.0 + 2 * SYNC_SECONDS)
        assert await values(ref) == [b"a"]


async def test_many_producers_share_a_sync(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with partition(disk) as ref, trio.open_nursery() as nursery:
        before = disk.counts.syncs
        for number in range(500):
            nursery.start_soon(ref.call, publish(b"%d" % number))
        await wait_all_tasks_blocked()
        await trio.sleep(1)
        assert (await board_of(ref)).log.durable_offset == 500
        assert disk.counts.syncs - before < 12


async def test_appends_go_on_while_a_sync_is_under_way(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    disk.faults.sync_seconds = (5.0, 5.0)
    async with partition(disk) as ref, trio.open_nursery() as nursery:
        nursery.start_soon(ref.call, publish(b"slow"))
        await trio.sleep(1)
        begin = trio.current_time()
        assert (await ref.call(publish(b"quick", acks=Acks.LEADER))).base_offset == 1
        assert trio.current_time() == begin


async def test_a_bad_batch_is_refused_and_its_neighbours_are_not(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G14, G16"""
    bad = encode_record(0, 1, b"bad", priority=9)
    async with partition(disk) as ref:
        refused: list[InvalidMessage] = []

        async def refusal() -> None:
            with pytest.raises(BatchRefused) as error:
                await ref.call(Produce(bad, 1))
            refused.append(error.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.call, publish(b"a"))
            nursery.start_soon(refusal)
            nursery.start_soon(ref.call, publish(b"b"))
        assert len(refused) == 1
        assert sorted(await values(ref)) == [b"a", b"b"]


async def test_a_full_disk_refuses_and_takes_again_without_a_restart(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with partition(disk) as ref:
        await ref.call(publish(b"before"))
        await trio.sleep(10)
        capacity, disk.capacity = disk.capacity, disk.capacity - disk.space("/").free + 20
        for _ in range(3):
            with pytest.raises(DiskFull):
                await ref.call(publish(b"too much"))
        assert await values(ref) == [b"before"]
        disk.capacity = capacity
        await trio.sleep(1)
        assert (await ref.call(publish(b"after"))).base_offset == 1


async def test_a_reader_at_the_end_waits_for_more(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with partition(disk) as ref, trio.open_nursery() as nursery:
        seen: list[list[bytes]] = []

        async def follow() -> None:
            await ref.call(AwaitMore(0, trio.current_time() + 30))
            seen.append(await values(ref))

        nursery.start_soon(follow)
        await trio.sleep(7)
        assert seen == []
        await ref.call(publish(b"a"))
        await wait_all_tasks_blocked()
        assert seen == [[b"a"]]


async def test_a_reader_at_the_end_has_what_is_written_made_durable_at_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with partition(disk) as ref, trio.open_nursery() as nursery:
        nursery.start_soon(ref.call, AwaitMore(0, trio.current_time() + 30))
        await wait_all_tasks_blocked()
        await ref.call(publish(b"a", acks=Acks.LEADER))
        await trio.sleep(3 * SYNC_SECONDS)
        assert await values(ref) == [b"a"]


async def test_a_reader_whose_time_is_up_is_told_that_there_is_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with partition(disk) as ref:
        begin = trio.current_time()
        await ref.call(AwaitMore(0, begin + 30))
        assert trio.current_time() == begin + 30
        assert await values(ref) == []


async def test_a_stop_does_not_wait_for_a_long_poll(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G15"""
    answers: list[None] = []

    async def follow(ref: ActorRef) -> None:
        await ref.call(AwaitMore(0, trio.current_time() + 3_600))
        answers.append(None)

    async with trio.open_nursery() as nursery:
        async with partition(disk) as ref:
            nursery.start_soon(follow, ref)
            await wait_all_tasks_blocked()
            begin = trio.current_time()
        assert trio.current_time() - begin < 1
    assert answers == [None]


async def test_a_reader_that_left_disturbs_nobody(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with partition(disk) as ref:
        with trio.move_on_after(1):
            await ref.call(AwaitMore(0, trio.current_time() + 30))
        await ref.call(publish(b"a"))
        assert await values(ref) == [b"a"]


async def test_an_offset_that_is_not_there_is_refused(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with partition(disk, LogConfig(segment_bytes=150)) as ref:
        for value in (b"a", b"b", b"c"):
            await ref.call(publish(value))
        await ref.call(DeleteBefore(1))
        for offset in (0, 4):
            with pytest.raises(OffsetOutOfRange):
                await ref.call(Fetch(offset, 1_000))
        assert await values(ref, 1) == [b"b"]
        assert await ref.call(OffsetAtTime(0)) == 1


async def test_everything_accepted_is_on_disk_after_a_stop(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G15"""
    async with partition(disk) as ref:
        await ref.call(publish(b"a", acks=Acks.LEADER))
    async with partition(disk.crash()) as after:
        assert await values(after) == [b"a"]


async def test_a_failed_sync_stops_everything_and_confirms_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    died: list[bool] = []

    async def publish_doomed(ref: ActorRef) -> None:
        with pytest.raises(ActorDied):
            await ref.call(publish(b"doomed"))
        died.append(True)

    async with trio.open_nursery() as nursery:
        with pytest.RaisesGroup(LogStopped, allow_unwrapped=True, flatten_subgroups=True):
            async with partition(disk) as ref:
                disk.fail_next_sync()
                nursery.start_soon(publish_doomed, ref)
                await trio.sleep(60)
    assert died == [True]


async def test_a_checkpoint_follows_when_the_writing_stops(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with partition(disk) as ref:
        before = bytes(await disk.open(f"{DIRECTORY}/recovery-point").read(0, 10_000))
        await ref.call(publish(b"a"))
        await trio.sleep(2)
        assert bytes(await disk.open(f"{DIRECTORY}/recovery-point").read(0, 10_000)) != before


async def test_what_has_outlived_its_time_goes(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    clock = SimulatedClock()
    async with partition(disk, LogConfig(retention_age=HOUR), clock) as ref:
        await ref.call(publish(b"old"))
        clock.step(2 * HOUR)
        await ref.call(Maintain(compact=True))
        assert (await board_of(ref)).log.log_start == 1


def numbered(sequence: int, value: bytes, *, epoch: int = 0, acks: Acks = Acks.ALL) -> Produce:
    return Produce(encode_record(0, 1, value), 1, producer=Producer(7, epoch, sequence), acks=acks)


async def test_a_repeat_is_answered_with_the_first_offset_and_written_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G11, also over a restart."""
    async with partition(disk) as ref:
        assert (await ref.call(numbered(0, b"a"))).base_offset == 0
        assert (await ref.call(numbered(1, b"b"))).base_offset == 1
        assert (await ref.call(numbered(0, b"a"))).base_offset == 0
        image = disk.crash()
    async with partition(image) as ref:
        assert (await ref.call(numbered(1, b"b"))).base_offset == 1
        assert (await ref.call(numbered(2, b"c"))).base_offset == 2
        assert await values(ref) == [b"a", b"b", b"c"]


async def test_a_repeat_in_the_same_turn_is_answered_when_its_original_is(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G11: never before what it repeats is durable."""
    offsets: list[int] = []

    async def publish_at(ref: ActorRef, message: Produce) -> None:
        offsets.append((await ref.call(message)).base_offset)
        assert (await board_of(ref)).log.durable_offset == 1

    async with partition(disk) as ref:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(publish_at, ref, numbered(0, b"once"))
        assert offsets == [0, 0, 0]
        assert await values(ref) == [b"once"]


async def test_a_gap_is_an_error_and_a_fenced_producer_writes_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G11"""
    async with partition(disk) as ref:
        await ref.call(numbered(0, b"a", epoch=1))
        with pytest.raises(OutOfOrderSequence):
            await ref.call(numbered(5, b"gap", epoch=1))
        with pytest.raises(Fenced):
            await ref.call(numbered(1, b"late", epoch=0))
        assert await values(ref) == [b"a"]


async def test_what_a_full_disk_refused_may_be_sent_again(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G11: the sequence is taken only by what was written."""
    async with partition(disk) as ref:
        await ref.call(numbered(0, b"a"))
        capacity, disk.capacity = disk.capacity, disk.capacity - disk.space("/").free + 20
        with pytest.raises(DiskFull):
            await ref.call(numbered(1, b"b"))
        disk.capacity = capacity
        await trio.sleep(1)
        assert (await ref.call(numbered(1, b"b"))).base_offset == 1
        assert await values(ref) == [b"a", b"b"]


async def test_a_full_topic_refuses_until_something_has_gone(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with partition(disk, admission=Admission(messages_max=3)) as ref:
        await ref.call(publish(b"a", b"b"))
        with pytest.raises(TopicFull):
            await ref.call(publish(b"c", b"d"))
        await ref.call(publish(b"c"))
        await ref.call(DeleteBefore(2))
        assert (await ref.call(publish(b"d", b"e"))).base_offset == 3


async def test_a_topic_that_drops_the_oldest_takes_everything(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    limits = Admission(bytes_max=1_000, drops_oldest=True)
    async with partition(disk, LogConfig(segment_bytes=300), admission=limits) as ref:
        for number in range(50):
            await ref.call(publish(b"%d" % number))
        await trio.sleep(1)
        found = (await board_of(ref)).log
        assert found.end_offset == 50
        assert found.log_start > 30
        assert found.size <= 1_300


async def test_acks_and_sizes_that_the_topic_does_not_allow_are_refused(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    limits = Admission(min_acks=Acks.ALL, message_bytes_max=5)
    async with partition(disk, admission=limits) as ref:
        with pytest.raises(InvalidMessage, match="acks"):
            await ref.call(publish(b"a", acks=Acks.LEADER))
        with pytest.raises(BatchRefused) as refused:
            await ref.call(publish(b"small", b"too large"))
        assert [bad.index for bad in refused.value.records] == [1]
        assert await values(ref) == []


async def test_below_the_free_minimum_publishes_are_refused_and_reads_go_on(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with partition(disk, disk_free_min=1_000) as ref:
        await ref.call(publish(b"a"))
        capacity, disk.capacity = disk.capacity, disk.capacity - disk.space("/").free + 900
        await trio.sleep(SPACE_KNOWN_SECONDS)
        with pytest.raises(DiskFull, match="must stay free"):
            await ref.call(publish(b"b"))
        assert await values(ref) == [b"a"]
        disk.capacity = capacity
        await trio.sleep(1)
        assert (await ref.call(publish(b"b"))).base_offset == 1


async def test_a_stop_on_a_slow_disk_comes_before_the_seals_of_a_checkpoint_under_way(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G15: what was accepted is on disk within the supervisor's patience, however much there is to seal."""
    small = LogConfig(segment_bytes=200)
    async with partition(disk, small) as ref:
        for _ in range(60):
            await ref.call(publish(bytes(150), acks=Acks.LEADER))
        disk.faults.sync_seconds = (0.5, 0.5)
        await trio.sleep(6)  # a checkpoint began when the writing stopped, and has 60 segments to seal
        await ref.call(publish(b"last", acks=Acks.LEADER))
    crashed = disk.crash()
    crashed.faults.sync_seconds = (0.0, 0.0)
    async with partition(crashed, small) as ref:
        assert (await board_of(ref)).log.end_offset == 61

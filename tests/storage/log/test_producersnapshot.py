"""Many producers: remembered over crashes, at a cost that does not depend on their number (G11)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeAlias

import trio
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.config import LogConfig
from goqueue.core.log.nodeproducers import NodeProducers, ProducerLimits
from goqueue.core.records.batch import Producer
from goqueue.errors import GoQueueError
from goqueue.storage.compaction.bykey import compact_by_key
from goqueue.storage.log.growing import GrowingLog
from goqueue.storage.log.log import Log
from goqueue.storage.log.producersnapshot import NAME
from goqueue.storage.log.recoverypoint import NAME as POINT
from goqueue.storage.log.volume import Volume
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults
from tests.storage.logs import DIRECTORY, NOW, SMALL, batch, file_names, mounted, open_log, publish

CLIENT = 2**62
FILE = f"{DIRECTORY}/{NAME}"
FEW = ProducerLimits(
    partition_max=6,
    node_max=6,
    inline_max=2,
    replayed_batches_min=4,
    replayed_bytes_max=3_000,
    slice_seconds=0,
)


async def write(log: GrowingLog, numbers: Sequence[int], sequence: int = 0, size: int = 10) -> None:
    for number in numbers:
        log.append([batch(bytes(size), producer=Producer(CLIENT + number, 0, sequence))], NOW)
    await log.commit()


async def test_few_producers_are_in_the_recovery_point_and_need_no_file(
    volume: Volume, disk: SimulatedDisk
) -> None:
    log = await open_log(volume)
    await write(log, range(100))
    await log.checkpoint()
    assert NAME not in file_names(disk)


async def test_a_checkpoint_writes_no_more_for_many_producers_than_for_few(
    volume: Volume, disk: SimulatedDisk
) -> None:
    log = await open_log(volume, LogConfig())
    await write(log, range(1_100))
    await log.checkpoint()
    size, written = disk.size(FILE), disk.size(f"{DIRECTORY}/{POINT}")
    assert size > 10_000 > written
    await write(log, [5], sequence=1)
    await log.checkpoint()
    assert (disk.size(FILE), disk.size(f"{DIRECTORY}/{POINT}")) == (size, written)
    await write(log, range(2_000, 3_200))
    await log.checkpoint()
    assert disk.size(FILE) > size


async def test_a_start_replays_what_came_behind_the_file(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    await write(log, range(150))
    await log.checkpoint()
    await write(log, range(140, 160), sequence=1)
    await log.checkpoint()
    await write(log, range(150, 170), sequence=2)
    expected = log.producers.snapshot()
    async with mounted(disk.kill()) as killed:
        again = await open_log(killed)
        assert again.producers.snapshot() == expected
        assert again.producers.judge(CLIENT + 169, 0, 2, 1) == log.end_offset - 1


async def test_without_its_file_the_producers_come_from_the_log(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    await write(log, range(150))
    await log.close()
    expected = {producer_id: log.producers.get(producer_id) for producer_id in log.producers.ids()}
    for damage in (disk.damage, disk.remove):
        damage(FILE)
        async with mounted(disk.kill()) as killed:
            again = await open_log(killed)
            assert {each: again.producers.get(each) for each in again.producers.ids()} == expected


async def test_a_recovery_point_of_an_earlier_version_opens_and_its_producers_move_to_the_file(
    disk: SimulatedDisk,
) -> None:
    """That version held all of them in the recovery point, and in every seal."""
    earlier = NodeProducers(ProducerLimits(inline_max=10**9))
    async with trio.open_nursery() as nursery:
        volume = Volume(disk, producers=earlier)
        await nursery.start(volume.run)
        log = await open_log(volume)
        await write(log, range(300), size=100)
        expected = log.producers.snapshot()
        await log.close()
        nursery.cancel_scope.cancel()
    assert NAME not in file_names(disk)
    async with mounted(disk) as volume:
        assert (await open_log(volume)).producers.snapshot() == expected
        assert NAME in file_names(disk)


async def test_a_cut_log_knows_nothing_of_what_was_cut(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    await write(log, range(150))
    await log.checkpoint()
    assert await log.truncate(140) == 140
    async with mounted(disk.kill()) as killed:
        for each in (log, await open_log(killed)):
            assert each.producers.judge(CLIENT + 139, 0, 0, 1) == 139
            assert each.producers.judge(CLIENT + 140, 0, 0, 1) is None


async def test_compaction_does_not_take_a_producers_numbers_along(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, LogConfig(segment_bytes=4_000))
    await publish(log, *[batch(b"x", key=b"k", producer=Producer(CLIENT + number, 0, 0)) for number in range(150)])
    await publish(log, batch(b"y", key=b"k", producer=Producer(CLIENT + 1_000, 0, 0)))
    log.roll()
    await compact_by_key(log, NOW)
    async with mounted(disk.kill()) as killed:
        again = await open_log(killed)
        assert [again.producers.judge(CLIENT + number, 0, 0, 1) for number in range(150)] == list(range(150))


async def test_the_producers_of_all_logs_share_one_bound(disk: SimulatedDisk, nursery: trio.Nursery) -> None:
    volume = Volume(disk, producers=NodeProducers(ProducerLimits(node_max=10)))
    await nursery.start(volume.run)
    one = await Log.open(volume, "/data/logs/a/0", SMALL)
    other = await Log.open(volume, "/data/logs/b/0", SMALL)
    await write(one, range(8))
    await write(other, range(8))
    assert (one.producers.clients, other.producers.clients) == (2, 8)
    await other.close()
    assert len(volume.producers) == 2


# Any mix of writes, repeats, checkpoints and crashes

Step: TypeAlias = tuple[str, int]
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(
            ["begin"] * 5
            + ["go on"] * 3
            + ["commit"] * 2
            + ["checkpoint", "checkpoint while appending", "kill", "crash", "reopen", "compact"]
            + ["crash in checkpoint"] * 2
        ),
        st.integers(0, 1_000),
    ),
    min_size=5,
    max_size=60,
)


class Machine:
    """Writes batches of one record each, and remembers where each lies."""

    def __init__(self, seed: int, inline_max: int) -> None:
        self.limits = replace(FEW, inline_max=inline_max)
        self.disk = SimulatedDisk(Random(seed), faults=Faults(garbage_odds=0.3))
        self.written: dict[tuple[int, int], int] = {}
        self.recent: dict[int, None] = {}
        self.durable = 0
        self.begun = 0

    async def run(self, script: list[Step]) -> None:
        script = [*script, ("reopen", 0)]
        while script:
            async with trio.open_nursery() as nursery:
                volume = Volume(self.disk, producers=NodeProducers(self.limits))
                await nursery.start(volume.run)
                self.log = await Log.open(volume, DIRECTORY, LogConfig(segment_bytes=1_000))
                self.check_after_start()
                script = await self.live(script)
                nursery.cancel_scope.cancel()

    async def live(self, script: list[Step]) -> list[Step]:
        for number, (step, argument) in enumerate(script):
            if step in ("kill", "crash", "reopen", "crash in checkpoint"):
                await self.end(step, argument)
                return script[number + 1 :]
            await getattr(self, step.replace(" ", "_"))(argument)
            self.check()
        return []

    async def end(self, how: str, argument: int) -> None:
        if how == "crash in checkpoint":
            await self.crash_in_checkpoint(argument)
            return
        if how == "reopen":
            await self.log.close()
        if how != "crash":
            self.durable = self.log.end_offset
        self.disk = self.disk.kill() if how == "kill" else self.disk.crash()

    async def crash_in_checkpoint(self, argument: int) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.log.checkpoint)
            for number in range(argument % 5):
                await trio.lowlevel.checkpoint()
                await self.begin(argument + number)
            await trio.sleep(argument / 100_000)
            self.disk = self.disk.crash()
            nursery.cancel_scope.cancel()

    async def begin(self, argument: int) -> None:
        self.begun += 1
        self.append(CLIENT + self.begun, argument)

    async def go_on(self, argument: int) -> None:
        if self.recent:
            self.append(list(self.recent)[argument % len(self.recent)], argument)

    def append(self, producer: int, argument: int) -> None:
        """As a partition does: judged, then written."""
        sequence = max((last + 1 for each, last in self.written if each == producer), default=0)
        try:
            assert self.log.producers.judge(producer, 0, sequence, 1) is None
        except GoQueueError:
            return  # forgotten: its client takes a new id
        one = batch(bytes(argument % 300), key=b"k%d" % (argument % 3), producer=Producer(producer, 0, sequence))
        [self.written[producer, sequence]] = self.log.append([one], NOW)
        self.note_recent(producer)

    def note_recent(self, producer: int) -> None:
        self.recent.pop(producer, None)
        self.recent[producer] = None
        while len(self.recent) > FEW.partition_max:
            del self.recent[next(iter(self.recent))]

    async def commit(self, _: int) -> None:
        self.log.advance_high_watermark(await self.log.commit())
        self.durable = self.log.durable_offset

    async def checkpoint(self, _: int) -> None:
        await self.log.checkpoint()
        self.durable = self.log.durable_offset

    async def checkpoint_while_appending(self, argument: int) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.log.checkpoint)
            for number in range(1 + argument % 12):
                await trio.lowlevel.checkpoint()
                await (self.go_on(argument + number) if number % 2 else self.begin(argument))
        self.durable = self.log.durable_offset

    async def compact(self, _: int) -> None:
        self.log.roll()
        await self.commit(0)
        await compact_by_key(self.log, NOW)

    def check_after_start(self) -> None:
        end = self.log.end_offset
        assert end >= self.durable
        self.durable = end
        self.written = {which: offset for which, offset in self.written.items() if offset < end}
        self.recent = {}
        for (producer, _), _ in sorted(self.written.items(), key=lambda each: each[1]):
            self.note_recent(producer)
        self.check()

    def check(self) -> None:
        """Nothing that is written can be written again; the newest producers get their first offsets back."""
        counts = Counter(producer for producer, _ in self.written)
        for (producer, sequence), offset in self.written.items():
            try:
                verdict = self.log.producers.judge(producer, 0, sequence, 1)
            except GoQueueError:
                is_new = sequence >= counts[producer] - 5
                assert not (producer in self.recent and is_new), "a producer was forgotten too early"
            else:
                assert verdict == offset
        assert self.log.producers.clients <= FEW.partition_max


@given(steps, st.integers(0, 2**32), st.sampled_from([2, FEW.partition_max]))
@example(
    script=[("crash in checkpoint", 51), ("checkpoint while appending", 78), ("crash in checkpoint", 3)],
    seed=4_294_967_296,
    inline_max=2,
)
def test_after_a_crash_at_any_point_a_repeat_meets_its_original(
    script: list[Step], seed: int, inline_max: int
) -> None:
    """G11"""
    run_deterministically(Machine(seed, inline_max).run, script, seed=seed)

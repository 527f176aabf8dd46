"""The log against a plain list, under any mix of what can be done and what can happen to it."""

from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

import trio
from hypothesis import given
from hypothesis import strategies as st

from goqueue.config import HOUR, LogConfig
from goqueue.core.records.batch import Batch
from goqueue.core.records.record import Record
from goqueue.errors import DiskFull
from goqueue.storage.compaction.bykey import compact_by_key
from goqueue.storage.compaction.retention import retain
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults
from tests.storage.logs import DIRECTORY, NOW, batch, file_names, read_all

Step: TypeAlias = tuple[str, int]
CONFIG = LogConfig(segment_bytes=1_500, segment_age=10 * HOUR, retention_age=100 * HOUR)

steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(
            ["append"] * 6
            + ["commit"] * 3
            + ["checkpoint", "kill", "crash", "reopen", "truncate", "delete", "retain", "compact", "wait"]
            + ["spoil index", "drop seal", "fill disk"]
        ),
        st.integers(0, 1_000),
    ),
    min_size=5,
    max_size=60,
)


@dataclass
class Model:
    """What must be there. `records` by offset; those from `durable` on may be lost by a power cut."""

    records: dict[int, bytes] = field(default_factory=dict)
    keys: dict[int, bytes] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    durable: int = 0

    def forget(self, offsets: set[int]) -> None:
        for offset in offsets:
            self.records.pop(offset, None)

    def cut(self, end: int) -> None:
        self.forget({offset for offset in self.records if offset >= end})
        self.end, self.durable = end, min(self.durable, end)

    def begin(self, start: int) -> None:
        self.forget({offset for offset in self.records if offset < start})
        self.start = start


class Machine:
    def __init__(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed), faults=Faults(garbage_odds=0.3, cold_read_odds=0.2))
        self.model = Model()
        self.now = NOW
        self.written = 0

    async def run(self, script: list[Step]) -> None:
        script = [*script, ("reopen", 0)]
        while script:
            async with trio.open_nursery() as nursery:
                volume = Volume(self.disk)
                await nursery.start(volume.run)
                self.log = await Log.open(volume, DIRECTORY, CONFIG)
                await self.check_after_start()
                script = await self.live(script)
                nursery.cancel_scope.cancel()

    async def live(self, script: list[Step]) -> list[Step]:
        """Take steps until the process ends; what is left of the script."""
        for number, (step, argument) in enumerate(script):
            if step in ("kill", "crash", "reopen"):
                await self.end(step)
                return script[number + 1 :]
            await getattr(self, step.replace(" ", "_"))(argument)
            await self.check()
        return []

    async def end(self, how: str) -> None:
        if how == "reopen":
            await self.log.close()
        if how != "crash":
            self.model.durable = self.model.end
        self.disk = self.disk.kill() if how == "kill" else self.disk.crash()

    # What can be done

    async def append(self, argument: int) -> None:
        batches = [self.new_batch(argument + number) for number in range(1 + argument % 3)]
        self.log.append(batches, self.now)
        self.model.end = self.log.end_offset

    def new_batch(self, argument: int) -> Batch:
        count = 1 + argument % 4
        values = []
        for number in range(count):
            self.written += 1
            offset = self.model.end + number
            values.append(b"%d:" % self.written + bytes(argument % 700))
            self.model.records[offset] = values[-1]
            self.model.keys[offset] = b"k%d" % (argument % 5)
        self.model.end += count
        return batch(*values, key=b"k%d" % (argument % 5), timestamp=self.now, zstd=argument % 2 == 0)

    async def commit(self, _: int) -> None:
        self.log.advance_high_watermark(await self.log.commit())
        self.model.durable = self.model.end

    async def checkpoint(self, _: int) -> None:
        await self.log.checkpoint()
        self.model.durable = self.model.end

    async def truncate(self, argument: int) -> None:
        offset = max(self.model.start, self.model.end - argument % 10)
        end = await self.log.truncate(offset)
        assert end <= offset
        self.model.cut(end)
        self.model.durable = max(self.model.durable, self.log.durable_offset)

    async def delete(self, argument: int) -> None:
        offset = min(self.log.high_watermark, self.model.start + argument % 10)
        await self.log.delete_before(offset)
        self.model.begin(max(self.model.start, offset))
        self.model.durable = max(self.model.durable, self.log.durable_offset)

    async def retain(self, _: int) -> None:
        await retain(self.log, self.now)
        self.model.begin(self.log.log_start)
        self.model.durable = max(self.model.durable, self.log.durable_offset)

    async def compact(self, _: int) -> None:
        seen = self.log.high_watermark
        await compact_by_key(self.log, self.now)
        self.model.durable = max(self.model.durable, self.log.durable_offset)
        newest = {self.model.keys[offset]: offset for offset in sorted(self.model.records) if offset < seen}
        there = {record.offset for record in await read_all(self.log)}
        gone = {offset for offset in self.model.records if offset < seen} - there
        assert not gone & set(newest.values()), "compaction took the newest record of a key"
        self.model.forget(gone)

    async def wait(self, argument: int) -> None:
        self.now += argument * HOUR // 10

    async def spoil_index(self, argument: int) -> None:
        names = file_names(self.disk, "index")
        if names:
            path = f"{DIRECTORY}/{names[argument % len(names)]}"
            if self.disk.size(path):
                self.disk.damage(path)

    async def drop_seal(self, argument: int) -> None:
        names = file_names(self.disk, ".seal")
        if names:
            self.disk.remove(f"{DIRECTORY}/{names[argument % len(names)]}")

    async def fill_disk(self, argument: int) -> None:
        capacity = self.disk.capacity
        self.disk.capacity = capacity - self.disk.space("/").free + argument % 300
        try:
            self.log.append([batch(bytes(1_000 + argument))], self.now)
        except DiskFull:
            pass
        finally:
            self.disk.capacity = capacity
        await self.commit(argument)  # the cut has to be durable before anything else is written

    # What must hold

    async def check_after_start(self) -> None:
        """Everything durable is there; what is beyond it is a part of what was written, without a hole."""
        assert self.log.statistics().damage == ()
        assert self.model.durable <= self.log.end_offset <= self.model.end
        self.model.cut(self.log.end_offset)
        self.model.durable = self.model.end
        await self.check()

    async def check(self) -> None:
        assert (self.log.end_offset, self.log.log_start) == (self.model.end, self.model.start)
        found = {record.offset: record for record in await read_all(self.log, bytes_max=700)}
        seen = {offset: value for offset, value in self.model.records.items() if offset < self.log.high_watermark}
        assert {offset: record.value for offset, record in found.items()} == seen
        await self.check_times(list(found.values()))

    async def check_times(self, records: list[Record]) -> None:
        for time in (0, self.now - HOUR, self.now):
            expected = next((record.offset for record in records if record.timestamp >= time), None)
            assert await self.log.offset_at_time(time) == expected


@given(steps, st.integers(0, 2**32))
def test_the_log_behaves_as_a_list_that_survives(script: list[Step], seed: int) -> None:
    """G1, G2, G3"""
    run_deterministically(Machine(seed).run, script, seed=seed)

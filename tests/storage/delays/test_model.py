"""The delay index against a log of records, which it follows through crashes, full disks and lost ends (G8)."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import trio
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.delays.pending import DelayChange, DelayState
from goqueue.errors import DiskFull
from goqueue.storage.delays.index import DelayIndex, LoadedIndex
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from goqueue.testing.faults import Faults
from tests.storage.delays import indexes
from tests.storage.delays.indexes import ENDINGS, dues_of, leave_room, opened, pending
from tests.storage.logs import mounted


@dataclass
class World:
    """A log, and what it says; of each record at most one entry."""

    random: Random
    log: list[DelayChange | None] = field(default_factory=list)
    durable_claim: int = 0
    is_alive: bool = True

    def state(self, end: int) -> tuple[dict[int, int], dict[int, DelayChange]]:
        return replayed({}, {}, self.log[:end])

    def grow(self) -> list[DelayChange]:
        grown = []
        for _ in range(self.random.randrange(1, 5)):
            entry = self.record()
            self.log.append(entry)
            grown += [] if entry is None else [entry]
        return grown

    def record(self) -> DelayChange | None:
        at, (waiting, _) = len(self.log), self.state(len(self.log))
        kind, time = self.random.randrange(5), self.random.randrange(10_000)
        if kind == 0:
            return None
        if kind < 3 or not waiting:
            return pending(at, time)
        offset = self.random.choice(sorted(waiting))
        return (
            pending(offset, time, at) if kind == 3 else DelayChange(self.random.choice(ENDINGS), offset, time, at)
        )

    def confirm(self, claim: int) -> None:
        """The last words of a dead process reach nobody."""
        if self.is_alive:
            self.durable_claim = max(self.durable_claim, claim)

    def lose_the_end(self) -> None:
        """Now and then the log's end is gone too, and other records will be there."""
        if self.random.random() < 0.3:
            del self.log[self.random.randrange(len(self.log) + 1) :]
            self.durable_claim = 0

    def check(self, loaded: LoadedIndex) -> None:
        """What is loaded, with the rest of the log applied, is what the log says. Nothing durable is forgotten."""
        assert loaded.applied_to <= len(self.log)
        assert loaded.applied_to >= self.durable_claim or loaded.is_rebuilt
        assert not loaded.is_rebuilt or (loaded.applied_to, len(loaded.offsets), loaded.finished) == (0, 0, [])
        past = {entry.offset: entry for entry in loaded.finished}
        assert replayed(dues_of(loaded), past, self.log[loaded.applied_to :]) == self.state(len(self.log))


def replayed(
    waiting: dict[int, int], past: dict[int, DelayChange], records: Sequence[DelayChange | None]
) -> tuple[dict[int, int], dict[int, DelayChange]]:
    for entry in records:
        if entry is not None and entry.state is DelayState.PENDING and entry.offset not in past:
            waiting[entry.offset] = entry.time
        elif entry is not None and entry.state is not DelayState.PENDING:
            waiting.pop(entry.offset, None)
            past[entry.offset] = entry
    return waiting, past


async def live_through_crashes(seed: int, lives: int) -> None:
    random = Random(seed)
    disk, world = SimulatedDisk(random, faults=Faults(garbage_odds=0.3)), World(random)
    for _ in range(lives):
        async with mounted(disk) as volume:
            world.is_alive = True
            index, loaded = await opened(volume, 0, len(world.log))
            world.check(loaded)
            index.append([entry for entry in world.log[loaded.applied_to :] if entry is not None])
            index.mark(len(world.log))
            async with trio.open_nursery() as nursery:
                for _ in range(random.randrange(12)):
                    await one_step(random, disk, world, index, nursery)
                disk, world.is_alive = disk.crash() if random.random() < 0.7 else disk.kill(), False
                nursery.cancel_scope.cancel()
        leave_room(disk, CAPACITY)
        world.lose_the_end()


async def one_step(
    random: Random, disk: SimulatedDisk, world: World, index: DelayIndex, nursery: trio.Nursery
) -> None:
    match random.randrange(8):
        case 0 | 1 | 2:
            index.append(world.grow())
        case 3:
            index.mark(len(world.log))
        case 4:
            nursery.start_soon(sync, world, index)
        case 5:
            nursery.start_soon(compact, world, index)
        case 6:
            leave_room(disk, random.choice((0, 50, 200, CAPACITY)))
        case _:
            await trio.sleep(random.random() / 300)


async def sync(world: World, index: DelayIndex) -> None:
    claim = 0 if index.is_incomplete else max((entry.at for entry in world.log if entry is not None), default=0)
    await index.sync()
    if not index.is_incomplete:
        world.confirm(claim)


async def compact(world: World, index: DelayIndex) -> None:
    claim, (waiting, past) = len(world.log), world.state(len(world.log))
    with suppress(DiskFull):
        await indexes.compact(index, list(waiting), list(waiting.values()), list(past.values()), claim)
        world.confirm(claim)


@given(st.integers(0, 2**32))
def test_whatever_crashes_leave_it_says_what_the_log_said(seed: int) -> None:
    """G8"""
    run_deterministically(live_through_crashes, seed, 6, seed=seed)

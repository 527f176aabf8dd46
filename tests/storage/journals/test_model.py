"""The journal against a plain list: whatever is done to it, and whenever the process or the power ends.

The model is everything that was accepted, in order, and how much of it was confirmed. What is found later begins
with all that was confirmed and goes on, if at all, with what came next: nothing invented, nothing left out in
between. Operations run side by side where their owner does not wait for them, and a crash may come at any time,
also while the journal is being opened after the one before.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

import trio
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.errors import DiskFailed, DiskFull, LogStopped
from goqueue.storage.journals.file import NEW, Replay
from goqueue.storage.journals.journal import Journal
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from goqueue.testing.faults import Faults
from tests.storage.journals.crashes import DIRECTORY, NAME, PATH, contents, files, leave_room
from tests.storage.logs import mounted

SEPARATOR = b"|"

# What can be done.


@dataclass(frozen=True)
class Append:
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Commit:
    waits: bool


@dataclass(frozen=True)
class Compact:
    waits: bool


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Cancel:
    """Give up everything that runs in the background."""


@dataclass(frozen=True)
class Room:
    """From now on the disk has room for so many bytes more."""

    bytes: int


@dataclass(frozen=True)
class FailSync:
    """The next sync fails. What memory shows of the disk is a lie from then on, until the power fails."""


@dataclass(frozen=True)
class Reopen:
    """An orderly close, and a new start."""


@dataclass(frozen=True)
class Kill:
    pass


@dataclass(frozen=True)
class Crash:
    """The power fails, and again so many seconds after each new start."""

    again: tuple[float, ...] = ()


Step: TypeAlias = Append | Commit | Compact | Sleep | Cancel | Room | FailSync | Reopen | Kill | Crash

sizes = st.sampled_from((0, 1, 40, 600))
moments = st.floats(0, 0.004)
appends = st.builds(Append, st.lists(sizes, max_size=4).map(tuple))
ends = st.one_of(st.just(Reopen()), st.just(Kill()), st.builds(Crash, st.lists(moments, max_size=2).map(tuple)))
healthy_steps = st.one_of(
    appends,
    appends,
    st.builds(Commit, st.booleans()),
    st.builds(Compact, st.booleans()),
    st.builds(Sleep, moments),
    st.builds(Room, st.sampled_from((0, 30, 100, 300, 2_000, CAPACITY))),
    st.just(Cancel()),
    ends,
)
steps = st.lists(st.one_of(healthy_steps, st.just(FailSync())), max_size=25)
seeds = st.integers(0, 2**32)


# The model.


@dataclass
class Model:
    accepted: list[bytes] = field(default_factory=list)
    confirmed: int = 0
    serial: int = 0

    def payloads(self, sizes: Sequence[int]) -> list[bytes]:
        """New entries, no two alike, in which the search for the next sound one meets false beginnings."""
        first, self.serial = self.serial, self.serial + len(sizes)
        return [b"%06d" % number + (b"GQJ\1" * size)[:size] for number, size in enumerate(sizes, first)]

    def snapshot(self) -> bytes:
        return SEPARATOR.join(self.accepted)

    def check(self, found: Replay) -> None:
        entries = everything(found)
        assert entries[: self.confirmed] == self.accepted[: self.confirmed], "something confirmed is missing"
        assert entries == self.accepted[: len(entries)], "something was invented or left out"
        assert found.lost == []
        self.accepted, self.confirmed = entries, len(entries)


def everything(found: Replay) -> list[bytes]:
    return (found.snapshot.split(SEPARATOR) if found.snapshot else []) + found.entries


@dataclass
class Life:
    """What one process does, from opening the journal to its end."""

    disk: SimulatedDisk
    model: Model
    journal: Journal
    nursery: trio.Nursery
    background: list[trio.CancelScope] = field(default_factory=list)
    sync_failed: bool = False

    async def perform(self, step: Step) -> None:
        match step:
            case Append(sizes):
                self.append(self.model.payloads(sizes))
            case Commit(waits):
                await self.run(self.commit, waits=waits)
            case Compact(waits):
                await self.run(self.compact, waits=waits)
            case Sleep(seconds):
                await trio.sleep(seconds)
            case Cancel():
                self.cancel()
            case Room(free):
                leave_room(self.disk, free)
            case FailSync():
                self.disk.fail_next_sync()
                self.sync_failed = True

    def append(self, payloads: Sequence[bytes]) -> None:
        try:
            self.journal.append(payloads)
        except (DiskFull, LogStopped):
            return
        self.model.accepted += payloads

    async def commit(self) -> None:
        accepted = len(self.model.accepted)
        await self.journal.commit()
        self.model.confirmed = max(self.model.confirmed, accepted)

    async def compact(self) -> None:
        accepted = len(self.model.accepted)
        await self.journal.compact(self.model.snapshot())
        self.model.confirmed = max(self.model.confirmed, accepted)

    async def run(self, operation: Callable[[], Awaitable[None]], *, waits: bool) -> None:
        if waits:
            await self.attempt(operation, trio.CancelScope())
        else:
            self.background.append(trio.CancelScope())
            self.nursery.start_soon(self.attempt, operation, self.background[-1])
            await trio.lowlevel.checkpoint()

    async def attempt(self, operation: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        with scope, suppress(DiskFull, DiskFailed, LogStopped):
            await operation()

    def cancel(self) -> None:
        for scope in self.background:
            scope.cancel()
        self.background.clear()

    async def end(self, step: Step) -> tuple[SimulatedDisk, Model]:
        """The disk that the next life finds, and all that is known of it at this moment."""
        if isinstance(step, Reopen):
            self.cancel()
            await self.attempt(self.close, trio.CancelScope())
        power_fails = self.sync_failed or isinstance(step, Crash)
        disk = self.disk.crash() if power_fails else self.disk.kill()
        known = len(self.model.accepted) if not power_fails else self.model.confirmed
        disk.capacity = CAPACITY
        return disk, Model(list(self.model.accepted), known, self.model.serial)

    async def close(self) -> None:
        """A journal that has stopped, be it while others are waited for, has told so: closing it does not fail."""
        await self.journal.close()
        if self.journal._failure is None:
            self.model.confirmed = len(self.model.accepted)


async def live(disk: SimulatedDisk, model: Model, steps: deque[Step]) -> tuple[SimulatedDisk, Model]:
    """Open the journal, check what it holds, and take steps until one of them ends this life."""
    async with mounted(disk) as volume, trio.open_nursery() as nursery:
        journal, found = await Journal.open(volume, DIRECTORY, NAME)
        model.check(found)
        life = Life(disk, model, journal, nursery)
        step: Step = Crash()
        while steps and not isinstance(step := steps.popleft(), Reopen | Kill | Crash):
            await life.perform(step)
        after = await life.end(step)
        nursery.cancel_scope.cancel()
    disk, model = after
    for seconds in step.again if isinstance(step, Crash) else ():
        disk = await crash_while_opening(disk, seconds)
    return disk, model


async def crash_while_opening(disk: SimulatedDisk, seconds: float) -> SimulatedDisk:
    async with mounted(disk) as volume, trio.open_nursery() as nursery:
        nursery.start_soon(Journal.open, volume, DIRECTORY, NAME)
        await trio.sleep(seconds)
        crashed = disk.crash()
        nursery.cancel_scope.cancel()
    return crashed


async def live_on_and_on(seed: int, steps: Sequence[Step]) -> tuple[SimulatedDisk, Model]:
    disk = SimulatedDisk(Random(seed), faults=Faults(garbage_odds=0.3))
    model, rest = Model(), deque(steps)
    while rest:
        disk, model = await live(disk, model, rest)
    return disk, model


async def live_and_look_back(seed: int, steps: Sequence[Step]) -> None:
    disk, model = await live_on_and_on(seed, steps)
    await live(disk, model, deque())


@given(seeds, steps)
@example(661, [Crash(), Append((0,)), Crash(), Crash()])  # what a first life left came back in a third
def test_what_was_confirmed_is_found_in_order_and_nothing_is_invented(seed: int, steps: list[Step]) -> None:
    """G1"""
    run_deterministically(live_and_look_back, seed, steps, seed=seed)


# Rot.

Flip: TypeAlias = tuple[int, int]
flips = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 7)), max_size=4)


async def rot(seed: int, steps: Sequence[Step], flips: Sequence[Flip]) -> tuple[Model, Replay]:
    """What is found after a life and some flipped bits; what was found must then be found again and again."""
    disk, model = await live_on_and_on(seed, steps)
    is_named = disk.exists(PATH)  # else nothing was ever committed: nothing in it can be missed
    for place, bit in flips if is_named else ():
        disk.flip_bit(PATH, place % disk.size(PATH), bit)
    name = NAME if is_named else NAME + NEW
    image = await contents(disk, name) if disk.exists(f"{DIRECTORY}/{name}") else b""
    async with mounted(disk) as volume:
        journal, found = await Journal.open(volume, DIRECTORY, NAME)
        await check_copies(disk, image, found)
        journal.append([b"later"])
        await journal.commit()
    async with mounted(disk.crash()) as volume:
        _, again = await Journal.open(volume, DIRECTORY, NAME)
    assert everything(again) == [*everything(found), b"later"]
    assert again.lost == found.lost
    return model, found


async def check_copies(disk: SimulatedDisk, image: bytes, found: Replay) -> None:
    """G13: what is lost can be looked for in a copy, and so can what was cut."""
    damaged = [await contents(disk, name) for name in files(disk, ".damaged")]
    torn = [await contents(disk, name) for name in files(disk, ".torn")]
    assert not found.lost or image in damaged
    assert not found.torn_size or image[-found.torn_size :] in torn


def is_part_of(some: Sequence[bytes], every: Sequence[bytes]) -> bool:
    """In the same order."""
    rest = iter(every)
    return all(entry in rest for entry in some)


@given(seeds, st.lists(healthy_steps, max_size=15), st.sampled_from((Reopen(), Kill(), Crash())), flips)
def test_whatever_rots_the_rest_is_found_and_the_journal_says_that_something_is_missing(
    seed: int, steps: list[Step], end: Step, flips: list[Flip]
) -> None:
    """G13"""
    model, found = run_deterministically(rot, seed, [*steps, end], flips, seed=seed).value
    entries = everything(found)
    assert is_part_of(entries, model.accepted)
    assert entries == model.accepted or found.lost or found.torn_size or isinstance(end, Crash)


@given(seeds, st.lists(healthy_steps, max_size=15), st.integers(0, 2**20), st.integers(0, 7))
def test_one_flipped_bit_after_an_orderly_close_is_never_taken_for_a_torn_tail(
    seed: int, steps: list[Step], place: int, bit: int
) -> None:
    ending = (Room(CAPACITY), Reopen())  # the mark needs room
    model, found = run_deterministically(rot, seed, [*steps, *ending], [(place, bit)], seed=seed).value
    entries = everything(found)
    named = sum(lost.next - lost.first for lost in found.lost)
    assert is_part_of(entries, model.accepted)
    assert len(entries) + named >= len(model.accepted)

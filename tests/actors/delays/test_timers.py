"""The timers of a broker: who is told what, when, and how much at a time (G8)."""

from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delays import timers as timers_module
from goqueue.actors.delays.requests import (
    CloseTimers,
    LoadTimers,
    OpenTimers,
    SetTimers,
    TakeDue,
    TimersDue,
)
from goqueue.actors.delays.timers import FIRES_AT_ONCE, FIRES_PER_SECOND, REST_SECONDS, SWEPT_AT_ONCE, Timers
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.handlers import hears
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.testing.clock import SimulatedClock

SECOND = 1_000_000


class Ear(Actor):
    """Takes whatever has fallen due, as soon as it is told, unless it is lazy."""

    def __init__(self, heard: list[float]) -> None:
        self._heard = heard

    @hears(TimersDue)
    async def fell_due(self, _: str, __: TimersDue) -> None:
        self._heard.append(trio.current_time())


@dataclass
class Stage:
    ref: ActorRef
    clock: SimulatedClock
    began: int
    heard: list[float] = field(default_factory=list)

    async def open(self, listener: ActorRef, name: str = "orders/0") -> int:
        return await self.ref.call(OpenTimers(name, listener))

    async def set(self, owner: int, *timers: tuple[int, float]) -> None:
        await self.ref.call(SetTimers(owner, [(offset, self.at(due)) for offset, due in timers]))

    async def load(self, owner: int, offsets: Sequence[int], dues: Sequence[float]) -> None:
        await self.ref.call(LoadTimers(owner, array("Q", offsets), array("Q", map(self.at, dues))))

    async def take(self, owner: int, count_max: int = 1_000) -> list[int]:
        return [offset for offset, _ in await self.ref.call(TakeDue(owner, count_max))]

    def at(self, seconds: float) -> int:
        return self.began + round(seconds * SECOND)


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    clock = SimulatedClock()
    spec = ChildSpec("timers", lambda: Timers(clock))
    async with running(spec):
        yield Stage(spec.ref, clock, clock.now())


@asynccontextmanager
async def ear(heard: list[float] | None = None) -> AsyncIterator[ActorRef]:
    spec = ChildSpec("ear", lambda: Ear([] if heard is None else heard))
    async with running(spec):
        yield spec.ref


async def test_an_owner_is_told_when_something_is_due_and_takes_it(autojump_clock: MockClock) -> None:
    async with stage() as on, ear(on.heard) as listener:
        owner = await on.open(listener)
        await on.set(owner, (1, 0.5), (2, 0.2), (3, 60))
        await trio.sleep(0.19)
        assert await on.take(owner) == []
        await trio.sleep(0.4)
        assert await on.take(owner) == [2, 1]
        assert [round(time, 2) for time in on.heard] == [0.2, 0.5]


async def test_after_a_jump_of_the_clock_so_many_a_second_fire_in_due_order(autojump_clock: MockClock) -> None:
    count = FIRES_AT_ONCE + FIRES_PER_SECOND
    async with stage() as on, ear(on.heard) as listener:
        owner = await on.open(listener)
        await on.load(owner, range(count), [3_600 - number / 100 for number in range(count)])
        on.clock.step(2 * 3_600 * SECOND)
        began, taken, first_second = trio.current_time(), list[int](), 0
        while len(taken) < count:
            await trio.sleep(0.01)
            some = await on.take(owner, 500)
            taken += some
            while some := await on.take(owner, 500):
                taken += some
            if trio.current_time() - began <= 1.0:
                first_second = len(taken)
        assert taken == list(reversed(range(count)))
        assert first_second <= FIRES_AT_ONCE + FIRES_PER_SECOND
        assert 1.0 <= trio.current_time() - began <= 3.0


async def test_who_was_given_too_little_is_told_again(autojump_clock: MockClock) -> None:
    async with stage() as on, ear(on.heard) as listener:
        owner = await on.open(listener)
        await on.load(owner, range(FIRES_AT_ONCE + 100), [0.0] * (FIRES_AT_ONCE + 100))
        await trio.sleep(0.001)
        assert len(await on.take(owner, 10_000)) == FIRES_AT_ONCE
        on.heard.clear()
        await trio.sleep(1)
        assert len(on.heard) >= 1
        assert len(await on.take(owner, 10_000)) == 100


async def test_a_message_that_is_moved_is_named_at_each_of_its_times(autojump_clock: MockClock) -> None:
    """The partition knows which of them counts."""
    async with stage() as on, ear() as listener:
        owner = await on.open(listener)
        await on.load(owner, [1, 2], [0.0, 0.0])
        await trio.sleep(0.1)
        await on.set(owner, (1, 50.0))
        assert await on.take(owner) == [1, 2]
        await trio.sleep(50)
        assert await on.take(owner) == [1]


async def test_what_is_set_later_and_was_due_earlier_is_taken_first(autojump_clock: MockClock) -> None:
    async with stage() as on, ear() as listener:
        owner = await on.open(listener)
        await on.load(owner, [1, 2], [-5.0, -1.0])
        await trio.sleep(0.1)
        await on.set(owner, (3, -3.0))
        await trio.sleep(0.1)
        assert await on.take(owner, 2) == [1, 3]
        assert await on.take(owner, 2) == [2]


async def test_when_the_clock_is_set_back_everything_waits(autojump_clock: MockClock) -> None:
    async with stage() as on, ear(on.heard) as listener:
        owner = await on.open(listener)
        await on.set(owner, (1, 5.0))
        on.clock.step(-100 * SECOND)
        await trio.sleep(104)
        assert on.heard == []
        await trio.sleep(1.5)
        assert await on.take(owner) == [1]


async def test_who_opens_again_begins_anew_and_the_old_number_is_nobodys(autojump_clock: MockClock) -> None:
    async with stage() as on, ear() as listener:
        before = await on.open(listener)
        other = await on.open(listener, "orders/1")
        await on.set(before, (1, 0.0), (2, 60))
        await on.set(other, (7, 0.0))
        await trio.sleep(0.1)
        after = await on.open(listener)
        assert after != before
        await on.set(before, (3, 0.0))
        await on.ref.call(CloseTimers(before))
        assert await on.take(before) == []
        await trio.sleep(0.1)
        assert await on.take(after) == []
        assert await on.take(other) == [7]


async def test_a_dead_partition_holds_nobody_up(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though as much has fallen due for it as may wait at all."""
    monkeypatch.setattr(timers_module, "QUEUED_MAX", 10)
    async with stage() as on, ear(on.heard) as listener:
        living = await on.open(listener)
        async with ear() as other:
            dead = await on.open(other, "dead")
            await on.load(dead, range(40), [0.0] * 40)
            await trio.sleep(0.1)
        await on.set(living, (1, 5.0))
        await trio.sleep(5.1)
        assert await on.take(living) == [1]


class Watched(Timers):
    """Notes how many slots are swept in each of its turns."""

    sweeps: int = 0

    async def tick(self, now: float) -> None:
        self.sweeps += self._wheel.wants_sweep
        await super().tick(now)


async def test_an_owner_who_leaves_many_timers_is_swept_out_a_few_in_each_turn(autojump_clock: MockClock) -> None:
    """They count for nothing at once, though they fall due in the very moment, and others are served meanwhile."""
    clock, count = SimulatedClock(), 10 * SWEPT_AT_ONCE
    timers = Watched(clock)
    spec = ChildSpec("timers", lambda: timers)
    async with running(spec), ear() as listener:
        on = Stage(spec.ref, clock, clock.now())
        gone, living = await on.open(listener), await on.open(listener, "orders/1")
        await on.load(gone, range(count), [600.0] * count)
        await on.set(living, (7, 5.0), (8, 60.0))
        on.clock.step(5 * SECOND)
        await on.ref.call(CloseTimers(gone))
        await on.set(gone, (1, 0.0))
        await trio.sleep(1)
        assert await on.take(gone) == []
        assert await on.take(living) == [7]
        assert 10 <= timers.sweeps <= 12


async def test_what_is_loaded_in_pieces_falls_due_in_order_when_all_of_it_is_there(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though more is overdue than may wait to be taken."""
    monkeypatch.setattr(timers_module, "QUEUED_MAX", 10)
    monkeypatch.setattr(timers_module, "WORK_MAX", 5)
    async with stage() as on, ear() as listener:
        owner, taken = await on.open(listener), list[int]()
        for first in (0, 20, 40):
            dues = array("Q", [on.at(-first - offset) for offset in range(20)])
            await on.ref.call(LoadTimers(owner, array("Q", range(first, first + 20)), dues, more=first < 40))
            await trio.sleep(1.1 if first < 40 else 0)
        while len(taken) < 60:
            await trio.sleep(1)
            taken += await on.take(owner)
        assert taken == list(reversed(range(60)))


async def test_who_dies_while_loading_holds_nobody_up(autojump_clock: MockClock) -> None:
    async with stage() as on, ear() as listener:
        owner = await on.open(listener)
        await on.set(owner, (1, 1.0))
        async with ear() as other:
            dead = await on.open(other, "dead")
            await on.ref.call(LoadTimers(dead, array("Q", [1]), array("Q", [on.at(9)]), more=True))
            await trio.sleep(3)
            assert await on.take(owner) == []
        await trio.sleep(1.5)
        assert await on.take(owner) == [1]


async def test_what_falls_due_within_a_few_milliseconds_is_told_together(autojump_clock: MockClock) -> None:
    """A lone one at once; of a row, the first at once and the others some at a time, none of them early (G8)."""
    async with stage() as on, ear(on.heard) as listener:
        owner = await on.open(listener)
        await on.set(owner, *((offset, 0.2 + offset / 1_000) for offset in range(100)), (200, 0.9))
        heard_of: list[int] = []
        while len(heard_of) < 101:
            await trio.sleep(0.001)
            some = await on.take(owner)
            assert all(on.clock.now() >= on.at(0.9 if offset == 200 else 0.2 + offset / 1_000) for offset in some)
            heard_of += some
        assert heard_of == [*range(100), 200]
        assert [round(time, 3) for time in (on.heard[0], on.heard[-1])] == [0.2, 0.9]
        gaps = [later - earlier for earlier, later in pairwise(on.heard[:-1])]
        assert min(gaps) >= REST_SECONDS - 1e-6
        assert max(gaps) <= REST_SECONDS + 0.002

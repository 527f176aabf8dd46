"""A machine in memory for programs on asyncio, whose time a test moves forward.

The broker and all its clients run in one thread of Trio, on one clock. That clock goes as fast as any other, so
nothing has to be moved for a program to get on. `advance` makes it jump besides: from one moment at which something
is due to the next, and at each it waits until neither side has anything left to do.

    ┌► both are at rest ─► jump to what is due next ─┐
    └────────────────────────────────────────────────┘

Trio is at rest when all of its tasks wait; the network and the disk are in memory, so nothing comes from elsewhere.
The event loop of asyncio is at rest when no callback is ready in it. What it waits for besides goqueue, as a timer
of its own or a socket, takes real time and holds nothing up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.aio.asking import ask
from goqueue.aio.forwarding import forwarded
from goqueue.portal.forwarding import forwarded_now
from goqueue.portal.homes import Home, home_at
from goqueue.portal.host import Host
from goqueue.portal.thread import TrioThread, new_lock
from goqueue.portal.waiting import ask_now, opened
from goqueue.testing.memory import HOST, PORT, Machine
from goqueue.types import Seconds, seconds_of

T = TypeVar("T")

SECONDS_MAX = 366 * 24 * 3_600
"""Limit of one jump: a longer one is a mistake, and would take minutes."""
ROUNDS_MAX = 1_000
"""Limit of rounds until both sides are at rest. A program that never is has its time moved all the same."""
TURNS_MAX = 1_000
"""Limit of turns of the event loop until it is at rest, for a program that keeps it busy."""
TURNS_UNSEEN = 50
"""Turns that are waited for in an event loop that does not show whether a callback is ready."""
EPOCH = datetime.fromtimestamp(0, UTC)


class _Counter:
    """Counts what the Trio thread is told. Who tells it nothing new is at rest."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = new_lock()

    def note(self) -> None:
        with self._lock:
            self.count += 1


class AioMachine:
    """A `Machine` for asyncio; made by `aio_machine`. The faults are those of the machine."""

    url = Machine.url

    def __init__(self, host: Host[Machine], inner: Machine, clock: MockClock, told: _Counter) -> None:
        self._host = host
        self._inner = inner
        self._clock = clock
        self._told = told
        self._is_advancing = False

    # Time

    def now(self) -> datetime:
        """The wall clock of the broker and its clients; it starts on 1 January 2026."""
        return EPOCH + timedelta(microseconds=ask_now(self._host, self._inner.clock.now))

    async def advance(self, seconds: Seconds) -> None:
        """Move the time of the broker and its clients forward, past all that is due until then.

        Tasks of asyncio that hear from them meanwhile, as handlers of a worker do, have their turn at that moment.
        """
        await self._pass_time(_checked(seconds), lambda: False)

    async def advance_until(self, awaitable: Awaitable[T], seconds_max: Seconds = 3_600) -> T:
        """Await this, and move the time forward as far as it takes; `TimeoutError` after `seconds_max` seconds.

        For what waits for time to pass, as `receive` does without messages.
        """
        length, task = _checked(seconds_max), asyncio.ensure_future(awaitable)
        try:
            await self._pass_time(length, task.done)
            if not task.done():
                raise TimeoutError(f"it is not done after {length:g} seconds of the broker's time")
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def _pass_time(self, seconds: float, is_enough: Callable[[], bool]) -> None:
        if self._is_advancing:
            raise RuntimeError("the time is being moved by another task; one at a time")
        self._is_advancing = True
        try:
            end = await self._rest_after(partial(_after, seconds))
            jump = partial(_jump, self._clock, end)
            while not is_enough() and not await self._rest_after(jump):
                pass
        finally:
            self._is_advancing = False

    async def _rest_after(self, step: Callable[[], Awaitable[T]]) -> T:
        """Take this step in the Trio thread, which ends when that is at rest; then wait until both sides are."""
        told, answer = self._told.count, await ask(self._host, step)
        await _loop_rests()
        for _ in range(ROUNDS_MAX):
            if self._told.count == told + 1:  # by the step alone
                break
            told = self._told.count
            await ask(self._host, wait_all_tasks_blocked)
            await _loop_rests()
        return answer

    # The broker, and faults

    @property
    def is_running(self) -> bool:
        return self._inner.is_running

    start = forwarded(Machine.start)
    stop = forwarded(Machine.stop)
    restart = forwarded(Machine.restart)
    kill = forwarded(Machine.kill)
    crash = forwarded(Machine.crash)
    cut = forwarded_now(Machine.cut)
    isolate = forwarded_now(Machine.isolate)
    slow = forwarded_now(Machine.slow)
    slow_disk = forwarded_now(Machine.slow_disk)
    fill_disk = forwarded_now(Machine.fill_disk)
    free_disk = forwarded_now(Machine.free_disk)
    heal = forwarded_now(Machine.heal)


@contextmanager
def aio_machine(seed: int = 0) -> Iterator[AioMachine]:
    """A machine in memory on which a broker runs. Clients of `machine.url` on asyncio, or without a loop, find it.

    No event loop has to run yet, and the clients may be in any.
    """
    clock, told = MockClock(rate=1), _Counter()
    thread = TrioThread("goqueue in memory", clock, told.note)
    thread.start()
    try:
        inner = Machine(seed)
        host = Host("machine", inner.running, thread)
        with opened(host), home_at((HOST, PORT), Home(thread, inner.network.machine("client"), inner.clock)):
            yield AioMachine(host, inner, clock, told)
    finally:
        thread.stop()


def _checked(seconds: Seconds) -> float:
    length = seconds_of(seconds)
    if not isinstance(length, int | float) or isinstance(length, bool) or not 0 <= length <= SECONDS_MAX:
        raise ValueError(f"seconds={seconds!r} is not a number from 0 to {SECONDS_MAX:,}, or such a timedelta")
    return length


async def _loop_rests() -> None:
    """The attribute is private. All loops of asyncio have had it since Python 3.4; others may not show theirs."""
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    for _ in range(TURNS_UNSEEN if ready is None else TURNS_MAX):
        await asyncio.sleep(0)
        if ready is not None and not ready:
            return


# In the Trio thread


async def _after(seconds: float) -> float:
    end = trio.current_time() + seconds
    await wait_all_tasks_blocked()
    return end


async def _jump(clock: MockClock, end: float) -> bool:
    """Jump to what is due next, and see it done; True at the end."""
    left = end - trio.current_time()
    if left > 0:
        due_in = trio.lowlevel.current_statistics().seconds_to_next_deadline
        clock.jump(min(left, max(due_in, 0.0)))
        await wait_all_tasks_blocked()
    return trio.current_time() >= end

"""The timers of a broker: one wheel for the delayed messages of all its partitions.

It only hints: it names offsets that have fallen due, and the partition knows whether they are pending and when they
are due. So partitions set timers in their own time, and remove none. The wheel holds nothing that the logs do not
say: a partition that starts sets its timers anew.

A timer is due when the wall clock, read at that moment, has reached it. When the clock is set back, the wheel is
rebuilt; when it is set forward, or after a long stop, many fall due at once and fire in the order of due times, at
a limited rate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import trio

from goqueue.actors.delays.requests import (
    CloseTimers,
    LoadTimers,
    OpenTimers,
    SetTimers,
    TakeDue,
    TimersDue,
)
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.handlers import answers
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.delays.wheel import TICK, TimerWheel
from goqueue.core.tokens import Tokens
from goqueue.environment import WallClock
from goqueue.types import Microseconds, Offset

FIRES_PER_SECOND = 20_000
FIRES_AT_ONCE = 2_000
QUEUED_MAX = 50_000
"""Limit of timers that have fallen due and were not taken yet: the others stay in the wheel until then."""
WORK_MAX = 1_000
"""Limit of timers that are moved or fall due in one turn: a few milliseconds of work."""
REST_SECONDS = 0.005
"""The pause after timers have fallen due, so that those that fall due meanwhile fire together: a round costs a
partition and a reader one to two milliseconds of processor time, however few messages are in it."""
LOOK_SECONDS_MAX = 1.0
"""Limit of the time for which a jump of the wall clock may go unnoticed."""
SWEPT_AT_ONCE = 4_000
"""Limit of slots of the wheel that are swept in one turn."""


@dataclass(slots=True, eq=False)
class TimerOwner:
    name: str
    listener: ActorRef
    due: list[tuple[Offset, Microseconds]] = field(default_factory=list)
    """Timers that have fallen due and were not taken yet."""
    is_in_order: bool = True

    def fell_due(self, offset: Offset, due: Microseconds) -> None:
        """Mostly in the order of due times; but a partition that starts sets some timers when others are due."""
        self.is_in_order &= not self.due or self.due[-1][1] <= due
        self.due.append((offset, due))

    def take(self, count: int) -> list[tuple[Offset, Microseconds]]:
        if not self.is_in_order:
            self.due.sort(key=itemgetter(1))
            self.is_in_order = True
        taken, self.due = self.due[:count], self.due[count:]
        return taken


class Timers(Actor):
    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._wheel = TimerWheel(clock.now())
        self._reached = clock.now()
        self._look_at = trio.current_time() + LOOK_SECONDS_MAX
        self._rests_until = -math.inf
        self._owners: dict[int, TimerOwner] = {}
        self._numbers: dict[str, int] = {}
        self._next_number = 1
        self._loading: set[int] = set()
        """Owners that still have timers to load. Nothing falls due until they are done, or dead."""
        self._queued = 0
        self._hungry: set[int] = set()
        """Owners that were given fewer timers than have fallen due, because of the rate limit."""
        self._tokens = Tokens(FIRES_PER_SECOND, FIRES_AT_ONCE, trio.current_time())

    # Owners

    @answers(OpenTimers)
    async def open(self, message: OpenTimers) -> int:
        if message.name in self._numbers:
            self._forget(self._numbers[message.name])
        number, self._next_number = self._next_number, self._next_number + 1
        self._owners[number] = TimerOwner(message.name, message.listener)
        self._numbers[message.name] = number
        return number

    @answers(CloseTimers)
    async def shut(self, message: CloseTimers) -> None:
        if message.owner in self._owners:
            self._forget(message.owner)

    def _forget(self, number: int) -> None:
        owner = self._owners.pop(number)
        del self._numbers[owner.name]
        self._hungry.discard(number)
        self._loading.discard(number)
        self._queued -= len(owner.due)
        self._wheel.forget(number)

    # Timers

    @answers(LoadTimers)
    async def load(self, message: LoadTimers) -> None:
        if message.owner in self._owners:
            self._wheel.load(message.owner, message.offsets, message.dues)
            if message.more:
                self._loading.add(message.owner)
            else:
                self._loading.discard(message.owner)

    @answers(SetTimers)
    async def set(self, message: SetTimers) -> None:
        for offset, due in message.timers if message.owner in self._owners else ():
            self._wheel.add(message.owner, offset, due)

    @answers(TakeDue)
    async def take_due(self, message: TakeDue) -> Sequence[tuple[Offset, Microseconds]]:
        owner = self._owners.get(message.owner)
        if owner is None or not owner.due:
            return ()
        wanted = min(message.count_max, len(owner.due))
        count = self._tokens.take(wanted, trio.current_time())
        if count < wanted:
            self._hungry.add(message.owner)
        taken = owner.take(count)
        self._queued -= count
        return taken

    # Time

    def next_deadline(self) -> float | None:
        now = trio.current_time()
        if self._wheel.wants_sweep:
            return now
        if self._hungry:
            return self._tokens.ready_at(now)
        if not len(self._wheel):
            return None
        if self._queued >= QUEUED_MAX or self._loading:
            return self._look_at  # owners that take theirs wake the wheel; some may be dead
        if self._wheel.is_behind:
            return now
        due = self._wheel.next_deadline()
        assert due is not None, "there are timers"
        return min(self._look_at, max(self._rests_until, now + (due - self._clock.now()) / 1_000_000))

    async def tick(self, now: float) -> None:
        wall, self._look_at = self._clock.now(), now + LOOK_SECONDS_MAX
        if wall < self._reached - TICK:
            self._wheel.step_back(wall)
            self._reached = wall
        self._reached = max(self._reached, wall)
        if self._wheel.wants_sweep:
            self._wheel.sweep(SWEPT_AT_ONCE)
        self._loading = {number for number in self._loading if not self._owners[number].listener.is_down}
        fed, self._hungry = self._hungry, set()
        if self._queued >= QUEUED_MAX:
            fed.update(number for number, owner in self._owners.items() if owner.due)
        elif not self._loading:
            for number, offset, due in self._wheel.advance(wall, WORK_MAX):
                self._owners[number].fell_due(offset, due)
                self._queued += 1
                fed.add(number)
        if fed:
            self._rests_until = now + REST_SECONDS
        for number in sorted(fed):
            self._tell(number)

    def _tell(self, number: int) -> None:
        """A partition that is down sets its timers anew when it starts."""
        listener = self._owners[number].listener
        if listener.is_down:
            self._forget(number)
        else:
            listener.news(self.name, TimersDue())

"""The watchdog: measures stalls of the event loop, and collects garbage while the process is idle.

It sleeps for a moment and measures how late it was woken: for that time nobody else was served either. A stall is
measured up to one such moment too short. Python's collector stops everything while it looks at all objects, so the
objects that exist after the start are excluded for good, and the others are collected when no request waits.

Only a broker that is a process of its own has a watchdog: on a virtual clock it would do nothing but count.
"""

import logging
from typing import Protocol

import trio

from goqueue.actors.runtime.actor import Actor
from goqueue.actors.statistics.statistics import Stalls, Statistics

logger = logging.getLogger("goqueue.watchdog")

PERIOD_SECONDS = 0.05
IDLE_SECONDS = 1.0
"""The process is idle after this time without a request."""
LOGGED_SECONDS = 0.1
LOG_PAUSE_SECONDS = 60.0


class Process(Protocol):
    """The process in which the broker runs."""

    def memory_bytes(self) -> int: ...

    def collecting_seconds(self) -> float:
        """The time that garbage collections took since the start."""
        ...

    def settle(self) -> None:
        """The broker has started: the objects that exist now stay."""
        ...

    def tidy(self, *, idle: bool) -> None:
        """Called once a second; when there were no requests, it may take its time."""
        ...


class Watchdog(Actor):
    def __init__(self, process: Process, statistics: Statistics) -> None:
        self._process = process
        self._statistics = statistics
        self._quiet_until = 0.0

    async def start(self) -> None:
        """The watchdog starts last: the objects that exist now stay as long as the broker runs."""
        self._process.settle()
        self._statistics.stalls = self._statistics.stalls or Stalls()
        self._statistics.memory = self._process.memory_bytes
        self._statistics.collecting = self._process.collecting_seconds
        self.background(self._watch, endless=True)

    async def _watch(self) -> None:
        requests, looked_at = self._statistics.requests, trio.current_time()
        while True:
            due = trio.current_time() + PERIOD_SECONDS
            await trio.sleep_until(due)
            now = trio.current_time()
            self._note(now - due, now)
            if now >= looked_at + IDLE_SECONDS:
                self._process.tidy(idle=self._statistics.requests == requests)
                requests, looked_at = self._statistics.requests, now

    def _note(self, late: float, now: float) -> None:
        assert self._statistics.stalls is not None
        self._statistics.stalls.note(late, now)
        if late > LOGGED_SECONDS and now >= self._quiet_until:
            self._quiet_until = now + LOG_PAUSE_SECONDS
            logger.warning("the event loop stood still for %d ms; is the machine busy?", late * 1_000)

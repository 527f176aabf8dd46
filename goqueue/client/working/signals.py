"""What SIGTERM and SIGINT say to workers: the first one to drain, the second to end at once.

With the second, what the signals did before is in force again: so a third one ends whatever still stands.

A process has one handler for each signal, and may have many workers: so these share one, which tells them all. The
first worker in the main thread puts it there and the last takes it away; if each put back what it had found, one
that ends early would take it from the others, or bring back that of one which has ended. Elsewhere than in the main
thread Python lets nobody handle signals: workers there are told as well, for as long as one in the main thread is.

What the program had installed itself hears the signals too, but when the workers have ended: it may well raise, and
would end them amid their work.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

SIGNALS = (signal.SIGTERM, signal.SIGINT)
MODULES_OF_KEYBOARD_INTERRUPT = ("_signal", "asyncio.runners", "trio._core._ki")
"""Whose handlers of SIGINT end the program: that is what draining is instead of."""


class Steps(NamedTuple):
    """What a worker does for the first signal, and for the second."""

    stop: Callable[[], None]
    stop_at_once: Callable[[], None]


@contextmanager
def signals_stop(stop: Callable[[], None], stop_at_once: Callable[[], None]) -> Iterator[None]:
    """Around the run of a worker."""
    steps = Steps(stop, stop_at_once)
    _shared.add(steps, holds=_can_be_handled())
    try:
        yield
    finally:
        _shared.remove(steps)


class _SharedHandler:
    """No lock: it would be waited for by the handler, which runs amid whatever else the main thread does."""

    def __init__(self) -> None:
        self._workers: list[Steps] = []
        self._holders: list[Steps] = []
        """Workers in the main thread: while there are any, the handler is in force."""
        self._before: dict[int, Any] = {}
        self._heard: list[int] = []

    def add(self, steps: Steps, holds: bool) -> None:
        self._workers.append(steps)
        if holds:
            if not self._holders:
                self._install()
            self._holders.append(steps)
        for step, _ in zip(steps, self._heard, strict=False):
            step()  # the process is to end: it must not run on because it has begun a moment too late

    def remove(self, steps: Steps) -> None:
        """Those of its parent a fork does not have."""
        if steps in self._workers:
            self._workers.remove(steps)
        if steps in self._holders:
            self._holders.remove(steps)
            if not self._holders:
                self._restore()
                self._tell_the_program()

    def begin_anew(self) -> None:
        """In a fork, whose signals are not for the workers of its parent."""
        if self._holders:
            self._restore()
        self._workers, self._holders, self._heard = [], [], []

    def hear(self, number: int, frame: FrameType | None) -> None:
        if not self._holders or len(self._heard) == len(Steps._fields):
            self._pass_on(number, frame)  # who had put another in its place has put it back, too late
            return
        self._heard.append(number)
        for steps in tuple(self._workers):  # to which another thread may be adding one
            steps[len(self._heard) - 1]()
        if len(self._heard) == len(Steps._fields):
            self._restore()

    def _install(self) -> None:
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler != self.hear:
                self._before[number] = handler
                signal.signal(number, self.hear)

    def _restore(self) -> None:
        for number in SIGNALS:
            if signal.getsignal(number) == self.hear:
                signal.signal(number, self._before[number])

    def _tell_the_program(self) -> None:
        heard, self._heard = self._heard, []
        for number in heard:
            handler = self._before[number]
            if callable(handler) and not _raises_keyboard_interrupt(handler):
                handler(number, None)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        handler = self._before[number]
        if callable(handler):
            handler(number, frame)
        elif handler == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


def _can_be_handled() -> bool:
    """Not outside of the main thread; nor where a C library's handler is, which could not be put back."""
    try:
        for number in SIGNALS:
            signal.signal(number, signal.getsignal(number))
    except (ValueError, TypeError):
        return False
    return True


def _raises_keyboard_interrupt(handler: Callable[..., object]) -> bool:
    function = getattr(handler, "func", handler)  # asyncio's is a partial
    return getattr(function, "__module__", None) in MODULES_OF_KEYBOARD_INTERRUPT


_shared = _SharedHandler()
os.register_at_fork(after_in_child=_shared.begin_anew)

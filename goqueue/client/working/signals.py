"""SIGTERM and SIGINT for workers: the first signal drains them, the second ends them at once.

With the second, the earlier handlers are restored: so a third signal ends the program.

A process has one handler for each signal, and may have many workers: so these share one, which tells them all. The
first worker in the main thread installs it and the last removes it; if each restored the handler that it had found,
a worker that ends early would take it from the others, or restore that of a worker which has ended. Python handles
signals only in the main thread: workers in other threads are told, too, while there is a worker in the main thread.

A handler that the program has installed itself gets the signals, too, but after the workers have ended: it may
raise, and would end them in the middle of their work.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

SIGNALS = (signal.SIGTERM, signal.SIGINT)
MODULES_OF_KEYBOARD_INTERRUPT = ("_signal", "asyncio.runners", "trio._core._ki")
"""The modules whose handlers of SIGINT end the program: draining replaces these."""


class Steps(NamedTuple):
    """The steps of a worker at the first and at the second signal."""

    stop: Callable[[], None]
    stop_at_once: Callable[[], None]


@contextmanager
def signals_stop(stop: Callable[[], None], stop_at_once: Callable[[], None]) -> Iterator[None]:
    """A context for the run of a worker."""
    steps = Steps(stop, stop_at_once)
    _shared.add(steps, holds=_can_be_handled())
    try:
        yield
    finally:
        _shared.remove(steps)


class _SharedHandler:
    """Without a lock: the handler runs in the middle of any code of the main thread, and would wait for it."""

    def __init__(self) -> None:
        self._workers: list[Steps] = []
        self._holders: list[Steps] = []
        """Workers in the main thread: while there are any, the handler is installed."""
        self._before: dict[int, Any] = {}
        self._heard: list[int] = []

    def add(self, steps: Steps, holds: bool) -> None:
        self._workers.append(steps)
        if holds:
            if not self._holders:
                self._install()
            self._holders.append(steps)
        for step, _ in zip(steps, self._heard, strict=False):
            step()  # the process is ending: a worker that begins now must stop, too

    def remove(self, steps: Steps) -> None:
        """A fork does not have the workers of its parent."""
        if steps in self._workers:
            self._workers.remove(steps)
        if steps in self._holders:
            self._holders.remove(steps)
            if not self._holders:
                self._restore()
                self._tell_the_program()

    def begin_anew(self) -> None:
        """In a fork: its signals are not for the workers of its parent."""
        if self._holders:
            self._restore()
        self._workers, self._holders, self._heard = [], [], []

    def hear(self, number: int, frame: FrameType | None) -> None:
        if not self._holders or len(self._heard) == len(Steps._fields):
            self._pass_on(number, frame)  # other code has restored this handler too late
            return
        self._heard.append(number)
        for steps in tuple(self._workers):  # a copy: another thread may add one
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
    """False outside of the main thread, and for a handler of a C library, which could not be restored."""
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

"""Handlers that run outside of Trio, in threads or in another event loop: which run, and how they ended."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import trio

from goqueue.client.working.handlers import Handlers, HandlersToldOfEnds
from goqueue.nursery import PlainNursery
from goqueue.portal.thread import TrioThread

RunOutside: TypeAlias = Callable[[TrioThread, HandlersToldOfEnds], AbstractAsyncContextManager[Handlers]]
"""As RunHandlers, for a surface whose Trio runs in this thread."""


class HandlerCancelled(Exception):
    """A handler ended as if it had been cancelled, though the worker has not done so: it has failed."""


class OutsideHandlers:
    """Everything happens in the Trio thread. `start` runs a handler for each of some messages, without waiting; the
    end of each comes back by `note_end`."""

    def __init__(self, ends: HandlersToldOfEnds, start: Callable[[Sequence[Any]], None]) -> None:
        self._ends = ends
        self._start = start
        self.running: dict[Any, None] = {}
        self._has_changed = trio.Event()
        self._crash: BaseException | None = None
        self._is_cancelling = False

    def begin(self, messages: Sequence[Any]) -> None:
        self.running.update(dict.fromkeys(messages))
        self._start(messages)

    def note_end(self, message: Any, error: BaseException | None) -> None:
        """One whose message was given up meanwhile is of no interest any more."""
        if message not in self.running:
            return
        del self.running[message]
        if self._is_cancelling:
            was_cancelled = error is None or isinstance(error, HandlerCancelled)
            self._ends.cancelled(message, None if was_cancelled else error)
        elif error is None:
            self._ends.returned(message)
        elif isinstance(error, Exception):
            self._ends.raised(message, error)
        else:
            self._crash = error
        self._has_changed.set()

    async def until_all_ended(self) -> None:
        while self.running:
            await self._change()

    async def until_all_cancelled(self) -> None:
        self._is_cancelling = True
        await self.until_all_ended()

    async def raise_crash(self) -> None:
        """What ends a program, as SystemExit does, ends the worker."""
        while self._crash is None:
            await self._change()
        raise self._crash

    async def _change(self) -> None:
        if self._has_changed.is_set():
            self._has_changed = trio.Event()
        await self._has_changed.wait()

    def give_up(self) -> None:
        """Those that still run are of no interest any more: their messages are given back."""
        running, self.running = self.running, {}
        for message in running:
            self._ends.cancelled(message)


@asynccontextmanager
async def run_outside(handlers: OutsideHandlers, cancel: Callable[[], Awaitable[None]]) -> AsyncIterator[Handlers]:
    """`cancel` ends the handlers that run, as far as that is possible, and returns when they have ended."""
    try:
        async with PlainNursery() as nursery:
            nursery.start_soon(handlers.raise_crash)
            yield handlers
            await handlers.until_all_ended()
            nursery.cancel_scope.cancel()
    finally:
        if handlers.running:
            with trio.CancelScope(shield=True):
                await cancel()
        handlers.give_up()

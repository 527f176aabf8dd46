"""How a worker runs the program's handlers: on each surface in another way, told apart by this protocol.

A handler ends in one of three ways: it returned, it raised, or it was cancelled as the worker ends. The worker is
told of each end once, in the Trio thread.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias

import trio

from goqueue.nursery import PlainNursery


class HandlersToldOfEnds(Protocol):
    """The worker, for those who run its handlers. Neither waits nor raises."""

    def returned(self, message: Any) -> None: ...

    def raised(self, message: Any, error: BaseException) -> None: ...

    def cancelled(self, message: Any, error: BaseException | None = None) -> None:
        """With what it raised while it was cancelled."""


class Handlers(Protocol):
    def begin(self, messages: Sequence[Any]) -> None:
        """Run a handler for each, beside each other. Called in the Trio thread."""


RunHandlers: TypeAlias = Callable[[HandlersToldOfEnds], AbstractAsyncContextManager[Handlers]]
"""Leaving the context waits for all handlers. When that is cancelled, they are."""

Handle: TypeAlias = Callable[[Any], Awaitable[object]]
"""Runs the program's handler for a message in a Trio task. A cancellation cancels the handler."""


class TaskHandlers:
    """Each handler is a Trio task."""

    def __init__(self, handle: Handle, ends: HandlersToldOfEnds, nursery: trio.Nursery) -> None:
        self._handle = handle
        self._ends = ends
        self._nursery = nursery

    def begin(self, messages: Sequence[Any]) -> None:
        for message in messages:
            self._nursery.start_soon(self._run, message)

    async def _run(self, message: Any) -> None:
        try:
            await self._handle(message)
        except trio.Cancelled:
            self._ends.cancelled(message)
            raise
        except Exception as error:
            self._ends.raised(message, error)
        except BaseExceptionGroup as group:
            cancellations, others = group.split(trio.Cancelled)
            if cancellations is None or not isinstance(others, ExceptionGroup):
                raise
            self._ends.cancelled(message, others)
            raise cancellations from None
        else:
            self._ends.returned(message)


def in_tasks(handle: Handle) -> RunHandlers:
    @asynccontextmanager
    async def run(ends: HandlersToldOfEnds) -> AsyncIterator[Handlers]:
        async with PlainNursery() as nursery:
            yield TaskHandlers(handle, ends, nursery)

    return run

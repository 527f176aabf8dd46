"""The worker for asyncio: its rules run in the Trio thread, its handlers as tasks in the program's event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

from goqueue.aio.client import connect
from goqueue.aio.consumer import run_worker
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.client.working.handlers import Handlers, HandlersToldOfEnds
from goqueue.client.working.outside import HandlerCancelled, OutsideHandlers, run_outside
from goqueue.client.working.rules import Worked
from goqueue.client.working.worker import AnyWorker, check_async, with_parameters_of
from goqueue.portal.eventloop import check_asyncio_runs
from goqueue.portal.thread import TrioThread

Handler: TypeAlias = Callable[[DeliveredMessage], Awaitable[object]]


class Worker(AnyWorker[Handler]):
    """A worker that can be stopped from inside the program: `run` it, and `stop` it from wherever it suits."""

    @staticmethod
    def _checked(handler: Handler) -> Handler:
        return check_async(handler, "goqueue.blocking.worker")

    async def run(self) -> Worked:
        """Until it is stopped. What the broker refuses for good is raised."""
        check_asyncio_runs()
        with self._begun():
            loop = _Loop(self._handler)
            async with connect(**self._connecting) as client:
                return await run_worker(client.consumer(**self._consuming), self._working, loop.run)


@with_parameters_of(Worker)
async def worker(*arguments: Any, **named: Any) -> Worked:
    """Run an async handler for each message of a group, until it is stopped: a `Worker` without a name.

    A message whose handler returns is acked, one whose handler raises is nacked with the reason. See `Worker`.
    """
    return await Worker(*arguments, **named).run()


class _LoopGone(BaseException):
    """The event loop was closed while handlers were to run in it. Nobody is there who could hear it."""


class _Loop:
    """The program's event loop, as the Trio thread sees it. Handlers have the context in which the worker runs.

    Messages cross to the loop in groups, and so do the ends of handlers on their way back.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._tasks: dict[asyncio.Task[None], DeliveredMessage] = {}

    def run(self, thread: TrioThread, ends: HandlersToldOfEnds) -> AbstractAsyncContextManager[Handlers]:
        self._thread = thread
        self._handlers = OutsideHandlers(ends, self._start)
        return run_outside(self._handlers, self._cancel)

    def _start(self, messages: Sequence[DeliveredMessage]) -> None:
        self._tell(partial(self._begin, messages))

    async def _cancel(self) -> None:
        self._tell(self._cancel_all)
        await self._handlers.until_all_cancelled()

    def _tell(self, what: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            raise _LoopGone from None

    # In the loop

    def _begin(self, messages: Sequence[DeliveredMessage]) -> None:
        for message in messages:
            task = self._loop.create_task(self._call(message), context=self._context.copy())
            self._tasks[task] = message
            task.add_done_callback(self._note_end)

    async def _call(self, message: DeliveredMessage) -> None:
        await self._handler(message)

    def _cancel_all(self) -> None:
        for task in self._tasks:
            if not task.cancelling():  # as by a loop that ends; a second time would disturb its cleaning up
                task.cancel()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        error = HandlerCancelled("somebody cancelled it") if task.cancelled() else task.exception()
        self._thread.tell(partial(self._handlers.note_end, self._tasks.pop(task), error))

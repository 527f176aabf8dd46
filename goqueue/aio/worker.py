"""The worker for asyncio: its rules run in the Trio thread, its handlers as tasks in the program's event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

import trio

from goqueue.aio.client import connect
from goqueue.aio.consumer import run_worker
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.client.working.handlers import in_tasks
from goqueue.client.working.rules import Worked
from goqueue.client.working.worker import AnyWorker, check_async, with_parameters_of

Handler: TypeAlias = Callable[[DeliveredMessage], Awaitable[object]]


class Worker(AnyWorker[Handler]):
    """A worker that can be stopped from inside the program: `run` it, and `stop` it from wherever it suits."""

    @staticmethod
    def _checked(handler: Handler) -> Handler:
        return check_async(handler, "goqueue.blocking.worker")

    async def run(self) -> Worked:
        """Until it is stopped. What the broker refuses for good is raised."""
        with self._begun():
            loop = _Loop(self._handler)
            async with connect(**self._connecting) as client:
                return await run_worker(client.consumer(**self._consuming), self._working, in_tasks(loop.handle))


@with_parameters_of(Worker)
async def worker(*arguments: Any, **named: Any) -> Worked:
    """Run an async handler for each message of a group, until it is stopped: a `Worker` without a name.

    A message whose handler returns is acked, one whose handler raises is nacked with the reason. See `Worker`.
    """
    return await Worker(*arguments, **named).run()


class HandlerCancelled(Exception):
    """A handler ended as if it had been cancelled, though the worker has not done so: it has failed."""


class _LoopGone(BaseException):
    """The event loop was closed while handlers were to run in it. Nobody is there who could hear it."""


class _Loop:
    """The program's event loop, as the Trio thread sees it. Handlers have the context in which the worker runs."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()

    async def handle(self, message: DeliveredMessage) -> None:
        running = _Running(trio.lowlevel.current_trio_token())
        self._tell(partial(self._begin, running, message))
        try:
            await running.ended.wait()
        except trio.Cancelled:
            self._tell(running.cancel)
            with trio.CancelScope(shield=True):
                await running.ended.wait()
            raise
        if running.error is not None:
            raise running.error

    def _begin(self, running: "_Running", message: DeliveredMessage) -> None:
        running.begin(self._loop.create_task(self._call(message), context=self._context.copy()))

    async def _call(self, message: DeliveredMessage) -> None:
        await self._handler(message)

    def _tell(self, what: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:
            raise _LoopGone from None


class _Running:
    """A handler's task. Everything but `ended` and `error` is for the event loop's thread."""

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self._token = token
        self._task: asyncio.Task[None] | None = None
        self.ended = trio.Event()
        self.error: BaseException | None = None

    def begin(self, task: asyncio.Task[None]) -> None:
        self._task = task
        task.add_done_callback(self._note_end)

    def cancel(self) -> None:
        assert self._task is not None, "it is told to begin first"
        if not self._task.cancelling():  # as by a loop that ends; a second time would disturb its cleaning up
            self._task.cancel()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self.error = HandlerCancelled("somebody cancelled it") if task.cancelled() else task.exception()
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.ended.set)

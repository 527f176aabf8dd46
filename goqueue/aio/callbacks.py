"""A program's function, called from Trio's thread: in the event loop that the program runs in."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from goqueue.portal.thread import TrioThread

ArgT = TypeVar("ArgT")


class LoopCalls:
    """The loop is known once the program has entered its consumer."""

    def __init__(self, thread: TrioThread) -> None:
        self._thread = thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def run_here(self) -> None:
        self._loop = asyncio.get_running_loop()

    def calling(self, function: Callable[[ArgT], object] | None) -> Callable[[ArgT], Awaitable[object]] | None:
        """What is no function is left to be refused."""
        if not callable(function):
            return function

        async def call(argument: ArgT) -> None:
            await self._call(function, argument)

        return call

    async def _call(self, function: Callable[[ArgT], object], argument: ArgT) -> None:
        """Its error comes as itself."""
        assert self._loop is not None, "partitions come to those who have entered"
        done = trio.Event()
        errors: list[BaseException] = []

        async def run() -> None:
            try:
                answer = function(argument)
                if inspect.isawaitable(answer):
                    await answer
            except BaseException as error:
                errors.append(error)
            finally:
                self._thread.tell(done.set)

        self._loop.call_soon_threadsafe(self._start, run)
        await done.wait()
        if errors:
            raise errors[0]

    def _start(self, run: Callable[[], Awaitable[None]]) -> None:
        """A task that nobody refers to might be collected."""
        task = asyncio.ensure_future(run())
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

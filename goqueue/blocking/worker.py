"""The worker for plain functions: each message is handled in a thread, so many at a time.

A thread takes the next message by itself, and the ends of handlers cross to the Trio thread in groups. A thread
cannot be cancelled. A handler that is still running when everything ends runs on, though its message has been given
back; it can no longer settle it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, closing
from contextvars import copy_context
from typing import Any, TypeAlias

import trio

from goqueue.blocking.client import connect
from goqueue.blocking.consumer import run_worker
from goqueue.blocking.message import DeliveredMessage
from goqueue.client.working.handlers import Handlers, HandlersToldOfEnds
from goqueue.client.working.outside import OutsideHandlers, run_outside
from goqueue.client.working.rules import Worked
from goqueue.client.working.worker import AnyWorker, check_plain, with_parameters_of
from goqueue.portal.handlerthreads import HandlerThreads
from goqueue.portal.thread import TrioThread

Handler: TypeAlias = Callable[[DeliveredMessage], object]


class Worker(AnyWorker[Handler]):
    """A worker that can be stopped from inside the program: `run` it, and `stop` it from wherever it suits."""

    @staticmethod
    def _checked(handler: Handler) -> Handler:
        return check_plain(handler, "goqueue.worker, or goqueue.aio.worker")

    def run(self) -> Worked:
        """Until it is stopped. What the broker refuses for good is raised."""
        with (
            self._begun(),
            connect(**self._connecting) as client,
            closing(HandlerThreads(self._handler, copy_context())) as threads,
        ):
            return run_worker(client.consumer(**self._consuming), self._working, _Threads(threads).run)


@with_parameters_of(Worker)
def worker(*arguments: Any, **named: Any) -> Worked:
    """Run a function for each message of a group, in threads, until it is stopped: a `Worker` without a name.

    A message whose handler returns is acked, one whose handler raises is nacked with the reason. See `Worker`.
    """
    return Worker(*arguments, **named).run()


class _Threads:
    def __init__(self, threads: HandlerThreads) -> None:
        self._threads = threads

    def run(self, trio_thread: TrioThread, ends: HandlersToldOfEnds) -> AbstractAsyncContextManager[Handlers]:
        self._trio_thread = trio_thread
        self._handlers = OutsideHandlers(ends, self._start)
        return run_outside(self._handlers, trio.lowlevel.checkpoint)

    def _start(self, messages: Sequence[Any]) -> None:
        running = len(self._handlers.running)
        self._threads.start(messages, running, self._trio_thread, self._handlers.note_end)

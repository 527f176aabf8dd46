"""The worker for plain functions: each message is handled in a thread of its own, so many at a time.

A thread cannot be cancelled. A handler that is still running when everything ends runs on, though its message has
been given back; it can no longer settle it.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import trio

from goqueue.blocking.client import connect
from goqueue.blocking.consumer import run_worker
from goqueue.blocking.message import DeliveredMessage
from goqueue.client.working.handlers import in_tasks
from goqueue.client.working.rules import Worked
from goqueue.client.working.worker import AnyWorker, check_plain, with_parameters_of

Handler: TypeAlias = Callable[[DeliveredMessage], object]


class Worker(AnyWorker[Handler]):
    """A worker that can be stopped from inside the program: `run` it, and `stop` it from wherever it suits."""

    @staticmethod
    def _checked(handler: Handler) -> Handler:
        return check_plain(handler, "goqueue.worker, or goqueue.aio.worker")

    def run(self) -> Worked:
        """Until it is stopped. What the broker refuses for good is raised."""
        with self._begun(), connect(**self._connecting) as client:
            return run_worker(client.consumer(**self._consuming), self._working, in_tasks(self._handle))

    async def _handle(self, message: DeliveredMessage) -> None:
        """In Trio's thread. As many may run as the worker begins: it counts them itself."""
        limiter = trio.CapacityLimiter(1)
        await trio.to_thread.run_sync(self._handler, message, abandon_on_cancel=True, limiter=limiter)


@with_parameters_of(Worker)
def worker(*arguments: Any, **named: Any) -> Worked:
    """Run a function for each message of a group, in threads, until it is stopped: a `Worker` without a name.

    A message whose handler returns is acked, one whose handler raises is nacked with the reason. See `Worker`.
    """
    return Worker(*arguments, **named).run()

"""The rules of a worker, the same on every surface: a handler runs for each message, a limited number at a time.

    receive as many as there is room for ─► a task for each: run the handler ─► returned: ack
                                                                             └► raised: nack with the reason

It runs in Trio, in the program or in goqueue's thread; only the way to run a handler differs between surfaces.
There is no prefetch: another worker may handle what this one cannot begin now. A message whose handler has returned
makes room at once, though its ack is still under way.

Stopping is a ladder: take no more, wait for handlers, cancel those that are left. Their messages are released, and
their deliveries do not count, since the consumer closes then.
"""

import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import trio

from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.delivery import LeasedMessage
from goqueue.client.working.settling import PAUSE_SECONDS, WorkerSettling, place_of, reason_of
from goqueue.errors import GoQueueError
from goqueue.nursery import PlainNursery

logger = logging.getLogger("goqueue.worker")

FLUSH_SECONDS_MAX = 2.0
"""Limit of the time for the last acks after a cancellation."""

Handle: TypeAlias = Callable[[Any], Awaitable[object]]
"""Runs the program's handler for a message, and raises its exceptions. A cancellation cancels the handler."""


class Worked(NamedTuple):
    """The counts of a worker's handlers."""

    handled: int
    """Handlers that returned."""
    failed: int
    """Handlers that raised; their messages are redelivered, or are dead letters."""
    cancelled: int
    """Handlers that were still running at the end; their messages were released."""


class Working:
    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._running = self._handled = self._failed = self._cancelled = 0
        self._has_room = trio.Event()
        self._taking, self._cut_off = trio.CancelScope(), trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._drain_seconds = math.inf
        self._is_stopping = False

    # From any thread, and from signal handlers

    def stop(self, drain_seconds: float) -> None:
        """Take no more, and wait this long for the handlers. Of several calls the shortest time holds."""
        self._drain_seconds = min(self._drain_seconds, drain_seconds)
        self._is_stopping = True
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._note_stop)

    # In Trio

    async def run(self, consumer: Consumer, handle: Handle) -> Worked:
        """Run until it is stopped."""
        self._token = trio.lowlevel.current_trio_token()
        if self._is_stopping:
            self._note_stop()
        settlements = WorkerSettling(consumer)
        try:
            async with PlainNursery() as tasks:
                tasks.start_soon(settlements.run)
                with self._cut_off:
                    await self._work(consumer, handle, settlements)
                    await settlements.flush()
                tasks.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + FLUSH_SECONDS_MAX):
                await settlements.flush()
        return Worked(self._handled, self._failed, self._cancelled)

    def _note_stop(self) -> None:
        self._taking.cancel()
        self._cut_off.deadline = min(self._cut_off.deadline, trio.current_time() + self._drain_seconds)

    async def _work(self, consumer: Consumer, handle: Handle, settlements: WorkerSettling) -> None:
        async with PlainNursery() as handlers:
            with self._taking:
                while not self._is_stopping:
                    for message in await self._next_messages(consumer):
                        self._running += 1
                        handlers.start_soon(self._work_on, message, handle, settlements)

    async def _next_messages(self, consumer: Consumer) -> list[Any]:
        """As many messages as there is room for, at least one. Waits for a broker that is away."""
        while self._running >= self._concurrency:
            self._has_room = trio.Event()
            await self._has_room.wait()
        try:
            return await consumer.receive(self._concurrency - self._running)
        except GoQueueError as error:
            if not error.retryable:
                raise
            logger.warning("nothing can be received: %s; trying again", error.message)
            await trio.sleep(PAUSE_SECONDS)
            return []

    async def _work_on(self, message: LeasedMessage, handle: Handle, settlements: WorkerSettling) -> None:
        try:
            await handle(message)
        except trio.Cancelled:
            self._cancelled += 1
            raise
        except Exception as error:
            await self._note_failure(message, error, settlements)
        except BaseExceptionGroup as group:
            self._cancelled += 1
            raise _only_cancellation(message, group) from None
        else:
            self._handled += 1
            settlements.ack(message)
        finally:
            self._running -= 1
            self._has_room.set()

    async def _note_failure(self, message: LeasedMessage, error: Exception, settlements: WorkerSettling) -> None:
        self._failed += 1
        _log_failure(message, error)
        await settlements.nack(message, reason_of(error))


def _log_failure(message: LeasedMessage, error: BaseException) -> None:
    logger.error("the handler failed for %s, attempt %d", place_of(message), message.attempt, exc_info=error)


def _only_cancellation(message: LeasedMessage, group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Log what a handler raised while it was cancelled: it must not end the worker."""
    cancellations, others = group.split(trio.Cancelled)
    if cancellations is None or not isinstance(others, ExceptionGroup):
        return group
    _log_failure(message, others)
    return cancellations

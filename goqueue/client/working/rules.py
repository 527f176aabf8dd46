"""The rules of a worker, the same on every surface: a handler runs for each message, a limited number at a time.

    prefetch ─► as many as there is room for begin: the broker is told, a handler runs for each
                   ▲                                                │
                   └── returned: an ack that is not waited for ◄────┼────► raised: nack with the reason, or reject

It runs in Trio, in the program or in goqueue's thread; only the way to run a handler differs between surfaces
(handlers.py). A message whose handler has returned makes room at once. What is prefetched, and how much, is up to
client/consuming/supply.py. When everything fails, the worker slows down (core/receiving/slowdown.py), and holds
nothing meanwhile.

Stopping is a ladder: take no more, wait for handlers, cancel those that are left. Their messages are released, and
their deliveries do not count, since the consumer closes then.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import trio

from goqueue.client.consuming.delivery import LeasedMessage
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.consuming.supply import Supply
from goqueue.client.working.handlers import Handlers, RunHandlers
from goqueue.client.working.runnable import why_it_cannot_run
from goqueue.client.working.settling import PAUSE_SECONDS, is_open, log_failure, place_of, tell_failure
from goqueue.core.receiving.pace import HELD_SECONDS_MAX, Pace
from goqueue.core.receiving.slowdown import PAUSE_MAX, Slowdown
from goqueue.errors import GoQueueError, HandlerCannotRun
from goqueue.nursery import PlainNursery

logger = logging.getLogger("goqueue.worker")


class Worked(NamedTuple):
    """The counts of a worker's handlers."""

    handled: int
    """Handlers that returned."""
    failed: int
    """Handlers that raised; their messages are redelivered, or are dead letters."""
    cancelled: int
    """Handlers that were still running at the end; their messages were released."""


class Working:
    def __init__(self, concurrency: int, defaults: Mapping[str, Any] = MappingProxyType({})) -> None:
        """`defaults`: the settings with which it makes its group."""
        self._concurrency = concurrency
        self._defaults = defaults
        self._work: Workload | None = None
        self._taking, self._cut_off = trio.CancelScope(), trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._drain_seconds = math.inf
        self._is_stopping = False

    # From any thread, and from signal handlers

    def stop(self, drain_seconds: float) -> None:
        """Take no more, and wait this long for the handlers. Of several calls the shortest time holds."""
        self._drain_seconds = min(self._drain_seconds, drain_seconds)
        self._is_stopping = True
        if self._work is not None:
            self._work.is_ending = True
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._note_stop)

    # In Trio

    def attach(self, consumer: QueueConsumer) -> None:
        """To a consumer that is not entered yet."""
        consumer.be_patient(self._defaults)
        self._supply = consumer.supply(Pace(self._concurrency))

    async def run(self, consumer: QueueConsumer, run_handlers: RunHandlers) -> Worked:
        """Run until it is stopped."""
        self._token = trio.lowlevel.current_trio_token()
        if self._is_stopping:
            self._note_stop()
        async with PlainNursery() as tasks:
            self._work = work = Workload(self._concurrency, consumer, self._supply, tasks)
            with self._cut_off:
                async with run_handlers(work) as handlers:
                    with self._taking:
                        await work.take_all(handlers)
                    work.is_ending = True
                await work.until_failures_are_told()
                await consumer.flush_acks()
            tasks.cancel_scope.cancel()
        return work.worked

    def _note_stop(self) -> None:
        self._taking.cancel()
        self._cut_off.deadline = min(self._cut_off.deadline, trio.current_time() + self._drain_seconds)


class Workload:
    """The messages at work, and those that come next."""

    def __init__(self, concurrency: int, consumer: QueueConsumer, supply: Supply, tasks: trio.Nursery) -> None:
        self._concurrency = concurrency
        self._consumer = consumer
        self._supply = supply
        self._tasks = tasks
        self._handlers: Handlers | None = None
        self._begun_at: dict[LeasedMessage, float] = {}
        """Messages whose handlers run, or whose failure is being told."""
        self._has_room = trio.Event()
        self._is_taking = False
        """The task is taking messages: nobody else does."""
        self.is_ending = False
        self._slowdown = Slowdown(concurrency)
        self._take_scope = trio.CancelScope()
        self._has_given_up = False
        self._handled = self._failed = self._cancelled = 0

    @property
    def worked(self) -> Worked:
        return Worked(self._handled, self._failed, self._cancelled)

    async def take_all(self, handlers: Handlers) -> None:
        self._handlers = handlers
        while not self.is_ending:
            room = self._slowdown.room(trio.current_time(), self._concurrency - len(self._begun_at))
            if room:
                await self._take(room)
            elif self._slowdown.is_slow:
                await self._pause()
            else:
                await self._until_room()

    async def _take(self, room: int) -> None:
        self._is_taking = True
        try:
            with trio.CancelScope() as self._take_scope:
                messages = await self._supply.take(room)
                self._begin(messages, trio.current_time())
        except GoQueueError as error:
            if not error.retryable:
                raise
            logger.warning("nothing can be received: %s; trying again", error.message)
            await trio.sleep(PAUSE_SECONDS)
        finally:
            self._is_taking = False

    async def _until_room(self) -> None:
        """What waits here meanwhile for too long goes back."""
        self._has_room = trio.Event()
        with trio.move_on_at(self._supply.overdue_at):
            await self._has_room.wait()
        self._supply.give_back_overdue()

    async def _pause(self) -> None:
        """Nothing is held meanwhile; what was on its way goes back within a second."""
        self._has_room = trio.Event()
        self._supply.give_back()
        now, until = trio.current_time(), self._slowdown.until
        with trio.move_on_at(min(until if until > now else math.inf, now + HELD_SECONDS_MAX)):
            await self._has_room.wait()

    def _begin(self, messages: Sequence[LeasedMessage], now: float) -> None:
        assert self._handlers is not None
        self._begun_at.update(dict.fromkeys(messages, now))
        self._slowdown.begun(map(place_of, messages))
        self._handlers.begin(messages)

    # The ends of handlers

    def returned(self, message: LeasedMessage) -> None:
        self._handled += 1
        if self._slowdown.succeeded():
            logger.info("a handler returned again: the worker goes on at its full speed")
        if is_open(message):
            self._supply.ack(message)
        self._note_end(message)

    def raised(self, message: LeasedMessage, error: BaseException) -> None:
        may_be_of_the_message = bool(self._handled) or self._consumer.is_final(error)
        cause = None if may_be_of_the_message else why_it_cannot_run(error)
        if cause is not None:
            self._give_up(cause, error)
            return
        self._failed += 1
        log_failure(message, error)
        if self._slowdown.failed(place_of(message), trio.current_time()):
            self._slow_down()
        self._tasks.start_soon(self._tell_failure, message, error)

    def _give_up(self, cause: HandlerCannotRun, error: BaseException) -> None:
        """The worker ends, and gives all messages back, uncounted. Those that ran beside it have the same error."""
        if not self._has_given_up:
            self._has_given_up = True
            self._tasks.start_soon(self._raise, cause, error)

    async def _raise(self, cause: HandlerCannotRun, error: BaseException) -> None:
        raise cause from error

    def _slow_down(self) -> None:
        logger.warning(
            "the last %d messages have all failed: one at a time is tried from now on, after pauses that grow to "
            "%.0f s, until a handler returns",
            self._slowdown.failures,
            PAUSE_MAX,
        )
        self._supply.pace.was_too_fast()
        self._take_scope.cancel()

    async def _tell_failure(self, message: LeasedMessage, error: BaseException) -> None:
        await tell_failure(self._consumer, message, error)
        self._note_end(message)

    def cancelled(self, message: LeasedMessage, error: BaseException | None = None) -> None:
        self._cancelled += 1
        if error is not None and not self._has_given_up:
            log_failure(message, error)
        self._note_end(message)

    def _note_end(self, message: LeasedMessage) -> None:
        """When all handlers that ran beside each other have ended, the next ones begin here: a turn of the event
        loop less, and one frame for the acks and for what begins."""
        begun_at = self._begun_at.pop(message)
        if not self._slowdown.is_slow:
            now = trio.current_time()
            self._supply.pace.ended(now - begun_at)
            if not self._begun_at and not self._is_taking and not self.is_ending:
                self._begin_next(now)
        self._supply.post_soon()
        if len(self._begun_at) < self._concurrency:
            self._has_room.set()

    def _begin_next(self, now: float) -> None:
        try:
            messages = self._supply.take_now(self._concurrency, now)
        except GoQueueError:
            return  # the task that takes is told, too, and raises it once
        self._begin(messages, now)

    async def until_failures_are_told(self) -> None:
        while self._begun_at:
            self._has_room = trio.Event()
            await self._has_room.wait()

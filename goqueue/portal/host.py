"""An async context manager that other threads enter, use and leave.

Trio wants a nursery to be opened and closed by one task. So each context that is entered from outside has a task of
its own in the Trio thread: it enters, runs the calls that come, waits until it is asked to leave, and leaves.

    enter ─► open: calls run beside each other ─► leave ─► farewell (a producer flushes) ─► over: calls are Closed

A host may be within another one, as a producer within its client. When the outer one is left, the inner one is
cancelled. The program's own exception never enters the Trio thread: two threads would write into its traceback.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import trio

from goqueue.errors import Closed
from goqueue.nursery import PlainNursery
from goqueue.portal.call import Call
from goqueue.portal.thread import TrioThread

T = TypeVar("T")
AnswerT = TypeVar("AnswerT")


class _Left(Exception):
    """Leaves the block, however that came about."""


def _nothing() -> None:
    """For hosts to which nothing comes but calls."""


class Host(Generic[T]):
    def __init__(
        self,
        name: str,
        make: Callable[[], AbstractAsyncContextManager[T]],
        thread: TrioThread,
        *,
        within: "Host[Any] | None" = None,
        farewell: Callable[[T], Awaitable[None]] | None = None,
    ) -> None:
        self._name = name
        self._make = make
        self.thread = thread
        self._within = within
        self._farewell = farewell
        self._tasks: trio.Nursery | None = None
        """None unless it is open."""
        self._leave_asked = trio.Event()
        self._leaving: list[Call[None]] = []
        self._error: BaseException | None = None
        """The error that ended it before it was left."""
        self._was_entered = self._has_failed = self.is_over = False
        self._before_each: Callable[[], object] = _nothing
        self._on_closing: Callable[[], object] = _nothing

    def on_closing(self, call: Callable[[], object]) -> None:
        """Call this in the Trio thread when no more calls are taken, before the context is left."""
        self._on_closing = call

    def before_each(self, call: Callable[[], object]) -> None:
        """Call this in the Trio thread before each call, so that what came before it is there."""
        self._before_each = call

    # From any thread

    def enter(self, call: Call[T]) -> None:
        self.thread.begin(call, lambda: self._spawn(call))

    def begin(self, call: Call[AnswerT], function: Callable[[], Awaitable[AnswerT]]) -> None:
        self.thread.begin(call, lambda: self._begin(call, function))

    def begin_now(self, call: Call[AnswerT], function: Callable[[], AnswerT]) -> None:
        """For functions that do not wait: no task is needed, and calls keep their order."""
        self.thread.begin(call, lambda: self._perform(call, function))

    def leave(self, call: Call[None], *, failed: bool) -> None:
        """Settled when it is over. Cancelling the call ends the farewell, and its rest is dropped."""
        self.thread.begin(call, lambda: self._note_leaving(call, failed))

    # In the Trio thread

    def _spawn(self, call: Call[T]) -> None:
        self._was_entered = True
        nursery = self.thread.nursery if self._within is None else self._within._tasks
        if nursery is None or self.is_over:
            call.fail(self._closed() if self._within is None else self._within._closed())
        else:
            nursery.start_soon(self._live, call, name=f"goqueue {self._name}")

    def _begin(self, call: Call[AnswerT], function: Callable[[], Awaitable[AnswerT]]) -> None:
        self._before_each()
        self.start(call, function)

    def start(self, call: Call[AnswerT], function: Callable[[], Awaitable[AnswerT]]) -> None:
        if self._tasks is None:
            call.fail(self._closed())
        else:
            self._tasks.start_soon(self._run, call, function)

    def run_beside(self, function: Callable[[], Awaitable[None]]) -> bool:
        """A task that is cancelled when the host is left. False when it is not open."""
        if self._tasks is None:
            return False
        self._tasks.start_soon(function)
        return True

    def _perform(self, call: Call[AnswerT], function: Callable[[], AnswerT]) -> None:
        if self._tasks is None:
            call.fail(self._closed())
            return
        self._before_each()
        try:
            call.succeed(function())
        except BaseException as error:
            call.fail(error)

    async def _run(self, call: Call[AnswerT], function: Callable[[], Awaitable[AnswerT]]) -> None:
        try:
            with call.scope:
                call.succeed(await function())
        except trio.Cancelled:
            raise
        except BaseException as error:
            call.fail(error)
        finally:
            call.fail(self._closed())  # cancelled: by its caller, or as the host ends

    async def _live(self, entering: Call[T]) -> None:
        try:
            with entering.scope:  # a caller that gives up entering leaves, even if it is just in
                async with self._make() as value:
                    await self._be_open(entering, value)
                    if self._has_failed or self._farewell is not None:
                        raise _Left
        except _Left:
            pass
        except trio.Cancelled:
            self._error = self._error or self._closed()
            raise
        except BaseException as error:
            self._error = error
        finally:
            self._end(entering)

    async def _be_open(self, entering: Call[T], value: T) -> None:
        async with PlainNursery() as tasks:
            self._tasks = tasks
            try:
                entering.succeed(value)
                await self._leave_asked.wait()
                await self._say_farewell(value)
            finally:
                self._tasks = None
                self._on_closing()
                tasks.cancel_scope.cancel()

    async def _say_farewell(self, value: T) -> None:
        if self._farewell is None or self._has_failed:
            return
        self._before_each()
        with self._leaving[0].scope as scope:
            try:
                await self._farewell(value)
            except Exception as error:
                self._error = error
        if scope.cancelled_caught:
            self._error = self._closed()

    def _end(self, entering: Call[T]) -> None:
        self.is_over = True
        entering.fail(self._error or self._closed())
        for call in self._leaving:
            self._settle_leaving(call)

    def _note_leaving(self, call: Call[None], failed: bool) -> None:
        self._has_failed = self._has_failed or failed
        if self.is_over:
            self._error = self._error or self._closed()
            self._settle_leaving(call)
        else:
            self._leaving.append(call)
            self._leave_asked.set()

    def _settle_leaving(self, call: Call[None]) -> None:
        """A block that ends with an exception does not get `Closed` on top of it."""
        if self._error is None or (self._has_failed and isinstance(self._error, Closed)):
            call.succeed(None)
        else:
            call.fail(self._error)

    def _closed(self) -> Closed:
        if not self._was_entered:
            return Closed(f"the {self._name} is not open yet; enter it by `with`, on asyncio by `async with`")
        return Closed(f"the {self._name} is closed")

"""Waits for a call in a thread without an event loop, so that Ctrl-C and a time limit can end the wait."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar

from goqueue.portal.call import Call
from goqueue.portal.host import Host
from goqueue.portal.thread import TrioThread
from goqueue.types import Seconds

P = ParamSpec("P")
T = TypeVar("T")

_deadline: ContextVar[float] = ContextVar("goqueue_deadline", default=math.inf)


@contextmanager
def fail_after(seconds: Seconds) -> Iterator[None]:
    """Calls that wait for goqueue in this block, in this thread, raise `TimeoutError` after this time.

    The call is cancelled; a message that was being published may have been written or not.
    """
    length = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    token = _deadline.set(min(_deadline.get(), time.monotonic() + length))
    try:
        yield
    finally:
        _deadline.reset(token)


def has_deadline() -> bool:
    """Whether this is a block of `fail_after`."""
    return _deadline.get() != math.inf


def wait_for(thread: TrioThread, begin: Callable[[Call[T]], None], deadline: float | None = None) -> T:
    """Begin a call and wait for its result. An interruption, at any moment, cancels it."""
    settled = threading.Lock()
    settled.acquire()
    call: Call[T] = Call(settled.release)
    try:
        begin(call)
        _acquire(settled, _deadline.get() if deadline is None else deadline)
    except BaseException:
        thread.give_up(call)
        raise
    return call.result()


def ask_now(host: Host[Any], function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run a function that does not wait in the Trio thread."""
    return wait_for(host.thread, lambda call: host.begin_now(call, partial(function, *arguments, **named)))


def leave(host: Host[Any], *, failed: bool) -> None:
    """Leave the host; nothing of it runs afterwards. In a child of the process there is nothing to leave."""
    if host.thread.is_lost or (failed and not host.thread.is_alive):
        return
    try:
        wait_for(host.thread, partial(host.leave, failed=failed), math.inf if failed else None)
    finally:
        if not host.is_over:  # interrupted: the rest of its work is dropped, which takes no time
            with suppress(Exception):
                wait_for(host.thread, partial(host.leave, failed=True), math.inf)


@contextmanager
def opened(host: Host[T]) -> Iterator[T]:
    """The value of the host, for a block."""
    value = wait_for(host.thread, host.enter)
    try:
        yield value
    except BaseException:
        leave(host, failed=True)
        raise
    leave(host, failed=False)


def _acquire(settled: threading.Lock, deadline: float) -> None:
    seconds = deadline - time.monotonic()
    timeout = -1 if seconds > threading.TIMEOUT_MAX else max(0.0, seconds)
    if not settled.acquire(timeout=timeout):
        raise TimeoutError("the broker has not answered within the time that fail_after gave")

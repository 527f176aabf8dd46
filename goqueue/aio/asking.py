"""How a task of asyncio waits for a call in the Trio thread; cancelling the task cancels the call."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from goqueue.portal.call import Call
from goqueue.portal.eventloop import check_asyncio_runs
from goqueue.portal.host import Host
from goqueue.portal.thread import TrioThread

P = ParamSpec("P")
T = TypeVar("T")


async def ask(host: Host[Any], function: Callable[P, Awaitable[T]], *arguments: P.args, **named: P.kwargs) -> T:
    """Its result; its errors come as themselves."""
    return await wait_for(host.thread, lambda call: host.begin(call, partial(function, *arguments, **named)))


async def wait_for(thread: TrioThread, begin: Callable[[Call[T]], None]) -> T:
    """Begin a call and wait for its result."""
    loop = _running_loop()
    settled = loop.create_future()
    call: Call[T] = Call(partial(_settled_of(loop).add, loop, settled))
    try:
        begin(call)
        await settled
    except BaseException:
        thread.give_up(call)
        raise
    return call.result()


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        check_asyncio_runs()
        raise


async def leave(host: Host[Any], *, failed: bool) -> None:
    """However it is left, nothing of it runs afterwards. In a child of the process there is nothing to leave."""
    if host.thread.is_lost or (failed and not host.thread.is_alive):
        return
    try:
        await wait_for(host.thread, partial(host.leave, failed=failed))
    finally:
        if not host.is_over:  # cancelled: what is left to do is dropped, which takes no time
            with suppress(Exception):
                await wait_for(host.thread, partial(host.leave, failed=True))


class _Settled:
    """Settled calls of one event loop: one wake-up of it serves all that come before it looks."""

    def __init__(self) -> None:
        self._futures: deque[asyncio.Future[None]] = deque()
        self._is_woken = False

    def add(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
        """From Trio's thread."""
        self._futures.append(future)
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        self._is_woken = False
        for _ in range(len(self._futures)):
            future = self._futures.popleft()
            if not future.done():
                future.set_result(None)


_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Settled]" = WeakKeyDictionary()


def _settled_of(loop: asyncio.AbstractEventLoop) -> _Settled:
    settled = _of_loops.get(loop)
    if settled is None:
        settled = _of_loops[loop] = _Settled()
    return settled

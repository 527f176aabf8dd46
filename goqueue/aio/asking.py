"""How a task of asyncio waits for a call in the Trio thread; cancelling the task cancels the call."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from goqueue.portal.call import Call
from goqueue.portal.host import Host
from goqueue.portal.thread import TrioThread

P = ParamSpec("P")
T = TypeVar("T")


async def ask(host: Host[Any], function: Callable[P, Awaitable[T]], *arguments: P.args, **named: P.kwargs) -> T:
    """Its result; its errors come as themselves."""
    return await wait_for(host.thread, lambda call: host.begin(call, partial(function, *arguments, **named)))


async def wait_for(thread: TrioThread, begin: Callable[[Call[T]], None]) -> T:
    """Begin a call and wait for its result."""
    loop = asyncio.get_running_loop()
    settled = loop.create_future()
    call: Call[T] = Call(partial(_tell, loop, settled))
    try:
        begin(call)
        await settled
    except BaseException:
        thread.give_up(call)
        raise
    return call.result()


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


def _tell(loop: asyncio.AbstractEventLoop, settled: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop has ended, and nobody waits
        loop.call_soon_threadsafe(_wake, settled)


def _wake(settled: asyncio.Future[None]) -> None:
    if not settled.done():
        settled.set_result(None)

"""Methods of the client for Trio, awaited by a task of asyncio."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate

from goqueue.aio.asking import ask
from goqueue.portal.forwarding import InnerT, Method, P, T, like, named_as


def forwarded(method: Callable[Concatenate[InnerT, P], Awaitable[T]]) -> Method[P, Coroutine[Any, Any, T]]:
    """Await the answer. The surface keeps what it forwards to as `_inner`."""
    name = method.__name__

    async def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return await ask(self._host, getattr(self._inner, name), *arguments, **named)

    return like(method)(named_as(method, call))

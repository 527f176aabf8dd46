"""Methods of the client for Trio, called from a thread without an event loop."""

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate

from goqueue.blocking.asking import ask
from goqueue.portal.forwarding import InnerT, Method, P, T, like, named_as


def forwarded(method: Callable[Concatenate[InnerT, P], Awaitable[T]]) -> Method[P, T]:
    """Wait for the answer. The surface keeps what it forwards to as `_inner`."""
    name = method.__name__

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return ask(self._host, getattr(self._inner, name), *arguments, **named)

    return like(method)(named_as(method, call))

"""A call of the client for Trio, made from a thread without an event loop."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from goqueue.portal.host import Host
from goqueue.portal.waiting import wait_for

P = ParamSpec("P")
T = TypeVar("T")


def ask(host: Host[Any], function: Callable[P, Awaitable[T]], *arguments: P.args, **named: P.kwargs) -> T:
    """Its result; its errors come as themselves."""
    return wait_for(host.thread, lambda call: host.begin(call, partial(function, *arguments, **named)))

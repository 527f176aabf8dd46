"""A program's function, called from Trio's thread: in a thread of its own, so that it may call the client."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

ArgT = TypeVar("ArgT")


def in_thread(function: Callable[[ArgT], object] | None) -> Callable[[ArgT], Awaitable[object]] | None:
    """Anything but a function is passed on, and refused later."""
    if not callable(function):
        return function

    async def call(argument: ArgT) -> object:
        return await trio.to_thread.run_sync(partial(function, argument), abandon_on_cancel=True)

    return call

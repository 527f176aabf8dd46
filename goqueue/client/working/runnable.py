"""Handlers that cannot run at all: every message would fail, though nothing is wrong with it.

What a signature shows is refused before a worker begins. That an async function is for another event loop shows
only when it runs: the library that it awaits raises an error that is known.
"""

import inspect
from collections.abc import Callable
from typing import Any

from goqueue.errors import HandlerCannotRun

FOREIGN_LOOP: dict[type[BaseException], tuple[str, ...]] = {
    RuntimeError: (
        "must be called from async context",
        "no running event loop",
        "There is no current event loop",
        "Task got bad yield",
    ),
    AttributeError: ("'RunContext' object has no attribute",),
    TypeError: ("trio.run received unrecognized yield message",),
}
"""How the errors begin that Trio and asyncio raise outside of their event loop, by class."""


def check_takes_a_message(handler: Callable[..., Any]) -> None:
    """`HandlerCannotRun` if it cannot be called with one argument, as far as its signature says."""
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # one that is written in C may have none
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise HandlerCannotRun(
            f"{_name_of(handler)}{signature} cannot be called with a message: {error}; a handler takes one argument"
        ) from None


def is_foreign(error: BaseException) -> bool:
    """Whether a handler met an event loop that it was not written for."""
    known = FOREIGN_LOOP.get(type(error), ())
    return bool(known) and str(error).startswith(known)


def foreign(error: BaseException) -> HandlerCannotRun:
    return HandlerCannotRun(
        f"the handler cannot run in this event loop ({type(error).__name__}: {error}); no attempt "
        "was counted. Functions for asyncio run by goqueue.aio.worker or `goqueue work --asyncio`, functions for "
        "Trio by goqueue.worker or `goqueue work --trio`, plain functions by goqueue.blocking.worker"
    )


def _name_of(handler: Callable[..., Any]) -> str:
    return str(getattr(handler, "__qualname__", repr(handler)))

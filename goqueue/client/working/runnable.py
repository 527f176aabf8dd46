"""Handlers that cannot run at all: every message would fail, though nothing is wrong with it.

What a signature shows is refused before a worker begins. The rest shows only when the handler runs. An async
function for another event loop: the library that it awaits raises an error that is known. A missing import: an
import statement fails, in the handler or in a module that it imports. A name that is imported by `importlib`, or
an `ImportError` that a library raises by itself, may depend on the message, and is an error like any other.
"""

import dis
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


IMPORTS = ("IMPORT_NAME", "IMPORT_FROM")
"""The instructions of an import statement."""


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


def why_it_cannot_run(error: BaseException) -> HandlerCannotRun | None:
    """None if other messages may fare better."""
    if is_foreign(error):
        return HandlerCannotRun(
            f"the handler cannot run in this event loop ({_words(error)}); no attempt was counted. Functions "
            "for asyncio run by goqueue.aio.worker or `goqueue work --asyncio`, functions for Trio by "
            "goqueue.worker or `goqueue work --trio`, plain functions by goqueue.blocking.worker"
        )
    place = failed_import(error)
    if place is None:
        return None
    return HandlerCannotRun(
        f"the handler cannot import what it needs ({_words(error)}, {place}); no attempt was counted. Install it "
        "or correct the import, and start the worker again"
    )


def is_foreign(error: BaseException) -> bool:
    """Whether a handler met an event loop that it was not written for."""
    known = FOREIGN_LOOP.get(type(error), ())
    return bool(known) and str(error).startswith(known)


def failed_import(error: BaseException) -> str | None:
    """The place of the import statement that raised it; None if something else did."""
    trace = error.__traceback__ if isinstance(error, ImportError) else None
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    code, at = trace.tb_frame.f_code, trace.tb_lasti
    is_import = 0 <= at < len(code.co_code) and dis.opname[code.co_code[at]] in IMPORTS  # compiled code has none
    return f"{code.co_filename}, line {trace.tb_lineno}" if is_import else None


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _name_of(handler: Callable[..., Any]) -> str:
    return str(getattr(handler, "__qualname__", repr(handler)))

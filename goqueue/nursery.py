"""A nursery that hands on the one error that happened, and not a group with one error in it.

Trio wraps whatever leaves a nursery in an exception group. Most often one thing went wrong and the rest are
cancellations that followed from it; then that one error is what callers, supervisors and people want to see.
Two errors that happened both stay a group.
"""

from types import TracebackType

import trio


def errors_in(error: BaseException) -> list[BaseException]:
    """The errors that a group, and the groups in it, hold; a plain error is its own only one."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in errors_in(part)]
    return [error]


def lone_error(error: BaseException) -> BaseException:
    """What happened, when but one thing did; else the group of what did. Cancellations are consequences."""
    if isinstance(error, BaseExceptionGroup):
        error = error.split(trio.Cancelled)[1] or errors_in(error)[0]
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


class PlainNursery:
    """`async with PlainNursery() as nursery`: as Trio's, but a single error leaves it bare."""

    def __init__(self) -> None:
        self._inner = trio.open_nursery()

    async def __aenter__(self) -> trio.Nursery:
        return await self._inner.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            return bool(await self._inner.__aexit__(kind, error, trace))
        except BaseExceptionGroup as group:
            lone = lone_error(group)
        if lone is error:
            return False
        _raise_as_it_was(lone)
        raise AssertionError("unreachable")


def _raise_as_it_was(error: BaseException) -> None:
    """Raise without making what is handled just now the error's context: it is no part of its story."""
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context
        del error, context

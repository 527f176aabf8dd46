"""A nursery that raises a single error as it is, not as a group with one error in it.

Trio wraps every exception that leaves a nursery in an exception group. Most often one thing went wrong and the rest
are cancellations that followed from it; then callers, supervisors and people want to see that one error. Two errors
stay a group.
"""

from types import TracebackType

import trio


def errors_in(error: BaseException) -> list[BaseException]:
    """The errors in a group and in the groups within it; a plain error is the only one."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in errors_in(part)]
    return [error]


def lone_error(error: BaseException) -> BaseException:
    """The error, if there is only one, else the group of all. Cancellations are consequences and do not count."""
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
    """Raise without the exception that is being handled as the error's context: they are not related."""
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context
        del error, context

"""Methods of another surface that are those of the client for Trio: declared once, there.

`forwarded(TrioClient.create_topic)` has its parameters, defaults, types and text, for programs, editors and type
checkers alike. What differs is only how a surface waits, which its own `forwarded` says.
"""

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from goqueue.portal.waiting import ask_now

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
InnerT = TypeVar("InnerT")


class Method(Protocol, Generic[P, T_co]):
    """A function in a class, as a type checker sees it through an instance."""

    def __get__(self, instance: object, owner: type | None = None) -> Callable[P, T_co]: ...


def like(method: Callable[Concatenate[InnerT, P], object]) -> Callable[[Callable[..., T]], Method[P, T]]:
    """The decorated method takes what `method` takes, and answers in its own way."""

    def dress(function: Callable[..., T]) -> Method[P, T]:
        asked, answers = inspect.signature(method), inspect.signature(function)
        function.__signature__ = asked.replace(  # type: ignore[attr-defined]
            return_annotation=answers.return_annotation
        )
        function.__name__, function.__doc__ = method.__name__, function.__doc__ or method.__doc__
        owner: Any = function
        return owner  # type: ignore[no-any-return]

    return dress


def forwarded_now(method: Callable[Concatenate[InnerT, P], T]) -> Method[P, T]:
    """For a method that does not wait in Trio either, on any surface that keeps what it forwards to as `_inner`."""
    name = method.__name__

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return ask_now(self._host, getattr(self._inner, name), *arguments, **named)

    call.__annotations__["return"] = inspect.signature(method).return_annotation
    return like(method)(call)

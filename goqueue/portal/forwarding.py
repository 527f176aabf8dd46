"""Methods of another surface that are those of the client for Trio: declared once, there.

`forwarded(TrioClient.create_topic)` has its parameters, defaults, types and text, for programs, editors and type
checkers alike. What differs is only how a surface waits, which its own `forwarded` says.
"""

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from goqueue.portal.waiting import ask_now

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
InnerT = TypeVar("InnerT")


class Method(Protocol, Generic[P, T_co]):
    """A function in a class, as a type checker sees it through the class and through an instance."""

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[Any, P], T_co]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[P, T_co]: ...


def taking(options: Callable[P, object]) -> Callable[[Callable[..., T]], Method[P, T]]:
    """The decorated method takes what the class `options` takes, which declares it."""

    def dress(function: Callable[..., T]) -> Method[P, T]:
        dressed: Any = _dressed(function, list(inspect.signature(options).parameters.values()))
        return cast(Method[P, T], dressed)

    return dress


def like(method: Callable[Concatenate[InnerT, P], object]) -> Callable[[Callable[..., T]], Method[P, T]]:
    """The decorated method takes what `method` takes behind its first argument, and answers in its own way."""

    def dress(function: Callable[..., T]) -> Method[P, T]:
        function.__doc__ = function.__doc__ or method.__doc__
        dressed: Any = _dressed(function, list(inspect.signature(method).parameters.values())[1:])
        return cast(Method[P, T], dressed)

    return dress


def _dressed(function: Callable[..., T], parameters: list[inspect.Parameter]) -> Callable[..., T]:
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    dressed = inspect.signature(function).replace(parameters=[this, *parameters])
    function.__signature__ = dressed  # type: ignore[attr-defined]
    return function


def forwarded_now(method: Callable[Concatenate[InnerT, P], T]) -> Method[P, T]:
    """For a method that does not wait in Trio either, on any surface with the Trio object as `_inner`."""
    name = method.__name__

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return ask_now(self._host, getattr(self._inner, name), *arguments, **named)

    return like(method)(named_as(method, call))


def named_as(method: Callable[..., Any], call: Callable[..., T]) -> Callable[..., T]:
    """Give `call` the name and the return type of the method that it forwards to, for introspection."""
    call.__name__ = call.__qualname__ = method.__name__
    call.__annotations__["return"] = inspect.signature(method).return_annotation
    return call

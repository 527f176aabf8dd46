"""How a method says which message it handles.

`@answers(Kind)`: the method returns the answer. `@defers(Kind)`: the method is given the reply and settles it, now
or later. `@hears(Kind)`: the method is told news. The type checker holds each method to the message that it names
and to the answer which that message promises.

A method is of an actor, or of a part: a plain object that the actor owns (`Actor.add_parts`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Generic, TypeVar

from goqueue.actors.runtime.messages import News, Reply, Request

ActorT = TypeVar("ActorT")
AnswerT = TypeVar("AnswerT")
KindT_co = TypeVar("KindT_co", covariant=True)
NewsT = TypeVar("NewsT", bound=News)

_MARK = "_handled_message"


class Manner(Enum):
    ANSWERS = "answers"
    DEFERS = "defers"
    HEARS = "hears"


@dataclass(frozen=True, slots=True)
class Mark:
    """A subclass may override a marked method, so it is known by its name."""

    kind: type[Any]
    manner: Manner
    method: str


@dataclass(frozen=True, slots=True)
class Handler:
    """Handles the messages of one class, for one actor."""

    defers: bool
    method: Callable[..., Awaitable[Any]]


class answers(Generic[KindT_co]):  # noqa: N801 - a decorator
    def __init__(self, kind: type[KindT_co]) -> None:
        self._kind = kind

    def __call__(
        self: "answers[Request[AnswerT]]", method: Callable[[ActorT, KindT_co], Awaitable[AnswerT]]
    ) -> Callable[[ActorT, KindT_co], Awaitable[AnswerT]]:
        return _marked(method, self._kind, Manner.ANSWERS)


class defers(Generic[KindT_co]):  # noqa: N801 - a decorator
    def __init__(self, kind: type[KindT_co]) -> None:
        self._kind = kind

    def __call__(
        self: "defers[Request[AnswerT]]",
        method: Callable[[ActorT, KindT_co, Reply[AnswerT]], Awaitable[None]],
    ) -> Callable[[ActorT, KindT_co, Reply[AnswerT]], Awaitable[None]]:
        return _marked(method, self._kind, Manner.DEFERS)


def hears(
    kind: type[NewsT],
) -> Callable[[Callable[[ActorT, str, NewsT], Awaitable[None]]], Callable[[ActorT, str, NewsT], Awaitable[None]]]:
    return lambda method: _marked(method, kind, Manner.HEARS)


MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def _marked(method: MethodT, kind: type[Any], manner: Manner) -> MethodT:
    setattr(method, _MARK, Mark(kind, manner, method.__name__))
    return method


def add_handlers(table: dict[type[Any], Handler], owner: object) -> None:
    """Enter the marked methods of `owner`, an actor or a part of one, by the class of their messages."""
    for mark in marks_of(type(owner)):  # type: ignore[arg-type]
        if mark.kind in table:
            known = table[mark.kind].method.__qualname__
            raise TypeError(f"{mark.kind.__name__} is handled twice: in {known} and in {type(owner).__name__}")
        table[mark.kind] = Handler(mark.manner is Manner.DEFERS, getattr(owner, mark.method))


@cache
def marks_of(owner: type[Any]) -> tuple[Mark, ...]:
    """A class may mark a method again that it overrides, but no second method for the same messages."""
    found: dict[type[Any], Mark] = {}
    for base in reversed(owner.__mro__):
        for member in vars(base).values():
            mark = getattr(member, _MARK, None)
            if isinstance(mark, Mark) and found.setdefault(mark.kind, mark) != mark:
                names = f"{found[mark.kind].method} and {mark.method}"
                raise TypeError(f"{owner.__name__} handles {mark.kind.__name__} twice: in {names}")
    return tuple(found.values())

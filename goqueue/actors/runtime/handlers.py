"""How a method says which message it handles.

`@answers(Kind)`: the method returns the answer. `@defers(Kind)`: the method is given the reply and settles it, now
or later. `@hears(Kind)`: the method is told news. The type checker holds each method to the message that it names
and to the answer which that message promises.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
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
class Handler:
    """Found by the message's class, called by name: a subclass may override the method."""

    kind: type[Any]
    manner: Manner
    method: str


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
    setattr(method, _MARK, Handler(kind, manner, method.__name__))
    return method


def handlers_of(actor: type[Any]) -> dict[type[Any], Handler]:
    """Every message that the class and its bases handle, by the message's class."""
    table: dict[type[Any], Handler] = {}
    for base in reversed(actor.__mro__):
        for member in vars(base).values():
            handler = getattr(member, _MARK, None)
            if isinstance(handler, Handler):
                _enter(table, handler, actor.__name__)
    return table


def _enter(table: dict[type[Any], Handler], handler: Handler, actor: str) -> None:
    known = table.setdefault(handler.kind, handler)
    if known.method != handler.method:
        raise TypeError(f"{actor} handles {handler.kind.__name__} twice: in {known.method} and {handler.method}")
    table[handler.kind] = handler

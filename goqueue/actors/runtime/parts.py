"""What a part of an actor uses of the actor, and answers that a background task gives for it."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack

import trio

from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.errors import GoQueueError, LogStopped

AnswerT = TypeVar("AnswerT")
Args = TypeVarTuple("Args")


class PartHost(Protocol):
    """An `Actor` is one. In a test without an actor, so is any object with these methods."""

    @property
    def name(self) -> str: ...

    @property
    def ref(self) -> ActorRef: ...

    def background(
        self, task: Callable[[Unpack[Args]], Awaitable[object]], *args: *Args, endless: bool = False
    ) -> trio.CancelScope: ...

    def wake(self) -> None: ...


@contextmanager
def refusing(reply: Reply[Any]) -> Iterator[None]:
    """For background tasks: the caller gets a refusal. A failed disk ends the actor, as it does within a turn."""
    try:
        yield
    except LogStopped:
        raise
    except GoQueueError as error:
        reply.fail(error)


async def answer(reply: Reply[AnswerT], work: Callable[[*Args], Awaitable[AnswerT]], *args: *Args) -> None:
    """A background task that answers: `host.background(answer, reply, work, ...)`."""
    with refusing(reply):
        reply.resolve(await work(*args))

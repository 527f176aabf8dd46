"""The protocol that the parts of a client use, so that each can be tested without a client."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from goqueue.client.link.link import Link
from goqueue.client.link.topics import Topic
from goqueue.environment import WallClock
from goqueue.net.wire.kinds import Request

AnswerT = TypeVar("AnswerT")


class Sending(Protocol):
    """The sender of a producer, for its client."""

    @property
    def topic(self) -> Topic: ...

    def pump_all(self) -> None:
        """There is a connection again: send waiting batches."""

    async def refresh(self) -> None:
        """Ask the broker for the topic, and use the answer."""


class Caller(Protocol):
    name: str
    clock: WallClock
    link: Link | None
    """The connection, while there is one."""
    why_away: str
    """Why the last attempt to connect failed, while there is no connection."""
    senders: dict[Sending, None]
    """The senders to notify when there is a connection again."""

    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT:
        """Send a request, again when the connection is lost or the broker answers with a retryable error."""

    async def topic(self, name: str) -> Topic: ...

    def spawn(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Run a background task, as long as the client is open."""

"""What the parts of a client need of it. One protocol, so that each part can be tested without a client."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from goqueue.client.link.link import Link
from goqueue.client.link.topics import Topic
from goqueue.environment import WallClock
from goqueue.net.wire.kinds import Request

AnswerT = TypeVar("AnswerT")


class Sending(Protocol):
    """The sender of a producer, as its client knows it."""

    @property
    def topic(self) -> Topic: ...

    def pump_all(self) -> None:
        """There is a connection again: send what waits."""

    async def refresh(self) -> None:
        """Ask how the topic is now, and go by that."""


class Caller(Protocol):
    name: str
    clock: WallClock
    link: Link | None
    """The connection, while there is one."""
    why_away: str
    """While there is none: why the last attempt failed."""
    senders: dict[Sending, None]
    """Those who want to know when there is a connection again."""

    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT:
        """Ask; again when the connection is lost or the broker says that a repeat may help."""

    async def topic(self, name: str) -> Topic: ...

    def spawn(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Run something beside the program, as long as the client is open."""

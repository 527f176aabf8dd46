"""The events of a session for its owner. A frame causes at most one.

Requests and answers are named tuples: these are made for every frame, in half the time of a frozen dataclass.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from goqueue.errors import GoQueueError
from goqueue.net.wire.kinds import Answer, Request
from goqueue.net.wire.messages import Hello, Welcome


@dataclass(frozen=True, slots=True)
class HelloReceived:
    """Answer with `welcome`, or with `close` and the reason."""

    hello: Hello
    version: int


@dataclass(frozen=True, slots=True)
class Welcomed:
    welcome: Welcome


class RequestReceived(NamedTuple):
    """Answer it once, with `answer` or `refuse`."""

    correlation: int
    request: Request


class AnswerReceived(NamedTuple):
    correlation: int
    answer: Answer
    throttle_ms: int = 0


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The other end refused the request, or its answer could not be read."""

    correlation: int
    error: GoQueueError
    throttle_ms: int = 0


@dataclass(frozen=True, slots=True)
class GoAwayReceived:
    reason: str
    retry_after_ms: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Something bad came and was refused; the session goes on. Worth a line in the log."""

    correlation: int
    error: GoQueueError


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """The session is over. Send what `next_frame` still gives, then close the transport."""

    error: GoQueueError


Event: TypeAlias = (
    HelloReceived
    | Welcomed
    | RequestReceived
    | AnswerReceived
    | RequestFailed
    | GoAwayReceived
    | Refused
    | SessionClosed
)

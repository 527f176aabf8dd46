"""Where the answer to a request goes.

A session answers a request once, from whatever task or actor's turn has the outcome. It never waits for the client:
whoever carries answers to one keeps them and sends those of one turn together.
"""

from collections.abc import Coroutine
from enum import Enum, auto
from typing import Any, Protocol, TypeAlias

import trio

from goqueue.errors import GoQueueError
from goqueue.net.wire.kinds import Answer

Rest: TypeAlias = Coroutine[Any, Any, None]
"""The part of a request that has to wait for room. Its client's next request is taken when it has ended."""


class Haste(Enum):
    """When an answer is sent. Each send costs the broker, and wakes the client."""

    AT_ONCE = auto()
    WITH_TURN = auto()
    """Other answers are about to follow in this turn of the event loop: together with these."""
    LATER = auto()
    """Nobody waits for it: together with the next answers, or a few milliseconds later."""


class Responder(Protocol):
    """One of the two is called, once. Neither waits nor raises."""

    @property
    def request_id(self) -> str:
        """Names the request in the audit."""
        ...

    def answer(self, answer: Answer, throttle_ms: int = 0, haste: Haste = Haste.AT_ONCE) -> None: ...

    def refuse(self, error: GoQueueError) -> None: ...


class AwaitedAnswer:
    """For a caller that waits for the answer in its own task."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.throttle_ms = 0
        self._is_settled = trio.Event()
        self._outcome: Answer | GoQueueError | None = None

    def answer(self, answer: Answer, throttle_ms: int = 0, haste: Haste = Haste.AT_ONCE) -> None:  # noqa: ARG002
        self.throttle_ms = throttle_ms
        self._settle(answer)

    def refuse(self, error: GoQueueError) -> None:
        self._settle(error)

    def _settle(self, outcome: Answer | GoQueueError) -> None:
        self._outcome = outcome
        self._is_settled.set()

    async def wait(self) -> None:
        await self._is_settled.wait()

    @property
    def outcome(self) -> Answer:
        """The answer of a settled request; raises the error of a refused one."""
        assert self._outcome is not None, "there is no outcome yet"
        if isinstance(self._outcome, GoQueueError):
            raise self._outcome
        return self._outcome

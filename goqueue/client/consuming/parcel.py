"""Received messages on their way to another thread, whose program may have stopped waiting for them.

Whether it has is only known in Trio's thread, where both are told in turn: that messages have come, and that nobody
wants them. Whichever comes second finds the first, so messages that reach nobody go back to the consumer.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from goqueue.client.consuming.consumer import Consumer


class Parcel:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.messages: list[Any] = []
        self._is_refused = False

    async def fill(self, receive: Callable[[], Awaitable[Sequence[Any]]]) -> None:
        messages = await receive()
        if self._is_refused:
            self._consumer.take_back(messages)
        else:
            self.messages = list(messages)

    def refuse(self) -> None:
        """Nobody waits any more."""
        self._is_refused = True
        self._consumer.take_back(self.messages)
        self.messages = []

"""Passes received messages to another thread, whose program may have stopped waiting for them.

Both events happen in Trio's thread, in some order: that messages have come, and that the program has given up.
Whichever comes second sees the first, so messages that the program does not get go back to the consumer.
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
        """The program no longer waits."""
        self._is_refused = True
        self._consumer.take_back(self.messages)
        self.messages = []

"""The share that one kind of request has of those that may be under way on a connection."""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from goqueue.errors import GoQueueError
from goqueue.net.wire.kinds import Answer

OnAnswer: TypeAlias = Callable[[Answer | GoQueueError], None]
"""Called once, in the task that reads: it does not wait and does not raise."""


class RequestShare:
    """Requests of one kind on a connection: how many may be under way, and who waits for room.

    While others wait for room there is none: a send queue that has just been answered would take the room again and
    again, before those that had none yet.
    """

    def __init__(self, requests_max: int) -> None:
        self.requests_max = requests_max
        self._under_way = 0
        self._want_room: deque[Callable[[], None]] = deque()

    @property
    def has_room(self) -> bool:
        return self._under_way < self.requests_max and not self._want_room

    def taken(self, on_answer: OnAnswer) -> OnAnswer:
        """One request more; its answer gives its place to those that wait."""
        self._under_way += 1

        def settle(outcome: Answer | GoQueueError) -> None:
            self._under_way -= 1
            on_answer(outcome)
            if self._want_room:
                self.give()

        return settle

    def want(self, go_on: Callable[[], None]) -> None:
        self._want_room.append(go_on)

    def give(self) -> None:
        """Call those that wait, in order. Those for which there is no room keep their turn."""
        waiting, self._want_room = self._want_room, deque()
        while waiting and self.has_room:
            waiting.popleft()()
        self._want_room.extendleft(reversed(waiting))

    def close(self) -> None:
        self._want_room.clear()

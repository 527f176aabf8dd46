"""A buffer of a stream's messages for other threads, which knows the messages that are handled.

A message that was taken is at work until the next one is taken. Trio's thread looks here for messages that it may
commit, and takes back those that must not be handed out any more. So both hold a lock, for a moment.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from goqueue.portal.buffer import MessageBuffer
from goqueue.portal.thread import TrioThread, new_lock

ItemT = TypeVar("ItemT")


class StreamBuffer(MessageBuffer[ItemT]):
    def __init__(self, fetch: Callable[[], Awaitable[Sequence[ItemT]]]) -> None:
        super().__init__(fetch)
        self._lock = new_lock()
        self._at_work: list[ItemT] = []

    # From any thread

    def take(self) -> ItemT | None:
        """The next message; those before it are handled. None: there is none, call `fill`."""
        with self._lock:
            if self._is_closed:
                raise self._closed()
            self._at_work = [self.items.popleft()] if self.items else []
            return self._at_work[0] if self._at_work else None

    def close(self, thread: TrioThread) -> None:
        """Messages that are here or at work stay known: they are not handled."""
        with self._lock:
            self._is_closed = True
        thread.tell(self._wake)

    # In the Trio thread

    def in_hand(self) -> list[ItemT]:
        with self._lock:
            return [*self._at_work, *self.items]

    def at_work(self) -> list[ItemT]:
        return self._at_work

    def end_work(self, is_done: Callable[[ItemT], bool]) -> None:
        with self._lock:
            self._at_work = [item for item in self._at_work if not is_done(item)]

    def withdraw(self, is_wanted: Callable[[ItemT], bool]) -> list[ItemT]:
        """Take these back; the others stay."""
        with self._lock:
            withdrawn = [item for item in self.items if is_wanted(item)]
            if withdrawn:
                self.items = deque(item for item in self.items if not is_wanted(item))
            return withdrawn

    def _wake(self) -> None:
        for scope in self._scopes:
            scope.cancel()

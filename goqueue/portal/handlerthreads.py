"""Threads that run a program's functions, each for one item at a time, and tell Trio's thread how they ended."""

from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

from goqueue.portal.thread import TrioThread, start_thread

NoteEnd: TypeAlias = Callable[[Any, BaseException | None], None]
"""Called in the Trio thread with an item, and what its function raised."""


class HandlerThreads:
    """A thread takes the next item by itself. Each function has a copy of the context."""

    def __init__(self, function: Callable[[Any], object], context: Context) -> None:
        self._function = function
        self._context = context
        self._items: SimpleQueue[Any] = SimpleQueue()
        self._count = 0

    def start(self, items: Sequence[Any], running: int, trio_thread: TrioThread, note_end: NoteEnd) -> None:
        """Run the function for these; then so many run at a time."""
        for _ in range(running - self._count):
            self._count += 1
            name = f"goqueue handler {self._count}"
            start_thread(partial(self._work, trio_thread, note_end), name)
        for item in items:
            self._items.put(item)

    def close(self) -> None:
        """The threads end, each when its function has."""
        for _ in range(self._count):
            self._items.put(None)

    # In a thread of its own

    def _work(self, trio_thread: TrioThread, note_end: NoteEnd) -> None:
        while (item := self._items.get()) is not None:
            trio_thread.tell(partial(note_end, item, self._error_of(item)))

    def _error_of(self, item: Any) -> BaseException | None:
        try:
            self._context.copy().run(self._function, item)
        except BaseException as error:
            return error
        return None

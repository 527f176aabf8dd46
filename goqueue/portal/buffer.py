"""A buffer of a reader's messages for other threads: filled with whole batches, and taken from one by one.

A thread that waits for the next batch may be cancelled or give up at any time. So a batch is not the answer of a
call, which might be lost; it is put here, for the next thread. Threads that read from one buffer share messages.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import trio

from goqueue.errors import Closed
from goqueue.portal.thread import TrioThread, emptied_in_children

ItemT = TypeVar("ItemT")


class MessageBuffer(Generic[ItemT]):
    def __init__(self, fetch: Callable[[], Awaitable[Sequence[ItemT]]]) -> None:
        self._fetch = fetch
        self.items: deque[ItemT] = deque()
        self._fetching = trio.Lock()
        self._scopes: set[trio.CancelScope] = set()
        self._is_closed = False
        emptied_in_children.add(self)

    # From any thread

    def take_all(self) -> list[ItemT]:
        taken: list[ItemT] = []
        try:
            while True:
                taken.append(self.items.popleft())
        except IndexError:
            return taken

    def clear(self) -> None:
        self.items.clear()

    def close(self, thread: TrioThread) -> None:
        """Waiting threads get `Closed`."""
        self._is_closed = True
        self.clear()
        thread.tell(self._wake)

    # In the Trio thread

    async def fill(self) -> bool:
        """Wait until there are messages; False when none will come any more."""
        if self._is_closed:
            raise self._closed()
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await self._fill()
            finally:
                self._scopes.discard(scope)
        raise self._closed()

    async def _fill(self) -> bool:
        async with self._fetching:
            if self.items:
                return True
            fetched = await self._fetch()
            self.items.extend(fetched)
            return bool(fetched)  # other threads may have taken them already

    def _wake(self) -> None:
        self.clear()
        for scope in self._scopes:
            scope.cancel()

    def _closed(self) -> Closed:
        return Closed("the reader is closed; make another by client.read")

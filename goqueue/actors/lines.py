"""Requests that look one after the other, in the order in which they came, though each has a task of its own.

Trio lets tasks that are ready at the same time run in any order. Of two receives of one member the first must have
the first messages.
"""

from typing import TypeAlias

import trio

Name: TypeAlias = tuple[str, str]


class Turn:
    def __init__(self, before: trio.Event | None) -> None:
        self._before = before
        self.over = trio.Event()

    async def come(self) -> None:
        if self._before is not None:
            await self._before.wait()


class Lines:
    def __init__(self) -> None:
        self._last: dict[Name, trio.Event] = {}

    def join(self, name: Name) -> Turn:
        """In the order of the calls; end the turn by `leave`."""
        turn = Turn(self._last.get(name))
        self._last[name] = turn.over
        return turn

    def leave(self, name: Name, turn: Turn) -> None:
        turn.over.set()
        if self._last.get(name) is turn.over:
            del self._last[name]

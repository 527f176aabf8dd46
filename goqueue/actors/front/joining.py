"""Joins that were read from a connection and have not reached their groups yet.

A group is looked for first, and made if need be, while the connection reads on. A member that leaves meanwhile must
not be heard before it has joined: it would stay a member of which nobody hears again.
"""

from dataclasses import dataclass, field

import trio

from goqueue.actors.front.members import Name


@dataclass(slots=True)
class _UnderWay:
    count: int = 0
    over: trio.Event = field(default_factory=trio.Event)


class Joins:
    def __init__(self) -> None:
        self._under_way: dict[Name, _UnderWay] = {}

    def begin(self, name: Name) -> None:
        """When it is read, so in the order of the frames."""
        self._under_way.setdefault(name, _UnderWay()).count += 1

    def end(self, name: Name) -> None:
        """Its group has it in its mailbox, or never will."""
        joining = self._under_way[name]
        joining.count -= 1
        if not joining.count:
            del self._under_way[name]
            joining.over.set()

    async def wait(self, name: Name) -> None:
        """Until those that were begun are ended."""
        joining = self._under_way.get(name)
        if joining is not None:
            await joining.over.wait()

"""Joins that were read from a connection and have not reached their groups yet.

A group is found first, or created, while the connection reads on. A leave that comes meanwhile must not overtake
the join: the member would stay in the group for ever.
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
        """Called when the join is read, so in the order of the frames."""
        self._under_way.setdefault(name, _UnderWay()).count += 1

    def end(self, name: Name) -> None:
        """The join is in the mailbox of its group, or failed."""
        joining = self._under_way[name]
        joining.count -= 1
        if not joining.count:
            del self._under_way[name]
            joining.over.set()

    async def wait(self, name: Name) -> None:
        """Until all joins of this member that were begun have ended."""
        joining = self._under_way.get(name)
        if joining is not None:
            await joining.over.wait()

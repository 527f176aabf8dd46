"""The members of groups that use one session, and their joins under way.

Their groups are told when it ends. A group whose mailbox is full just then finds out by itself, when the member's
session is over.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import trio

from goqueue.actors.front.bounds import Slots
from goqueue.actors.groups.requests import MemberLost
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.waiting.turns import MemberTurns
from goqueue.errors import GoQueueError
from goqueue.net.wire.errors import TooManyRequests
from goqueue.net.wire.groups import ReceivePartition

Name: TypeAlias = tuple[str, str]
"""A group, and a member of it."""


@dataclass(slots=True)
class _MemberSeat:
    group: ActorRef
    turns: MemberTurns[ReceivePartition] = field(default_factory=MemberTurns)
    turn: Slots = field(default_factory=partial(Slots, 1))
    """One receive of a member at a time takes and answers, so that messages come in order."""


class Members:
    def __init__(self, counts: GroupCounts, most: int) -> None:
        self._counts = counts
        self._most = most
        self._seats: dict[Name, _MemberSeat] = {}

    def group_of(self, name: Name) -> ActorRef | None:
        """None if the member was not here before, or its group was deleted."""
        seat = self._seats.get(name)
        return None if seat is None or seat.group.is_down else seat.group

    def add(self, name: Name, group: ActorRef) -> bool:
        """Whether the member is new on this connection."""
        seat = self._seats.get(name)
        if seat is not None:
            seat.group = group
            return False
        if len(self._seats) >= self._most:
            raise TooManyRequests(f"{self._most:,} members speak over this connection; open another one for more")
        self._seats[name] = _MemberSeat(group)
        self._counts.members += 1
        return True

    def remove(self, name: Name) -> None:
        if self._seats.pop(name, None) is not None:
            self._counts.members -= 1

    def lose_all(self, connection: int) -> None:
        """The connection has ended."""
        for (_, member), seat in self._seats.items():
            with suppress(GoQueueError):
                seat.group.cast(MemberLost(member, connection))
        self._counts.members -= len(self._seats)
        self._seats.clear()

    def turns(self, name: Name) -> tuple[MemberTurns[ReceivePartition], Slots]:
        """Its receives so far, and the slot for the one that takes."""
        seat = self._seats.get(name)
        return (MemberTurns(), Slots(1)) if seat is None else (seat.turns, seat.turn)


@dataclass(slots=True)
class _UnderWay:
    count: int = 0
    over: trio.Event = field(default_factory=trio.Event)


class Joins:
    """Joins that were taken and have not reached their groups yet.

    A group is found first, or created, while other requests are taken. A leave that comes meanwhile must not
    overtake the join: the member would stay in the group for ever.
    """

    def __init__(self) -> None:
        self._under_way: dict[Name, _UnderWay] = {}

    def begin(self, name: Name) -> None:
        """Called when the join is taken, so in the order of the requests."""
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

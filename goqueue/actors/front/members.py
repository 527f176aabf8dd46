"""The members of groups that speak over one connection.

Their groups are told when it ends. A group that has no room for that word just then finds out by itself, when the
member's session is over.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from goqueue.actors.groups.requests import MemberLost
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.errors import GoQueueError
from goqueue.net.wire.errors import TooManyRequests
from goqueue.net.wire.groups import ReceivePartition

MEMBERS_MAX = 1_024
"""Of one connection."""

Name: TypeAlias = tuple[str, str]
"""A group, and a member of it."""


@dataclass(slots=True)
class _Seat:
    group: ActorRef
    served: ReceivePartition | None = None
    """Which partition gave something last."""
    served_at: float = 0.0
    """When that was."""
    given: int = 0
    """How often that was."""
    has_backlog: bool = False
    """It was given all that it wanted: there is likely to be more."""
    taking: trio.Lock = field(default_factory=trio.Lock)
    holds_alone: bool = False
    """It was given a message that is delivered alone, and has not said since that it holds nothing."""


class Members:
    def __init__(self, counts: GroupCounts) -> None:
        self._counts = counts
        self._seats: dict[Name, _Seat] = {}

    def group_of(self, name: Name) -> ActorRef | None:
        """None when it did not speak here before, or its group is no more."""
        seat = self._seats.get(name)
        return None if seat is None or seat.group.is_down else seat.group

    def add(self, name: Name, group: ActorRef) -> bool:
        """Whether it was not here before."""
        seat = self._seats.get(name)
        if seat is not None:
            seat.group = group
            return False
        if len(self._seats) >= MEMBERS_MAX:
            raise TooManyRequests(f"{MEMBERS_MAX:,} members speak over this connection; open another one for more")
        self._seats[name] = _Seat(group)
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

    # Whose turn it is

    def next_turn(self, name: Name, partitions: Sequence[ReceivePartition]) -> int:
        """Which partition is asked first: the one behind that which gave last, so that none waits for ever."""
        seat = self._seats.get(name)
        if seat is None or seat.served is None:
            return 0
        with suppress(ValueError):  # it is not among them any more
            return (partitions.index(seat.served) + 1) % len(partitions)
        return 0

    def taking(self, name: Name) -> trio.Lock:
        """Of several receives of one member, one at a time takes and answers: so messages come in their order."""
        seat = self._seats.get(name)
        return trio.Lock() if seat is None else seat.taking

    def holds_alone(self, name: Name, *, is_busy: bool) -> bool:
        """Whether it holds a message alone, as far as it has not said, by not being busy, that it holds nothing."""
        seat = self._seats.get(name)
        if seat is not None and not is_busy:
            seat.holds_alone = False
        return seat is not None and seat.holds_alone

    def note_alone(self, name: Name) -> None:
        seat = self._seats.get(name)
        if seat is not None:
            seat.holds_alone = True

    def has_backlog(self, name: Name) -> bool:
        seat = self._seats.get(name)
        return seat is not None and seat.has_backlog

    def note_backlog(self, name: Name, has_backlog: bool) -> None:
        seat = self._seats.get(name)
        if seat is not None:
            seat.has_backlog = has_backlog

    def note_served(self, name: Name, partition: ReceivePartition) -> None:
        seat = self._seats.get(name)
        if seat is not None:
            seat.served, seat.served_at, seat.given = partition, trio.current_time(), seat.given + 1

    def given(self, name: Name) -> int:
        """How often it was given something: what it had asked for before knows nothing of that."""
        seat = self._seats.get(name)
        return 0 if seat is None else seat.given

    def served_at(self, name: Name) -> float:
        """When it was given something last; long ago, if that was not over this connection."""
        seat = self._seats.get(name)
        return 0.0 if seat is None else seat.served_at

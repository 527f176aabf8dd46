"""The members of groups that use one connection.

Their groups are told when it ends. A group whose mailbox is full just then finds out by itself, when the member's
session is over.
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
"""Limit of members on one connection."""

Name: TypeAlias = tuple[str, str]
"""A group, and a member of it."""


@dataclass(slots=True)
class _Seat:
    group: ActorRef
    served: ReceivePartition | None = None
    """The partition of the last delivery."""
    served_at: float = 0.0
    """When that delivery was."""
    given: int = 0
    """The number of deliveries."""
    has_backlog: bool = False
    """The last receive was filled: there are probably more messages."""
    taking: trio.Lock = field(default_factory=trio.Lock)
    holds_alone: bool = False
    """It holds a message that is delivered alone; reset when it says that it holds nothing."""


class Members:
    def __init__(self, counts: GroupCounts) -> None:
        self._counts = counts
        self._seats: dict[Name, _Seat] = {}

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

    # Fairness and deliveries

    def next_turn(self, name: Name, partitions: Sequence[ReceivePartition]) -> int:
        """The partition to ask first: the one after that of the last delivery, so that none waits for ever."""
        seat = self._seats.get(name)
        if seat is None or seat.served is None:
            return 0
        with suppress(ValueError):  # it is no longer assigned
            return (partitions.index(seat.served) + 1) % len(partitions)
        return 0

    def taking(self, name: Name) -> trio.Lock:
        """A lock: one receive of a member at a time takes and answers, so that messages come in order."""
        seat = self._seats.get(name)
        return trio.Lock() if seat is None else seat.taking

    def holds_alone(self, name: Name, *, is_busy: bool) -> bool:
        """Whether it holds a message that is delivered alone. A receive that is not busy says that it does not."""
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
        """The number of deliveries to it. A receive compares it, to notice a delivery that came meanwhile."""
        seat = self._seats.get(name)
        return 0 if seat is None else seat.given

    def served_at(self, name: Name) -> float:
        """When it last got a delivery on this connection; 0 if it never did."""
        seat = self._seats.get(name)
        return 0.0 if seat is None else seat.served_at

"""The members of groups that use one connection.

Their groups are told when it ends. A group whose mailbox is full just then finds out by itself, when the member's
session is over.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from goqueue.actors.groups.requests import MemberLost
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.waiting.turns import MemberTurns
from goqueue.errors import GoQueueError
from goqueue.net.wire.errors import TooManyRequests
from goqueue.net.wire.groups import ReceivePartition

MEMBERS_MAX = 1_024
"""Limit of members on one connection."""

Name: TypeAlias = tuple[str, str]
"""A group, and a member of it."""


@dataclass(slots=True)
class _MemberSeat:
    group: ActorRef
    turns: MemberTurns[ReceivePartition] = field(default_factory=MemberTurns)
    taking: trio.Lock = field(default_factory=trio.Lock)
    """One receive of a member at a time takes and answers, so that messages come in order."""


class Members:
    def __init__(self, counts: GroupCounts) -> None:
        self._counts = counts
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
        if len(self._seats) >= MEMBERS_MAX:
            raise TooManyRequests(f"{MEMBERS_MAX:,} members speak over this connection; open another one for more")
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

    def turns(self, name: Name) -> MemberTurns[ReceivePartition]:
        seat = self._seats.get(name)
        return MemberTurns() if seat is None else seat.turns

    def taking(self, name: Name) -> trio.Lock:
        seat = self._seats.get(name)
        return trio.Lock() if seat is None else seat.taking

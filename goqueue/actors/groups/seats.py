"""The group's side of its members' heartbeats: the connection of each member, and its heartbeat that waits.

A heartbeat is answered when there is something new, or at its deadline. A member has one heartbeat that waits: a
newer one ends the older. The core knows what each member was told.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from goqueue.actors.groups.requests import AwaitMembership
from goqueue.actors.runtime.messages import Reply
from goqueue.core.groups.effects import Tell
from goqueue.core.groups.views import MemberState
from goqueue.errors import GoQueueError, UnknownMember


@dataclass(slots=True)
class _Seat:
    connection: int
    reply: Reply[MemberState] | None = None
    """To the heartbeat that waits, until `deadline`."""
    deadline: float = inf


class Seats:
    def __init__(self, as_membership: Callable[[Tell], MemberState]) -> None:
        self._as_membership = as_membership
        self._seats: dict[str, _Seat] = {}

    def __len__(self) -> int:
        return len(self._seats)

    def __contains__(self, member: str) -> bool:
        return member in self._seats

    def take(self, member: str, connection: int) -> None:
        """A new member, or one that came back."""
        self._seats.setdefault(member, _Seat(connection)).connection = connection

    def leave(self, member: str, reason: str) -> None:
        """A member from before the broker started has no seat."""
        self.refuse(member, UnknownMember(f"{member} is no member any more: {reason}; join again"))
        self._seats.pop(member, None)

    def is_on(self, member: str, connection: int) -> bool:
        seat = self._seats.get(member)
        return seat is not None and seat.connection == connection

    # Heartbeats

    def wait(self, message: AwaitMembership, reply: Reply[MemberState], deadline: float) -> None:
        seat = self._seats[message.member]
        seat.connection, seat.reply, seat.deadline = message.connection, reply, deadline

    def answer(self, told: Tell) -> None:
        reply = self._end_wait(told.member)
        if reply is not None:
            reply.resolve(self._as_membership(told))

    def refuse(self, member: str, error: GoQueueError) -> None:
        reply = self._end_wait(member)
        if reply is not None:
            reply.fail(error)

    def waiting(self, until: float) -> list[str]:
        """The members whose heartbeats wait until then at most."""
        return [member for member, seat in self._seats.items() if seat.reply and seat.deadline <= until]

    def next_deadline(self) -> float | None:
        return min((seat.deadline for seat in self._seats.values() if seat.reply), default=None)

    def _end_wait(self, member: str) -> Reply[MemberState] | None:
        seat = self._seats.get(member)
        if seat is None:
            return None
        reply, seat.reply = seat.reply, None
        return reply

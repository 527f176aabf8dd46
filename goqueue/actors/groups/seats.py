"""The group's side of its members' heartbeats: what each member was told last, and the heartbeat that waits.

A heartbeat is answered when there is something new, or at its deadline, which is early enough for the member's
session, whatever it asked for. A member has one heartbeat that waits: a newer one ends the older.
"""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace

import trio

from goqueue.actors.groups.requests import AwaitMembership, Join
from goqueue.actors.runtime.messages import Reply
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.groups.effects import Tell
from goqueue.core.groups.member import fenced
from goqueue.core.groups.subscription import Subscription
from goqueue.core.groups.views import MemberState
from goqueue.errors import GoQueueError, UnknownMember

HEARTBEATS_PER_SESSION = 3


@dataclass(frozen=True, slots=True)
class _Waiting:
    reply: Reply[MemberState]
    deadline: float


@dataclass(slots=True)
class _Seat:
    subscription: Subscription
    session_timeout: float
    connection: int
    instance: int
    is_away: bool = False
    """It closed, and its assignment is kept."""
    told: Tell | None = None
    is_confirmed: bool = True
    """Nothing was revoked from it, or it has confirmed that."""
    had: set[TopicPartition] = field(default_factory=set)
    """The partitions of which it may hold deliveries."""
    waiting: _Waiting | None = None


class Seats:
    def __init__(self, as_membership: Callable[[Tell], MemberState]) -> None:
        self._as_membership = as_membership
        self._seats: dict[str, _Seat] = {}

    def __len__(self) -> int:
        return len(self._seats)

    def __contains__(self, member: str) -> bool:
        return member in self._seats

    def take(self, message: Join) -> None:
        """A new member, or one that came back."""
        seat = self._seats.get(message.member)
        if seat is None:
            self._seats[message.member] = _Seat(
                message.subscription, message.session_timeout, message.connection, message.instance
            )
            return
        if seat.instance != message.instance:
            _refuse(seat, fenced(message.member))
        self._answer(seat)
        seat.subscription, seat.session_timeout = message.subscription, message.session_timeout
        seat.connection, seat.instance, seat.is_away = message.connection, message.instance, False

    def leave(self, member: str, reason: str) -> Set[TopicPartition]:
        """Remove a member. Returns the partitions of which it may hold deliveries."""
        seat = self._seats.pop(member)
        _refuse(seat, UnknownMember(f"{member} is no member any more: {reason}; join again"))
        return seat.had

    def close(self, member: str) -> Set[TopicPartition]:
        """The member is away and keeps its assignment. Returns the partitions of which it may hold deliveries."""
        seat = self._seats[member]
        seat.is_away = True
        _refuse(seat, UnknownMember(f"{member} has closed; join again"))
        return seat.had

    def had_by(self, member: str) -> Set[TopicPartition]:
        return self._seats[member].had

    def is_present(self, member: str) -> bool:
        return member in self._seats and not self._seats[member].is_away

    @property
    def present(self) -> int:
        """The number of members that are not away."""
        return sum(not seat.is_away for seat in self._seats.values())

    def is_on(self, member: str, connection: int) -> bool:
        seat = self._seats.get(member)
        return seat is not None and seat.connection == connection

    def topics_read(self, topics: Iterable[str]) -> frozenset[str]:
        subscriptions = {seat.subscription for seat in self._seats.values()}
        return frozenset[str]().union(*(each.resolve(topics) for each in subscriptions))

    # Assignments

    def tell(self, told: Tell) -> None:
        seat = self._seats.get(told.member)
        if seat is not None:
            seat.told, seat.is_confirmed = told, not told.revoked
            seat.had |= told.assignment
            self._answer(seat)

    def membership_of(self, member: str) -> MemberState:
        told = self._seats[member].told
        assert told is not None, "whoever joins is told something"
        return self._as_membership(told)

    def confirms(self, message: AwaitMembership) -> bool:
        """Whether the heartbeat names the newest generation, and so confirms the revoked partitions."""
        seat = self._seats.get(message.member)
        if seat is None or seat.told is None:
            return False
        return not seat.is_confirmed and seat.told.generation == message.generation

    def note_confirmed(self, member: str) -> None:
        seat = self._seats[member]
        assert seat.told is not None, "what it confirms it was told"
        seat.told, seat.is_confirmed = replace(seat.told, revoked=frozenset()), True

    # Heartbeats

    def wait(self, message: AwaitMembership, reply: Reply[MemberState]) -> None:
        seat = self._seats[message.member]
        self._answer(seat)
        seat.connection = message.connection
        soon = trio.current_time() + seat.session_timeout / HEARTBEATS_PER_SESSION
        seat.waiting = _Waiting(reply, min(message.deadline, soon))
        if seat.told is None or seat.told.generation != message.generation:
            self._answer(seat)

    def answer_due(self, now: float) -> None:
        for seat in self._seats.values():
            if seat.waiting is not None and seat.waiting.deadline <= now:
                self._answer(seat)

    def answer_all(self) -> None:
        for seat in self._seats.values():
            self._answer(seat)

    def next_deadline(self) -> float | None:
        waiting = (seat.waiting for seat in self._seats.values())
        return min((each.deadline for each in waiting if each is not None), default=None)

    def _answer(self, seat: _Seat) -> None:
        waiting, seat.waiting = seat.waiting, None
        if waiting is not None:
            assert seat.told is not None, "whoever joined was told something"
            waiting.reply.resolve(self._as_membership(seat.told))


def _refuse(seat: _Seat, error: GoQueueError) -> None:
    waiting, seat.waiting = seat.waiting, None
    if waiting is not None:
        waiting.reply.fail(error)

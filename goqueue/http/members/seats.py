"""The seats of members that speak HTTP.

Such a member has no connection: its seat has a session of the broker of its own, which lasts from request to
request. The group hears of the member by heartbeats and open polls alone, and expels it when it was silent for a
session, as any other. No task runs for a seat between requests, so nothing speaks for a member that has gone.

A seat that nobody has used for long is cleared; its member then joins again under its id.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import trio

from goqueue.actors.front.session import BrokerSession
from goqueue.core.groups.member import SESSION_SECONDS
from goqueue.core.offsetset import OffsetSet
from goqueue.errors import Fenced, UnknownGroup, UnknownMember
from goqueue.http.members.holding import DeliveryKey, HolderIndex, MemberHolding
from goqueue.net.wire.errors import GoingAway
from goqueue.net.wire.groups import AssignedPartition, Heartbeat, Membership
from goqueue.net.wire.kinds import Answer, Request
from goqueue.types import Offset

SEATS_MAX = 10_000
IDLE_SECONDS_MAX = 3_600.0
"""A seat that was not used for this long is cleared; the longest session is shorter."""

SeatName: TypeAlias = tuple[str, str]
"""Group and member."""


@dataclass(eq=False, slots=True)
class Seat:
    group: str
    member: str
    instance: int
    mode: str
    session: BrokerSession
    holding: MemberHolding
    session_seconds: float = SESSION_SECONDS
    used_at: float = field(default_factory=trio.current_time)
    is_gone: bool = False
    """The group does not know the member any more. What it was handed it may hold all the same."""
    is_closed: bool = False
    """The member has left, or has another seat."""
    generation: int = 0
    """Confirmed: the member has let go of what newer ones revoke only when it names them."""
    assignment: tuple[AssignedPartition, ...] = ()
    newest: int = 0
    """The generation of the assignment; in a stream the member may have an older one."""
    positions: dict[tuple[bytes, int], Offset] = field(default_factory=dict)
    """Where a stream goes on, by topic and partition."""
    turn: trio.Lock = field(default_factory=trio.Lock)
    """One poll of a member at a time."""

    async def ask(self, request: Request, request_id: str = "") -> Answer:
        return await self.session.call(request, request_id)

    # Membership

    async def refresh(self, wait_seconds: float = 0.0) -> None:
        """A sign of life, and the newest assignment. What that revokes is let go of; in a stream only when the
        member says so itself."""
        generation = self.generation
        membership = await self._beat(generation, wait_seconds)
        self.adopt(membership)
        if self.mode != "stream" and membership.generation != generation:
            self.adopt(await self._beat(self.generation))

    async def _beat(self, generation: int, wait_seconds: float = 0.0) -> Membership:
        """One that does not wait has nothing to do with the end of a poll, and is repeated."""
        asked = Heartbeat(self.group, self.member, generation, round(1_000 * wait_seconds), self.instance)
        while True:
            try:
                return cast(Membership, await self.ask(asked))
            except GoingAway:
                if wait_seconds or self.session.is_sent_away:
                    raise

    def adopt(self, membership: Membership) -> None:
        before, self.newest = (self.newest, self.assignment), membership.generation
        self.assignment = membership.assignment
        if self.mode == "stream":
            mine = {(each.uuid, each.partition) for each in self.assignment}
            self.positions = {place: offset for place, offset in self.positions.items() if place in mine}
        else:
            self.generation = membership.generation
        if before != (self.newest, self.assignment):
            self.wake_poll()

    def go_on_at(self, place: tuple[bytes, int], offset: Offset) -> None:
        """A stream reads on from its last poll or commit."""
        if place in self.positions:
            self.positions[place] = offset

    # The poll that is open

    async def wait_for_change(self, seconds: float) -> None:
        """A change of its assignment, or of what it holds."""
        with trio.move_on_after(seconds):
            await self.holding.changed.park()

    def wake_poll(self) -> None:
        """It asks again. What it is just taking it is answered with."""
        self.holding.changed.unpark_all()
        self.session.polls.end()


def no_seat(group: str, member: str) -> UnknownMember:
    return UnknownMember(
        f"group {group} has no member {member} over HTTP, or it was silent for too long; join again with this"
        " member_id"
    )


class HttpSeats:
    def __init__(self, new_session: Callable[[str | None], BrokerSession], most: int = SEATS_MAX) -> None:
        """`new_session` makes a session for the address of a client."""
        self._new_session = new_session
        self._most = most
        self._seats: dict[SeatName, Seat] = {}
        """The one that was used longest ago first."""
        self._holders: HolderIndex = {}
        self._joins: dict[SeatName, trio.Lock] = {}

    def __len__(self) -> int:
        return len(self._seats)

    def find(self, group: str, member: str) -> Seat:
        seat = self._seats.get((group, member))
        if seat is None or seat.is_gone:
            raise no_seat(group, member)
        self._seats[group, member] = self._seats.pop((group, member))
        seat.used_at = trio.current_time()
        return seat

    @asynccontextmanager
    async def joining(self, group: str, member: str) -> AsyncIterator[None]:
        """One join of a member at a time, so that the last one that its group has taken has the seat."""
        lock = self._joins.setdefault((group, member), trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._joins.pop((group, member), None)

    def new(self, name: SeatName, instance: int, mode: str, session_seconds: float, address: str | None) -> Seat:
        """For a member that is about to join; `put` it once its group has taken it."""
        holding, session = MemberHolding(self._holders), self._new_session(address)
        return Seat(*name, instance, mode, session, holding, session_seconds)

    def put(self, seat: Seat) -> None:
        """The member sits here from now on. If it was expelled from the seat before, the leases of what it held
        there still stand; else the group has just ended them."""
        self._clear_idle_ones()
        before = self._seats.pop((seat.group, seat.member), None)
        self._seats[seat.group, seat.member] = seat
        if before is not None:
            if before.is_gone:
                seat.holding.take_over(before.holding)
            self._close(before)

    def clear(self, seat: Seat) -> None:
        if self._seats.get((seat.group, seat.member)) is seat:
            del self._seats[seat.group, seat.member]
        self._close(seat)

    def _close(self, seat: Seat) -> None:
        seat.is_closed = True
        seat.holding.clear()
        seat.session.close()

    def _clear_idle_ones(self) -> None:
        """Those at which a poll is open are in use."""
        latest = trio.current_time() - IDLE_SECONDS_MAX
        for seat in list(self._seats.values()):
            if len(self._seats) < self._most and seat.used_at > latest:
                return
            if not seat.turn.locked():
                self.clear(seat)

    def send_away(self) -> None:
        for seat in self._seats.values():
            seat.session.send_away()

    async def of(self, seat: Seat, work: Callable[[], Awaitable[None]]) -> None:
        """Work for a member; one that its group does not know any more loses its seat."""
        try:
            await work()
        except UnknownMember:
            seat.is_gone = True
            seat.session.close()
            raise
        except (UnknownGroup, Fenced):
            self.clear(seat)
            raise

    # What members hold

    def note_settled(self, key: DeliveryKey, offsets: OffsetSet) -> None:
        """These messages of a delivery are settled, whoever had them."""
        holding = self._holders.get(key)
        if holding is not None:
            holding.settle(key, offsets)

    def note_extended(self, key: DeliveryKey, offsets: OffsetSet, until: float) -> None:
        holding = self._holders.get(key)
        if holding is not None:
            holding.extend(key, offsets, until)

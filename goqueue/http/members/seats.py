"""The seats of members that speak HTTP.

Such a member has no connection: its seat has a session of the broker of its own, which lasts from request to
request. The group hears of the member by heartbeats and open polls alone, and expels it when it was silent for a
session, as any other. A seat that nobody has used for long is cleared; its member then joins again under its id.

What the gateway has handed out counts as held until it is settled here, by whomever, or its visibility is over:
so the broker is told whether the member is busy, and a client that never settles is stopped at a bound.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

import trio

from goqueue.actors.front.session import BrokerSession
from goqueue.client.consuming.delivery import ReceivedDelivery
from goqueue.client.consuming.options import IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX
from goqueue.errors import Fenced, UnknownGroup, UnknownMember
from goqueue.http.server.errors import InFlightFull
from goqueue.net.wire.groups import AssignedPartition, Heartbeat, Membership
from goqueue.net.wire.kinds import Answer, Request
from goqueue.types import Offset

SEATS_MAX = 10_000
IDLE_SECONDS_MAX = 3_600.0
"""A seat that was not used for this long is cleared; the longest session is shorter."""

SeatName: TypeAlias = tuple[str, str]
"""Group and member."""


class DeliveryKey(NamedTuple):
    group: str
    topic: str
    partition: int
    nonce: int


@dataclass(slots=True)
class HeldDelivery:
    """What is left of a delivery."""

    count: int
    size: int
    until: float


@dataclass(eq=False, slots=True)
class Seat:
    group: str
    member: str
    instance: int
    mode: str
    session: BrokerSession
    used_at: float = field(default_factory=trio.current_time)
    generation: int = 0
    """Confirmed: the member has let go of what newer ones revoke only when it names them."""
    assignment: tuple[AssignedPartition, ...] = ()
    newest: int = 0
    """The generation of the assignment; in a stream the member may have an older one."""
    held: dict[DeliveryKey, HeldDelivery] = field(default_factory=dict)
    positions: dict[tuple[bytes, int], Offset] = field(default_factory=dict)
    """Where a stream goes on, by topic and partition."""
    turn: trio.Lock = field(default_factory=trio.Lock)
    """One poll of a member at a time."""

    async def ask(self, request: Request, request_id: str = "") -> Answer:
        return await self.session.call(request, request_id)

    async def beat(self, generation: int, wait_seconds: float = 0.0) -> Membership:
        """A sign of life, and the newest assignment."""
        asked = Heartbeat(self.group, self.member, generation, round(1_000 * wait_seconds), self.instance)
        return cast(Membership, await self.ask(asked))

    def adopt(self, membership: Membership) -> None:
        self.newest, self.assignment = membership.generation, membership.assignment
        if self.mode == "stream":
            mine = {(each.uuid, each.partition) for each in self.assignment}
            self.positions = {place: offset for place, offset in self.positions.items() if place in mine}
        else:
            self.generation = membership.generation

    # What it holds

    def expire(self, now: float) -> None:
        self.held = {key: each for key, each in self.held.items() if each.until > now}

    @property
    def held_count(self) -> int:
        return sum(each.count for each in self.held.values())

    def room(self, count: int) -> tuple[int, int]:
        """The number of messages, up to `count`, and of bytes that the member may still be given."""
        messages = IN_FLIGHT_MAX - self.held_count
        size = IN_FLIGHT_BYTES_MAX - sum(each.size for each in self.held.values())
        if messages <= 0 or size <= 0:
            raise InFlightFull(
                f"member {self.member} holds {self.held_count:,} messages that are not settled; settle some, or let"
                f" their visibility end ({IN_FLIGHT_MAX:,} messages or {IN_FLIGHT_BYTES_MAX:,} bytes are the most)"
            )
        return min(count, messages), size

    def hold(self, delivery: ReceivedDelivery, until: float) -> None:
        origin = delivery.origin
        key = DeliveryKey(origin.group, origin.topic, origin.partition, origin.nonce)
        self.held[key] = HeldDelivery(len(delivery), delivery.size, until)


class HttpSeats:
    def __init__(self, new_session: Callable[[str | None], BrokerSession], most: int = SEATS_MAX) -> None:
        """`new_session` makes a session for the address of a client."""
        self._new_session = new_session
        self._most = most
        self._seats: dict[SeatName, Seat] = {}
        """The one that was used longest ago first."""

    def __len__(self) -> int:
        return len(self._seats)

    def find(self, group: str, member: str) -> Seat:
        seat = self._seats.pop((group, member), None)
        if seat is None:
            raise UnknownMember(
                f"group {group} has no member {member} over HTTP, or it was silent for too long; join again with"
                " this member_id"
            )
        self._seats[group, member] = seat
        seat.used_at = trio.current_time()
        return seat

    def new(self, group: str, member: str, instance: int, mode: str, address: str | None) -> Seat:
        """For a member that is about to join; `put` it once its group has taken it."""
        return Seat(group, member, instance, mode, self._new_session(address))

    def put(self, seat: Seat) -> None:
        """The member sits here from now on. What it held at another seat it still holds."""
        self._clear_idle_ones()
        before = self._seats.pop((seat.group, seat.member), None)
        self._seats[seat.group, seat.member] = seat
        if before is not None:
            seat.held = before.held
            before.session.close()

    def clear(self, seat: Seat) -> None:
        if self._seats.get((seat.group, seat.member)) is seat:
            del self._seats[seat.group, seat.member]
        seat.session.close()

    def _clear_idle_ones(self) -> None:
        now = trio.current_time()
        while self._seats:
            seat = next(iter(self._seats.values()))
            if len(self._seats) < self._most and seat.used_at + IDLE_SECONDS_MAX > now:
                return
            self.clear(seat)

    def send_away(self) -> None:
        for seat in self._seats.values():
            seat.session.send_away()

    def close(self) -> None:
        for seat in list(self._seats.values()):
            self.clear(seat)

    async def of(self, seat: Seat, work: Callable[[], Awaitable[None]]) -> None:
        """Work for a member; one that its group does not know any more loses its seat."""
        try:
            await work()
        except (UnknownMember, UnknownGroup, Fenced):
            self.clear(seat)
            raise

    # What members hold

    def note_settled(self, settled: Iterable[tuple[DeliveryKey, int]]) -> None:
        """These are settled, so many messages of each delivery, whoever had them."""
        of_group: dict[str, list[Seat]] = {}
        for key, count in settled:
            seats = of_group.get(key.group)
            if seats is None:
                seats = of_group[key.group] = [each for each in self._seats.values() if each.group == key.group]
            for seat in seats:
                held = seat.held.get(key)
                if held is not None:
                    _reduce(seat, key, held, count)
                    break

    def note_extended(self, keys: Iterable[DeliveryKey], until: float) -> None:
        for key in keys:
            for seat in self._seats.values():
                if seat.group == key.group and key in seat.held:
                    seat.held[key].until = max(seat.held[key].until, until)


def _reduce(seat: Seat, key: DeliveryKey, held: HeldDelivery, count: int) -> None:
    if count >= held.count:
        del seat.held[key]
    else:
        held.size -= held.size * count // held.count
        held.count -= count

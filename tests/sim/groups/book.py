"""What is known of any group, whatever its mode: who its messages are for, who owns what, and who is a member."""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import trio

from goqueue.client.groups import Group
from tests.sim.clients.history import ClientHistory, Place
from tests.sim.disk.history import Violation
from tests.sim.groups.letters import DeadLetter
from tests.sim.groups.plan import GroupSetup

KEPT_SECONDS_CLOSED, KEPT_SECONDS_DEAD = 4.5, 20.0
"""So long, and a little longer, the place of a member with an id of its own is kept."""

MOVING_SECONDS_MAX = 5.0
"""So long whoever had a partition before gives back what it has not opened: longer than its leases stand."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What the last consumer of a member had, and until when that waits for the next one."""

    generation: int
    assignment: Collection[tuple[str, int]]
    since: float
    until: float


@dataclass(slots=True)
class GroupBook:
    setup: GroupSetup
    clients: ClientHistory
    began_at: float = math.inf
    """From then on every message is the group's."""
    ended_at: float = -math.inf
    """When the broker ended: from then on it knew of no members."""
    _power_cut_at: float = -math.inf
    _owners: dict[tuple[int, str, int], str] = field(default_factory=dict)
    _alive: dict[str, list[str]] = field(default_factory=dict)
    """Consumers that may be alive, by the id that their member has of its own."""
    _seats: dict[str, Seat] = field(default_factory=dict)
    _entered: dict[str, float] = field(default_factory=dict)
    """When each consumer heard that it is a member."""
    _newest: dict[str, tuple[str, float]] = field(default_factory=dict)
    """The consumer that came last, by the id that its member has of its own, and when it began to."""
    _latest: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    _moved_at: dict[tuple[str, int], float] = field(default_factory=dict)
    """Who has a partition since which generation, and when it came from another."""
    _committed: dict[tuple[str, int], int] = field(default_factory=dict)
    """As it was seen last."""
    _fallen: dict[tuple[str, int], tuple[int, Callable[[str, int], bool]]] = field(default_factory=dict)
    """Where it stood when a ledger was damaged, and whether the broker has said so."""

    # Consumers that come and go

    def enter(self, member: str | None, holder: str) -> None:
        """A consumer begins to join. It may be the member's from now on, be the answer lost or not."""
        if member is not None:
            self._alive.setdefault(member, []).append(holder)

    def entered(self, member: str | None, holder: str, begun_at: float, *, is_sound: bool) -> None:
        """It was answered that it is a member. `is_sound`: nothing is wrong with the disk of the broker."""
        self._entered[holder] = trio.current_time()
        self.began_at = min(self.began_at, trio.current_time())
        if member is not None and begun_at > self.ended_at:
            self._newest[member] = holder, begun_at

    def leave(self, member: str | None, holder: str) -> None:
        """It says nothing any more."""
        if member is not None:
            self._alive[member].remove(holder)

    def has_others(self, member: str | None, holder: str) -> bool:
        """Whether another consumer of the member may be alive."""
        return member is not None and self._alive[member] != [holder]

    def is_replaced(self, member: str | None, holder: str, before: float) -> bool:
        """Whether another consumer of the member surely has its place since then. One that lives on when the
        broker is restarted comes back unnoticed, so only who came after that counts."""
        newest, begun_at = ("", 0.0) if member is None else self._newest.get(member, ("", 0.0))
        has_come = newest not in ("", holder) and self._entered[newest] < before
        return has_come and self.ended_at < self._entered[holder] < begun_at

    # Its place

    def keep_seat(self, member: str | None, seat: Seat) -> None:
        if member is not None:
            self._seats[member] = seat

    def check_seat(self, member: str | None, generation: int, assignment: Collection[tuple[str, int]]) -> None:
        """§5: who comes back in time has what it had, and for the others nothing has happened."""
        seat = None if member is None else self._seats.pop(member, None)
        if seat is None or not self._is_alone or not self.ended_at < seat.since:
            return
        is_late = trio.current_time() > seat.until
        if not is_late and (generation, sorted(assignment)) != (seat.generation, sorted(seat.assignment)):
            raise Violation(f"§5: {member} came back in time, to {assignment} in {generation}, and had {seat}")

    @property
    def _is_alone(self) -> bool:
        """Nobody else is ever in the group, so nothing else changes who has what."""
        return len(self.setup.streams or self.setup.members) == 1

    # What happens to the broker

    def lose_members(self) -> None:
        self.ended_at = trio.current_time()

    def lose_power(self) -> None:
        self._power_cut_at = trio.current_time()
        self._committed.clear()
        self._fallen.clear()

    def lose_time(self) -> None:
        """Of leases alone."""

    def counts(self, begun_at: float) -> bool:
        """Whether an answer that has come now, to what was said then, holds: no power cut is in between."""
        return begun_at > self._power_cut_at

    def lose_ledger(self, key: tuple[str, int], before: int, is_told: Callable[[str, int], bool]) -> None:
        """From now on the group may stand anywhere up to `before`; if it falls, that is told."""
        self._fallen[key] = before, is_told

    def committed_at(self, key: tuple[str, int]) -> int:
        """Where it was seen last, since the power failed."""
        return self._committed.get(key, 0)

    def _check_fall(self, key: tuple[str, int], committed: int) -> None:
        """G13: progress that was seen does not go without a word."""
        before, is_told = self._fallen.get(key, (0, None))
        if is_told is not None and committed < before and not is_told(*key):
            raise Violation(
                f"G13: {self.setup.name} stood at {before} of {key}, and at {committed}; nobody says so"
            )
        self._committed[key] = committed

    # What the group says of itself

    def assign(self, member: str, generation: int, assignment: Iterable[tuple[str, int]]) -> None:
        for topic, partition in () if self.setup.is_shared else assignment:
            owner = self._owners.setdefault((generation, topic, partition), member)
            if owner != member:
                raise Violation(f"G10: {topic}/{partition} is {owner}'s and {member}'s in generation {generation}")
            self._note_owner((topic, partition), generation, member)

    def _note_owner(self, key: tuple[str, int], generation: int, member: str) -> None:
        since, before = self._latest.get(key, (-1, member))
        if generation > since:
            self._latest[key] = generation, member
            if before != member:
                self._moved_at[key] = trio.current_time()

    def has_just_moved(self, key: tuple[str, int]) -> bool:
        return trio.current_time() < self._moved_at.get(key, -math.inf) + MOVING_SECONDS_MAX

    def check_nothing_is_lost(self, view: Group) -> None:
        """G5: retention by acks removes nothing that the group is not done with."""
        for each in view.partitions:
            if each.removed_unacked:
                raise Violation(f"G5: {each.removed_unacked} messages of {each} were removed before they were done")

    def look(self, view: Group, since: float) -> None:
        """As it was at some time from `since` to now."""
        for partition in view.partitions:
            if partition.error is None:
                self._check_fall((partition.topic, partition.partition), partition.committed)
                self._note_progress(partition.topic, partition.partition, partition.committed, since)
        for member in view.members:
            self.assign(member.member_id, view.generation, member.assignment)

    def _note_progress(self, topic: str, partition: int, committed: int, since: float) -> None:
        raise NotImplementedError

    # In the end

    def check_end(self, letters: Collection[DeadLetter]) -> None:
        raise NotImplementedError

    def is_ours(self, place: Place, value: bytes) -> bool:
        """Published after the group began, if it began at the end, or if what came before may be gone."""
        sent = self.clients.sent.get(value)
        gets_all = self.setup.start == "earliest" and not self.clients.removes
        return self.reads(place.topic) and (gets_all or (sent is not None and sent.since > self.began_at))

    def reads(self, topic: str) -> bool:
        return topic in self.setup.topics or self.setup.topics == ("t*",)

"""The members of groups: each a machine of its own, that consumes as its plan says, and may die of it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

import trio

import goqueue
from goqueue.client.consuming.consumer import Consumer
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import SimulatedStream
from tests.sim.groups.answers import burden
from tests.sim.groups.book import KEPT_SECONDS_CLOSED, KEPT_SECONDS_DEAD, GroupBook, Seat
from tests.sim.groups.history import GroupHistory
from tests.sim.groups.plan import MemberPlan
from tests.sim.groups.shifts import Death, Shift, Site, assignment_of
from tests.sim.streams.history import StreamHistory
from tests.sim.streams.plan import StreamMemberPlan
from tests.sim.streams.shifts import StreamShift


class MortalMachine:
    """A machine of the network that vanishes: its connections are reset, and it never makes another."""

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        self._network, self._name = network, name
        self._is_dead = False

    def die(self) -> None:
        self._is_dead = True
        self._network.crash(self._name, noticed_after=(0.0, 0.5))

    async def connect(self, host: str, port: int) -> SimulatedStream:
        stream = None if self._is_dead else await self._network.connect_from(self._name, host, port)
        if stream is None or self._is_dead:
            if stream is not None:
                stream.close()
            raise ConnectionRefusedError(f"{self._name} is dead")
        return stream

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[SimulatedStream]]:
        return await self._network.listen_on(self._name, host, port)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What befalls a member by the plan."""

    is_prompt: bool
    """What it says and hears is heard soon, unless it is lost."""
    has_steady_lines: bool
    """They are cut only when the broker ends."""
    answers: Random
    """Decides which of them are lost."""


class Life:
    """Of one consumer, as its group's book knows it."""

    def __init__(self, holder: str, member: str | None, book: GroupBook) -> None:
        self.holder, self._member, self._book = holder, member, book
        self.scope, self.over = trio.CancelScope(), trio.Event()
        self._is_alive = False

    def begin(self) -> None:
        self._is_alive = True
        self._book.enter(self._member, self.holder)

    def end(self) -> None:
        """It says nothing any more."""
        if self._is_alive:
            self._is_alive = False
            self._book.leave(self._member, self.holder)


class Work(Protocol):
    """A consumer from entering to leaving."""

    @property
    def consumer(self) -> Consumer: ...

    async def work(self) -> None: ...

    async def hear_of_replacement(self) -> None: ...

    def close(self) -> None: ...


class Member:
    """One consumer after the other of one group, on one machine."""

    def __init__(
        self,
        site: Site,
        name: str,
        member_id: str | None,
        book: GroupBook,
        random: Random,
        circumstances: Circumstances,
    ) -> None:
        self._site, self._name, self._member_id, self._book = site, name, member_id, book
        self._random, self._circumstances = random, circumstances
        self._lives = 0

    def _shift(self, client: goqueue.Client, holder: str) -> Work:
        raise NotImplementedError

    def _machine(self) -> MortalMachine:
        return MortalMachine(self._site.network, self._name)

    def _note_left(self, shift: Work) -> None:
        """Its consumer has closed in good order."""

    async def run(self) -> None:
        """Who died comes back at once, not when its corpse is cold."""
        pauses = [0.0, 0.1, 1.0] if self._member_id is None else [0.0, 0.1, 1.0, 6.0]
        async with trio.open_nursery() as lives:
            while not self._site.stopping.is_set():
                self._lives += 1
                life = Life(f"{self._name}.{self._lives}", self._member_id, self._book)
                lives.start_soon(self._live_once, life)
                await life.over.wait()
                await trio.sleep(self._random.choice(pauses))

    async def _live_once(self, life: Life) -> None:
        with suppress(goqueue.Unavailable, goqueue.Fenced), life.scope:
            await self._live(life)
        life.over.set()

    async def _live(self, life: Life) -> None:
        site, is_in = self._site, False
        machine = self._machine()
        async with goqueue.connect(site.url, name=life.holder, network=machine, clock=site.clock) as client:
            burden(client, self._circumstances.answers)
            shift, begun_at = self._shift(client, life.holder), trio.current_time()
            life.begin()
            try:
                async with shift.consumer:
                    is_in = True
                    self._note_entered(shift.consumer, life.holder, begun_at)
                    await self._work(shift, machine, life)
                self._note_left(shift)
            finally:
                if is_in or self._circumstances.is_prompt:  # else what it said may be heard yet
                    life.end()

    def _note_entered(self, consumer: Consumer, holder: str, begun_at: float) -> None:
        self._book.entered(self._member_id, holder, begun_at, is_sound=self._site.has_sound_disk())
        self._book.check_seat(self._member_id, consumer._membership.generation, assignment_of(consumer))

    async def _work(self, shift: Work, machine: MortalMachine, life: Life) -> None:
        since = trio.current_time()
        try:
            await shift.work()
            self._keep_seat(shift.consumer, since, KEPT_SECONDS_CLOSED)
        except Death:
            self._keep_seat(shift.consumer, since, KEPT_SECONDS_DEAD)
            machine.die()
            life.end()
            life.over.set()
            life.scope.cancel()
            await trio.lowlevel.checkpoint()
        except goqueue.Fenced:
            await shift.hear_of_replacement()
            shift.close()
            raise
        shift.close()

    def _keep_seat(self, consumer: Consumer, since: float, seconds: float) -> None:
        if self._circumstances.has_steady_lines and self._site.has_sound_disk():
            generation, until = consumer._membership.generation, trio.current_time() + seconds
            self._book.keep_seat(self._member_id, Seat(generation, assignment_of(consumer), since, until))


class QueueMember(Member):
    def __init__(
        self, site: Site, name: str, plan: MemberPlan, history: GroupHistory, random: Random, by: Circumstances
    ) -> None:
        super().__init__(site, name, plan.member_id, history, random, by)
        self._plan, self._history = plan, history

    def _shift(self, client: goqueue.Client, holder: str) -> Shift:
        consumer = client.consumer(
            **self._history.setup.joining,
            visibility_timeout=self._plan.visibility,
            auto_extend=self._plan.auto_extends,
            member_id=self._member_id,
        )
        by = self._circumstances
        return Shift(
            holder,
            consumer,
            self._plan,
            self._history,
            self._random,
            self._site,
            is_prompt=by.is_prompt,
            has_steady_lines=by.has_steady_lines,
        )


class StreamMember(Member):
    def __init__(
        self,
        site: Site,
        name: str,
        plan: StreamMemberPlan,
        history: StreamHistory,
        random: Random,
        by: Circumstances,
    ) -> None:
        super().__init__(site, name, plan.member_id, history, random, by)
        self._plan, self._history = plan, history

    def _shift(self, client: goqueue.Client, holder: str) -> StreamShift:
        reading = self._history.open(holder, self._plan, has_steady_lines=self._circumstances.has_steady_lines)
        return StreamShift(client, self._plan, self._history, reading, self._random, self._site)

"""Members over HTTP: they live, work and die as others do, and say by HTTP what they have to say."""

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, cast

import trio

import goqueue
from goqueue.client.consuming.consumer import Consumer
from goqueue.nursery import PlainNursery
from tests.sim.groups.members import Circumstances, Life, Member
from tests.sim.groups.plan import Habit
from tests.sim.groups.shifts import Death, Shift, Site, assignment_of
from tests.sim.groups.stories import Held
from tests.sim.http.consumer import HttpConsumer
from tests.sim.http.history import CLOSING_SECONDS, HttpHistory
from tests.sim.http.lines import LineLost
from tests.sim.http.plan import HttpMemberPlan

POLL_SECONDS = (0.05, 1.0, 5.0)
PULSES_PER_SESSION = 4
REST_SECONDS = 0.1


class HttpShift(Shift):
    """The ways of a member are those of any other; only how it is handed its messages differs."""

    _plan: HttpMemberPlan
    _history: HttpHistory

    def __init__(
        self,
        holder: str,
        consumer: HttpConsumer,
        plan: HttpMemberPlan,
        history: HttpHistory,
        random: Random,
        site: Site,
    ) -> None:
        super().__init__(holder, cast(Consumer, consumer), plan, history, random, site, is_prompt=False)
        self._http = consumer
        self._asked_at = 0.0

    @property
    def _lease_least(self) -> float:
        """Whoever comes back under its id ends the leases of the one before."""
        return self._plan.visibility if self._plan.member_id is None else 0.0

    async def enter(self) -> None:
        """Its own leases may end: a join that is repeated replaces the one before."""
        for held in self._held:
            held.replaceable_from = min(held.replaceable_from, trio.current_time())
        believed = self._http._membership
        self._history.is_heard(believed.member, self._plan.session)  # by the join, be its answer lost or not
        await self._http.join()
        self._history.is_heard(believed.member, self._plan.session)

    async def keep_alive(self) -> None:
        while self._plan.has_pulse:
            await trio.sleep(self._plan.session / PULSES_PER_SESSION)
            if self._http.is_member:
                with suppress(LineLost):
                    await self._http.beat()

    async def _receive(self) -> list[Any]:
        if not self._http.is_member:
            self._count("http joins again")
            await self.enter()
        timeout, self._asked_at = self._random.choice(POLL_SECONDS), trio.current_time()
        is_left = self._random.random() < self._plan.leaving
        try:
            with trio.move_on_after(self._random.uniform(0, timeout) if is_left else 120.0) as patience:
                messages = await self._http.receive(self._plan.batch, timeout)
        except LineLost:
            self._history.note_lost(self._asked_at, self._lease_least)
            self._count("http polls lost")
            await trio.sleep(REST_SECONDS)
            return []
        if patience.cancelled_caught:
            self._history.note_lost(self._asked_at, self._lease_least, CLOSING_SECONDS)
            self._count("http polls left")
            return []
        return messages

    def _take_up(self, messages: Sequence[Any], *, is_extended: bool) -> list[Held]:
        believed = self._http._membership
        self._history.assign(believed.member, believed.generation, assignment_of(self.consumer))
        lease = (self._asked_at, self._plan.visibility)
        row = self._history.hand_polled(self._holder, self._plan.member_id, messages, lease)
        self._held += row
        self._count("http handed", len(row))
        if not self._site.stopping.is_set() and any(map(self._is_poison, messages)):
            self._count("poisoned")
            raise Death
        return row

    async def hear_of_replacement(self) -> None:
        self._count("fenced")


class HttpMember(Member):
    def __init__(
        self, site: Site, name: str, plan: HttpMemberPlan, history: HttpHistory, random: Random, by: Circumstances
    ) -> None:
        super().__init__(site, name, plan.member_id, history, random, by)
        self._plan, self._history = plan, history

    async def _live(self, life: Life) -> None:
        machine = self._machine()
        consumer = HttpConsumer(machine, self._plan, self._history.setup)
        shift = HttpShift(life.holder, consumer, self._plan, self._history, self._random, self._site)
        begun_at = trio.current_time()
        life.begin()
        try:
            await shift.enter()
            self._book.entered(self._member_id, life.holder, begun_at, is_sound=False)
            async with PlainNursery() as nursery:
                nursery.start_soon(shift.keep_alive)
                await shift.work()
                nursery.cancel_scope.cancel()
            shift.close()
            if Habit.CLOSE in self._plan.habits or self._random.random() < 0.5:
                await consumer.leave()
        except Death:
            shift.close()
            machine.die()
            await trio.lowlevel.checkpoint()
        finally:
            consumer.close()
            self._history.says_no_more(consumer._membership.member)
            life.end()

    async def _live_once(self, life: Life) -> None:
        with suppress(goqueue.Unavailable):
            await self._live(life)
        life.over.set()

"""The members of groups: each a machine of its own, that consumes as its plan says, and may die of it."""

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import trio

import goqueue
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import SimulatedStream
from tests.sim.grouphistory import GroupHistory
from tests.sim.groupplan import MemberPlan
from tests.sim.groupshifts import Death, Shift, Site


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


class Member:
    """One consumer after the other of one group, on one machine."""

    def __init__(
        self,
        site: Site,
        name: str,
        plan: MemberPlan,
        history: GroupHistory,
        random: Random,
        *,
        is_prompt: bool,
    ) -> None:
        self._site, self._name, self._plan, self._history = site, name, plan, history
        self._random, self._is_prompt = random, is_prompt
        self._lives = 0

    async def run(self) -> None:
        while not self._site.stopping.is_set():
            with suppress(goqueue.Unavailable), trio.CancelScope() as life:
                self._lives += 1
                await self._live(life)
            await trio.sleep(self._random.choice([0.0, 0.1, 1.0]))

    async def _live(self, life: trio.CancelScope) -> None:
        site, setup, plan = self._site, self._history.setup, self._plan
        machine = MortalMachine(site.network, self._name)
        holder = f"{self._name}.{self._lives}"
        async with goqueue.connect(site.url, name=holder, network=machine, clock=site.clock) as client:
            making = client.consumer(
                **setup.joining, visibility_timeout=plan.visibility, auto_extend=plan.auto_extends
            )
            async with making as consumer:
                self._history.begin()
                shift = Shift(holder, consumer, plan, self._history, self._random, site, is_prompt=self._is_prompt)
                try:
                    await shift.work()
                except Death:
                    machine.die()
                    life.cancel()
                    await trio.lowlevel.checkpoint()
                shift.close()

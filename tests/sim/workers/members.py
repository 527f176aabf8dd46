"""Workers as processes: one that dies has said what it has said, unless its whole machine is gone."""

from random import Random

import goqueue
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import SimulatedStream
from tests.sim.groups.members import Circumstances, Member, MortalMachine, Work
from tests.sim.groups.shifts import Site
from tests.sim.workers.history import WorkerHistory
from tests.sim.workers.plan import WorkerPlan
from tests.sim.workers.shifts import WorkerShift

MACHINE_ODDS = 0.25
"""How often the whole machine goes with the process."""


class MortalProcess(MortalMachine):
    """The system closes its sockets: what they have taken arrives."""

    def __init__(self, network: SimulatedNetwork, name: str) -> None:
        super().__init__(network, name)
        self._streams: list[SimulatedStream] = []
        self._has_ended = False

    def die(self) -> None:
        """The machine with it, unless the process alone has ended before."""
        if not self._has_ended:
            super().die()

    def end(self) -> None:
        self._has_ended = True
        for stream in self._streams:
            stream.close()

    async def connect(self, host: str, port: int) -> SimulatedStream:
        stream = await super().connect(host, port)
        self._streams.append(stream)
        if self._has_ended:
            stream.close()
            raise ConnectionRefusedError("the process is gone")
        return stream


class WorkerMember(Member):
    def __init__(
        self, site: Site, name: str, plan: WorkerPlan, history: WorkerHistory, random: Random, by: Circumstances
    ) -> None:
        super().__init__(site, name, plan.member_id, history, random, by)
        self._plan, self._history = plan, history
        self._process = MortalProcess(site.network, name)

    def _machine(self) -> MortalMachine:
        self._process = MortalProcess(self._site.network, self._name)
        return self._process

    def _shift(self, client: goqueue.Client, holder: str) -> WorkerShift:
        process = self._process

        def die() -> bool:
            if self._random.random() < MACHINE_ODDS:
                process.die()
                return False
            process.end()
            return True

        by = self._circumstances
        return WorkerShift(client, holder, self._plan, self._history, self._random, self._site, by, die)

    def _note_left(self, shift: Work) -> None:
        assert isinstance(shift, WorkerShift)
        shift.note_left()

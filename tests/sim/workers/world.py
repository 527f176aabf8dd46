"""A world of groups whose members are workers, which die with messages in hand and with messages held ahead."""

from collections.abc import Collection
from random import Random

import trio

from tests.sim.groups.history import GroupHistory
from tests.sim.groups.letters import LetterBox
from tests.sim.groups.members import Circumstances, Member
from tests.sim.groups.world import GroupWorld
from tests.sim.streams.history import StreamHistory
from tests.sim.workers.history import WorkerHistory
from tests.sim.workers.members import WorkerMember
from tests.sim.workers.plan import WorkerPlan, with_workers


class WorkerWorld(GroupWorld):
    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        super().__init__(seed, without)
        self.plan = with_workers(self.plan, Random(f"workers {seed}"))
        self._workers = [WorkerHistory(setup, self.history) for setup in self.plan.groups]
        self.groups = [*self._workers]
        self.letters = LetterBox(self.history, self.plan.groups)

    def _member(self, machine: int, group: GroupHistory | StreamHistory, number: int) -> Member:
        name, plan = f"client-{machine}", group.setup.members[number]
        assert isinstance(group, WorkerHistory)
        assert isinstance(plan, WorkerPlan)
        by = Circumstances(
            is_prompt=self.plan.is_prompt(machine),
            has_steady_lines=self.plan.has_steady_lines(machine),
            answers=self._generator(f"{name} answers"),
        )
        return WorkerMember(self._site(), name, plan, group, self._generator(name), by)

    async def _start(self, node: trio.Nursery) -> None:
        await super()._start(node)
        for history in self._workers:
            history.note_start()

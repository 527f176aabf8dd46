"""A world of groups in which members and publishers speak HTTP, beside others that speak websockets."""

from collections.abc import Collection, Sequence
from functools import partial
from random import Random
from uuid import UUID

import trio

import goqueue
from goqueue.http.routes import members as routes
from tests.sim.clients.world import ClientTally
from tests.sim.disk.bugs import replaced
from tests.sim.groups.history import GroupHistory
from tests.sim.groups.letters import LetterBox
from tests.sim.groups.members import Circumstances, Member
from tests.sim.groups.world import GroupWorld, patiently
from tests.sim.http.history import HttpHistory, TimedHistory
from tests.sim.http.lines import HttpLine
from tests.sim.http.members import HttpMember
from tests.sim.http.plan import HttpMemberPlan, with_http
from tests.sim.http.publishers import HttpPublisher
from tests.sim.streams.history import StreamHistory

PUBLISHERS = 2


class HttpWorld(GroupWorld):
    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        super().__init__(seed, without)
        self.plan = with_http(self.plan, Random(f"http {seed}"))
        before = self.history
        self.history = self._timed = TimedHistory(before.partitions)
        self.history.may_have_gaps, self.history.removes = True, before.removes
        self._over_http = [HttpHistory(setup, self.history) for setup in self.plan.groups]
        self.groups = [*self._over_http]
        self.letters = LetterBox(self.history, self.plan.groups)
        self._judge_calm()

    def _judge_calm(self) -> None:
        plan, machine = self.plan, len(self.plan.clients)
        is_sound = all(plan.has_sound_disk(life) for life in range(len(plan.lives)))
        is_sound &= not (plan.damage or plan.damaged_files)
        for group in self._over_http:
            machines = range(machine, machine + len(group.setup.members))
            machine += len(group.setup.members)
            are_http = all(isinstance(each, HttpMemberPlan) for each in group.setup.members)
            are_well = all(plan.is_prompt(each) and plan.has_steady_lines(each) for each in machines)
            group.is_calm = is_sound and are_http and are_well

    async def run(self) -> ClientTally:
        names = self._generator("names over http")
        with replaced(routes, "uuid4", lambda: UUID(bytes=names.randbytes(16))):
            return await super().run()

    def _start_members(self, clients: trio.Nursery) -> None:
        super()._start_members(clients)
        for number in range(PUBLISHERS):
            self._working += 1
            clients.start_soon(self._publish, f"http-{number}")

    async def _publish(self, name: str) -> None:
        machine, random = self.network.machine("client-0"), self._generator(name)
        knows_topics = not self.plan.damage  # else their settings may be lost
        publisher = HttpPublisher(
            name, self._site(), HttpLine(machine), random, self._timed, self.plan.sizes, knows_topics
        )
        await publisher.run()
        self._working -= 1
        self._all_done.set()

    def _member(self, machine: int, group: GroupHistory | StreamHistory, number: int) -> Member:
        plan = group.setup.members[number]
        if not isinstance(plan, HttpMemberPlan):
            return super()._member(machine, group, number)
        assert isinstance(group, HttpHistory)
        name = f"client-{machine}"
        by = Circumstances(
            is_prompt=self.plan.is_prompt(machine),
            has_steady_lines=self.plan.has_steady_lines(machine),
            answers=self._generator(f"{name} answers"),
        )
        return HttpMember(self._site(), name, plan, group, self._generator(name), by)

    async def _ends_of(self, client: goqueue.Client, topic: str, messages: Sequence[goqueue.Message]) -> list[int]:
        """Delayed messages are hidden where they were written."""
        view = await patiently(partial(client.topic, topic), topic)
        return [partition.end for partition in view.partitions]

    async def _start(self, node: trio.Nursery) -> None:
        await super()._start(node)
        for history in self._over_http:
            history.note_start()

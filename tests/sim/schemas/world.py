"""A whole system with schemas, which are registered and deleted while messages are published, through crashes."""

from collections.abc import Collection
from random import Random

import trio

import goqueue
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import Conditions
from tests.sim.clients.jobs import Desk, Follower
from tests.sim.clients.world import AUDITOR, URL, ClientTally, ClientWorld
from tests.sim.schemas.history import SchemaHistory, SubjectHistory
from tests.sim.schemas.jobs import Looker, Registrar, SchemaDesk, SchemaPublisher, look
from tests.sim.schemas.plan import SchemaPlan


class SchemaWorld(ClientWorld):
    plan: SchemaPlan

    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        super().__init__(seed, without)
        self.plan = SchemaPlan.drawn(Random(seed), without)
        self.disk = SimulatedDisk(self._generator("disk"), faults=self.plan.disk_faults())
        self.network = SimulatedNetwork(self._generator("network"), Conditions(self.plan.latency()))
        topics = {f"t{number}": count for number, count in enumerate(self.plan.topics)}
        self.schemas = SchemaHistory(topics, switches=dict(zip(topics, self.plan.switches, strict=True)))
        names = [*topics, *(f"other {number}" for number in range(self.plan.machines))]
        self.schemas.subjects = {name: SubjectHistory(name) for name in names}
        self.history = self.schemas

    async def run(self) -> ClientTally:
        tally = await super().run()
        self.schemas.check_schemas()
        return tally

    async def _begin(self, clients: trio.Nursery, number: int) -> None:
        if number:
            await self._audit()
            return
        async with goqueue.connect(URL, network=self.network.machine(AUDITOR), clock=self.clock) as client:
            await client.set_compatibility(None, self.plan.level)
            for place, (name, partitions) in enumerate(self.history.partitions.items()):
                await client.create_topic(name, partitions, self.plan.config_of(place))
        for index in range(self.plan.machines):
            clients.start_soon(self._run_machine, index)

    def _subjects_of(self, index: int) -> list[str]:
        """Each subject is changed by one machine."""
        return [name for place, name in enumerate(self.schemas.subjects) if place % self.plan.machines == index]

    async def _run_machine(self, index: int) -> None:
        name = f"client-{index}"
        machine = self.network.machine(name)
        async with (
            goqueue.connect(URL, name=name, network=machine, clock=self.clock) as client,
            trio.open_nursery() as tasks,
        ):
            desks = [self._desk(f"{name}.{number}", client) for number in range(3)]
            jobs: list[Registrar | SchemaPublisher | Looker] = [SchemaPublisher(desks[1]), Looker(desks[2])]
            for job in (Registrar(desks[0], self._subjects_of(index)), *jobs):
                self._working += 1
                tasks.start_soon(self._do, job)
            generator = self._generator(f"{name} follower")
            desk = Desk(name, client, machine, generator, self.history, self._stopping, self.tally.counts)
            follower = Follower(desk, restarts=False)
            self._followers.append(follower)
            tasks.start_soon(follower.run)

    def _desk(self, name: str, client: goqueue.Client) -> SchemaDesk:
        random, counts = self._generator(name), self.tally.counts
        return SchemaDesk(name, client, random, self.schemas, self._stopping, counts, self.plan.level)

    async def _do(self, job: Registrar | SchemaPublisher | Looker) -> None:
        await job.run()
        self._working -= 1
        self._all_done.set()

    async def _audit(self) -> dict[str, list[int]]:
        async with goqueue.connect(URL, network=self.network.machine(AUDITOR), clock=self.clock) as client:
            for subject in self.schemas.subjects.values():
                await look(client, subject)
        return await super()._audit()

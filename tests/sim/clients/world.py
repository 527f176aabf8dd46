"""A whole system: a broker on a simulated disk, clients over a simulated network, and all that a seed does to them.

The broker lives and dies as the plan says; the clients live on and find it again by themselves. A life begins with
an audit: a reader on an undisturbed line compares everything that is there with what was promised. At a crash the
disk image is taken first, then the links are cut, then the node is cancelled: its last words reach nobody. In the
end all is well again, and everybody must come to an end within a bounded time: senders know what became of their
messages, readers have read everything.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

import trio

import goqueue
from goqueue.environment import Environment
from goqueue.http.ports import serving
from goqueue.net.transport.origin import Address
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import Conditions
from tests.sim.clients.history import ClientHistory
from tests.sim.clients.jobs import Desk, Follower, Publisher, Sender
from tests.sim.clients.mistakes import Administrator, Blunderer
from tests.sim.clients.plan import ClientPlan, Job, Trouble
from tests.sim.clients.troubles import Troublemaker
from tests.sim.disk.history import Violation
from tests.sim.disk.plan import Ending

HOST, PORT = "127.0.0.1", 7710
URL = f"ws://{HOST}:{PORT}"
BROKER, AUDITOR = "broker", "auditor"
AUDITS_MAX = 5
START_SECONDS_MAX = 600.0
"""Each partition syncs several times when it starts, two seconds each on a slow disk."""
SHUTDOWN_SECONDS_MAX = 60.0
STILL_SECONDS = 3.0
HEALING_SECONDS_MAX = 90.0


class _Crashes(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("restart "):
            self.records.append(record)


@contextmanager
def no_actor_crashes() -> Iterator[None]:
    """G14: whatever clients and disks do, an actor refuses and lives. A restart would hide that it did not."""
    crashes, logger = _Crashes(), logging.getLogger("goqueue.actors")
    logger.addHandler(crashes)
    try:
        yield
    finally:
        logger.removeHandler(crashes)
    if crashes.records:
        raise Violation(f"G14: an actor crashed: {crashes.format(crashes.records[0])}")


@dataclass(slots=True)
class ClientTally:
    """What happened, for people, and to see that the simulator reaches what it should."""

    counts: dict[str, int] = field(default_factory=dict)
    endings: list[str] = field(default_factory=list)
    connections: int = 0


class ClientWorld:
    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        self._seed = seed
        self.plan = ClientPlan.drawn(Random(seed), without)
        self.disk = SimulatedDisk(self._generator("disk"), faults=self.plan.disk_faults())
        self.network = SimulatedNetwork(self._generator("network"), Conditions(self.plan.latency()))
        self.clock = SimulatedClock()
        self.history = ClientHistory({f"t{number}": count for number, count in enumerate(self.plan.topics)})
        self.tally = ClientTally()
        self._lives = 0
        self._followers: list[Follower] = []
        self._working = 0
        self._all_done = trio.Event()
        self._stopping = trio.Event()

    def _generator(self, name: str) -> Random:
        """For each part of the world its own, so that a change in one does not change the others."""
        return Random(f"{self._seed} {name}")

    async def run(self) -> ClientTally:
        with no_actor_crashes():
            return await self._run()

    async def _run(self) -> ClientTally:
        async with trio.open_nursery() as clients:
            for number, life in enumerate(self.plan.lives):
                await self._live(clients, number)
                await trio.sleep(life.silence)
            await self._heal(clients)
        self._check_nobody_is_left()
        self.tally.connections = len(self.network.connections)
        return self.tally

    # One life of the broker

    async def _live(self, clients: trio.Nursery, number: int) -> None:
        if self.plan.has(Trouble.CLOCK):
            self.clock.step(self._generator(f"clock {number}").randint(-3_600_000_000, 3_600_000_000))
        async with trio.open_nursery() as node:
            await self._start(node)
            await self._begin(clients, number)
            troublemaker = Troublemaker(self.network, self.disk, self._generator(f"troubles {number}"))
            with trio.move_on_after(self.plan.lives[number].seconds):
                await troublemaker.run(self.plan.during(number))
                await trio.sleep_forever()
            self.disk.capacity = CAPACITY
            self.disk = await self._end(node, self.plan.ending(number))

    async def _start(self, node: trio.Nursery) -> None:
        self._lives += 1
        self._stop, self._stopped = trio.Event(), trio.Event()
        with trio.fail_after(START_SECONDS_MAX):
            await node.start(self._serve)

    async def _serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        chance = self._generator(f"broker {self._lives}")
        environment = Environment(self.disk, self.network.machine(BROKER), self.clock, chance)
        async with serving(environment, "/data", listen=Address(HOST, PORT), http=Address(HOST, PORT + 1)):
            task_status.started()
            await self._stop.wait()
        self._stopped.set()

    async def _begin(self, clients: trio.Nursery, number: int) -> None:
        if number:
            await self._audit()
            return
        async with goqueue.connect(URL, network=self.network.machine(AUDITOR), clock=self.clock) as client:
            for name, partitions in self.history.partitions.items():
                await client.create_topic(name, partitions, self.plan.topic_config())
        for index, jobs in enumerate(self.plan.clients):
            clients.start_soon(self._run_client, index, jobs)

    async def _end(self, node: trio.Nursery, ending: Ending) -> SimulatedDisk:
        self.tally.endings.append(ending.value)
        if ending is Ending.SHUTDOWN:
            await self._shut_down()
            return self.disk.crash()  # everything accepted is on the platter
        if ending is Ending.POWER_CUT:
            self.history.power_failed()
        image = self.disk.kill() if ending is Ending.KILL else self.disk.crash()
        self.network.crash(BROKER, noticed_after=(0.0, 0.5))
        node.cancel_scope.cancel()
        return image

    async def _shut_down(self) -> None:
        """G15: ordered, bounded, and afterwards nothing writes."""
        with trio.move_on_after(SHUTDOWN_SECONDS_MAX) as limit:
            self._stop.set()
            await self._stopped.wait()
        if limit.cancelled_caught:
            raise Violation("G15: the shutdown took too long")
        before = (self.disk.counts.writes, self.disk.counts.syncs)
        await trio.sleep(STILL_SECONDS)
        if (self.disk.counts.writes, self.disk.counts.syncs) != before:
            raise Violation("G15: something wrote after the shutdown")

    # Clients

    async def _run_client(self, index: int, jobs: tuple[Job, ...]) -> None:
        name = f"client-{index}"
        machine = self.network.machine(name)
        async with AsyncExitStack() as stack:
            connecting = goqueue.connect(URL, name=name, network=machine, clock=self.clock)
            client = await stack.enter_async_context(connecting)
            tasks = await stack.enter_async_context(trio.open_nursery())
            for number, job in enumerate(jobs):
                generator = self._generator(f"{name} {number}")
                desk = Desk(name, client, machine, generator, self.history, self._stopping, self.tally.counts)
                self._start_job(tasks, desk, job, f"{name}.{number}")

    def _start_job(self, tasks: trio.Nursery, desk: Desk, job: Job, name: str) -> None:
        if job in (Job.FOLLOW, Job.RESTART):
            follower = Follower(desk, restarts=job is Job.RESTART)
            self._followers.append(follower)
            tasks.start_soon(follower.run)
        else:
            self._working += 1
            tasks.start_soon(self._work, _worker(desk, job, name))

    async def _work(self, worker: "Worker") -> None:
        await worker.run()
        self._working -= 1
        self._all_done.set()

    # Checking

    async def _audit(self) -> dict[str, list[int]]:
        """Everything that is there, against everything that was promised before; the ends of all partitions."""
        ends = {}
        async with goqueue.connect(URL, network=self.network.machine(AUDITOR), clock=self.clock) as client:
            for topic in self.history.partitions:
                held = self.history.held()
                messages = await self._everything_in(client, topic)
                for message in messages:
                    self.history.see(message)
                self.history.check(topic, messages, held)
                ends[topic] = await self._ends_of(client, topic, messages)
        return ends

    async def _ends_of(self, client: goqueue.Client, topic: str, messages: Sequence[goqueue.Message]) -> list[int]:
        count = self.history.partitions[topic]
        return [sum(each.partition == number for each in messages) for number in range(count)]

    async def _everything_in(self, client: goqueue.Client, topic: str) -> list[goqueue.Message]:
        """On a slow disk a topic that others make may take longer than a call waits: then it is asked again."""
        for _ in range(AUDITS_MAX):
            with suppress(goqueue.Unavailable):
                return [message async for message in client.read(topic, end="latest")]
        return [message async for message in client.read(topic, end="latest")]

    async def _heal(self, clients: trio.Nursery) -> None:
        """Nothing goes wrong any more: within a bounded time everybody is done and has seen everything."""
        self.network.heal()
        async with trio.open_nursery() as node:
            await self._start(node)
            self._stopping.set()
            with trio.move_on_after(HEALING_SECONDS_MAX) as limit:
                while self._working:
                    self._all_done = trio.Event()
                    await self._all_done.wait()
            if limit.cancelled_caught:
                raise Violation(f"liveness: {self._working} tasks are not done after {HEALING_SECONDS_MAX:g} s")
            await self._converge(await self._audit())
            clients.cancel_scope.cancel()
            await self._shut_down()
            self.disk = self.disk.crash()
        async with trio.open_nursery() as node:
            await self._start(node)
            await self._audit()
            self.history.check_end(set(self.history.kept.values()))
            await self._shut_down()

    async def _converge(self, ends: dict[str, list[int]]) -> None:
        with trio.move_on_after(HEALING_SECONDS_MAX) as limit:
            for follower in self._followers:
                await follower.reach(ends[follower.topic])
        if limit.cancelled_caught:
            raise Violation(f"liveness: a reader of {follower.topic} stands at {follower.positions} of {ends}")

    def _check_nobody_is_left(self) -> None:
        left = self.network.live()
        if left:
            raise Violation(f"G15: {len(left)} connections are left when everybody has gone")


Worker: TypeAlias = Publisher | Sender | Administrator | Blunderer


def _worker(desk: Desk, job: Job, name: str) -> Worker:
    if job is Job.PUBLISH:
        return Publisher(desk, name)
    if job is Job.PRODUCE:
        return Sender(desk, name)
    return Administrator(desk, name) if job is Job.ADMINISTER else Blunderer(desk, HOST, PORT)

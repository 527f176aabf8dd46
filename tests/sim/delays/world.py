"""A whole system with delayed messages, a clock that is set, and a broker that dies.

It is a world of clients who publish with delays, cancel, reschedule and list. Somebody reads everything all the
while, on an undisturbed line. In the end nothing goes wrong any more: within a bounded time everything that is due
has come, and what is listed as pending is just what is left.
"""

from collections.abc import Collection
from contextlib import ExitStack, suppress
from random import Random
from types import ModuleType

import trio

import goqueue
from goqueue.actors.delays import pending as delaybook
from goqueue.actors.node import broker
from goqueue.actors.runtime.reports import ChildReport, Fate
from goqueue.actors.topics import janitor
from goqueue.errors import OffsetOutOfRange
from goqueue.storage.delays import index as delayindex
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import Conditions
from tests.sim.clients import world as clientworld
from tests.sim.clients.plan import Fault
from tests.sim.clients.world import AUDITOR, URL, ClientTally, ClientWorld
from tests.sim.delays.history import DelayHistory, RecordedClock
from tests.sim.delays.jobs import LOST, Changer, DelayDesk, DelayPublisher, Lister, Purger, look
from tests.sim.delays.plan import HOUR, STEPS, DelayPlan
from tests.sim.disk.bugs import replaced
from tests.sim.disk.history import Violation
from tests.sim.disk.plan import Ending

COMING_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.1
PASSING = (*LOST, OffsetOutOfRange)
"""What a reader hears of a topic that is purged or made anew."""
ALTERED: tuple[tuple[ModuleType, str, float], ...] = (
    (janitor, "ROUND_SECONDS", 3.0),
    (delaybook, "COMPACTION_SECONDS_MIN", 0.5),
    (delayindex, "GROWN_BYTES", 600),
    (clientworld, "HEALING_SECONDS_MAX", 150.0),
)
"""What else comes once in a long run. And who publishes into a deleted topic is told only after two minutes."""


class DelayWorld(ClientWorld):
    plan: DelayPlan
    clock: RecordedClock

    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        super().__init__(seed, without)
        self.plan = DelayPlan.drawn(Random(seed), without)
        self.disk = SimulatedDisk(self._generator("disk"), faults=self.plan.disk_faults())
        self.network = SimulatedNetwork(self._generator("network"), Conditions(self.plan.latency()))
        self.clock = RecordedClock()
        names = [f"t{number}" for number in range(len(self.plan.topics))]
        self._configs = {name: self.plan.config_of(number) for number, name in enumerate(names)}
        self.delays = DelayHistory(
            self.clock,
            dict(zip(names, self.plan.topics, strict=True)),
            frozenset(name for name, kind in zip(names, self.plan.kinds, strict=True) if kind.forgets),
        )
        self._pauses: list[tuple[float, float]] = []
        """When the broker was not there."""
        self._died_at: float | None = None
        self._crashes: list[str] = []

    async def run(self) -> ClientTally:
        with ExitStack() as stack:
            for each in ALTERED:
                stack.enter_context(replaced(*each))
            stack.enter_context(replaced(broker, "log_report", self._note_crash))
            tally = await super().run()
        if self._crashes:
            raise Violation(f"an actor crashed by itself: {self._crashes}")
        if not self.plan.fills_disk():
            for pause in self._pauses:
                self.delays.check_order(*pause)
        tally.counts["seen"] = sum(each.seen_at is not None for each in self.delays.messages.values())
        return tally

    def _note_crash(self, report: ChildReport) -> None:
        """The disk does what it can here, so none that is started again had a reason to crash."""
        if report.fate is Fate.RESTARTING:
            self._crashes.append(f"{report.child}: {report.error!r}")

    # Lives

    async def _start(self, node: trio.Nursery) -> None:
        if self._lives and self.plan.harms_index(self._lives - 1):
            self._harm_indexes(self._generator(f"harm {self._lives}"))
        if self._died_at is not None:
            self._pauses.append((self._died_at, trio.current_time()))
            self._died_at = None
        await super()._start(node)

    def _harm_indexes(self, random: Random) -> None:
        for topic, partitions in self.delays.partitions.items():
            for number in range(partitions):
                path = f"/data/logs/{topic}/{number}/{delayindex.NAME}"
                if self.disk.exists(path):
                    self._harm(path, random)

    def _harm(self, path: str, random: Random) -> None:
        file = self.disk.open(path)
        size = file.size()
        harm = random.choice(["removed", "flipped", "cut"])
        if harm == "cut" and size:
            file.truncate(random.randrange(size))
        file.close()
        if harm == "flipped" and size:
            self.disk.flip_bit(path, random.randrange(size), random.randrange(8))
        elif harm == "removed":
            self.disk.remove(path)

    async def _begin(self, clients: trio.Nursery, number: int) -> None:
        for fault in self.plan.steps(number):
            clients.start_soon(self._set_clock, self._lives, fault)
        if number:
            await self._audit()
            return
        async with goqueue.connect(URL, network=self.network.machine(AUDITOR), clock=self.clock) as client:
            for name, partitions in self.delays.partitions.items():
                await client.create_topic(name, partitions, self._configs[name])
        for topic in self.delays.partitions:
            clients.start_soon(self._follow, topic)
        for index in range(self.plan.machines):
            clients.start_soon(self._run_machine, index)

    async def _set_clock(self, life: int, fault: Fault) -> None:
        await trio.sleep(fault.after)
        if self._lives == life:
            random = self._generator(f"step {fault.number}")
            self.clock.step(round(random.choice(STEPS) * random.uniform(0, 1)))

    async def _end(self, node: trio.Nursery, ending: Ending) -> SimulatedDisk:
        if ending is Ending.POWER_CUT:
            self.delays.power_failed()
        disk = await super()._end(node, ending)
        if ending is Ending.POWER_CUT:
            self.delays.power_failed()
        self._died_at = trio.current_time()
        return disk

    # Clients

    async def _run_machine(self, index: int) -> None:
        name = f"client-{index}"
        connecting = goqueue.connect(URL, name=name, network=self.network.machine(name), clock=self.clock)
        async with connecting as client, trio.open_nursery() as tasks:
            jobs: list[type[DelayPublisher | Changer | Lister]] = [DelayPublisher, Changer, Lister]
            for number, job in enumerate(jobs):
                self._start_worker(tasks, job(self._desk(f"{name}.{number}", client)))
            if self.plan.purges and index == 0:
                self._start_worker(tasks, Purger(self._desk(f"{name} purger", client), self._configs))

    def _desk(self, name: str, client: goqueue.Client) -> DelayDesk:
        random, counts = self._generator(name), self.tally.counts
        compacted = frozenset(name for name, config in self._configs.items() if config.get("cleanup") == "compact")
        return DelayDesk(name, client, random, self.delays, self._stopping, counts, self.plan.uses_ids, compacted)

    def _start_worker(self, tasks: trio.Nursery, worker: DelayPublisher | Changer | Lister | Purger) -> None:
        self._working += 1
        tasks.start_soon(self._do, worker)

    async def _do(self, worker: DelayPublisher | Changer | Lister | Purger) -> None:
        await worker.run()
        self._working -= 1
        self._all_done.set()

    async def _follow(self, topic: str) -> None:
        """Read on and on; where the topic was made anew or purged, from its beginning."""
        machine = self.network.machine("follower")
        async with goqueue.connect(URL, network=machine, clock=self.clock) as client:
            while True:
                with suppress(*PASSING):
                    async for message in client.read(topic):
                        self.delays.see(message)
                await trio.sleep(LOOK_SECONDS)

    # Checking

    async def _audit(self) -> dict[str, list[int]]:
        async with goqueue.connect(URL, network=self.network.machine(AUDITOR), clock=self.clock) as client:
            for topic in self.delays.partitions:
                with suppress(*PASSING):
                    for message in await self._everything_in(client, topic):
                        self.delays.see(message)
                with suppress(*LOST):
                    await look(client, self.delays, topic)
        return {}

    async def _converge(self, ends: dict[str, list[int]]) -> None:
        """What is due comes; and what an hour makes due, too."""
        await self._until_all_have_come()
        self.clock.step(HOUR)
        await self._until_all_have_come()
        await self._audit()

    async def _until_all_have_come(self) -> None:
        awaited = self.delays.overdue()
        with trio.move_on_after(COMING_SECONDS_MAX):
            while not all(each.has_come for each in awaited):  # noqa: ASYNC110
                await trio.sleep(LOOK_SECONDS)
        await self._audit()
        if missing := [each for each in awaited if not each.has_come]:
            raise Violation(f"G8: {len(missing)} are overdue and have not come, of these {missing[0]}")

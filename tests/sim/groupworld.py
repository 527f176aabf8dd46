"""A whole system with consumer groups: publishers, members that behave well and badly, and a broker that dies.

It is a world of clients with members beside them. In the end nothing goes wrong any more: whoever is a member
leaves, a careful consumer of each group takes over, and within a bounded time everything is acked or a dead letter.
Then the books are compared: what the members saw, what the broker says, and what lies in the topics.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import fields
from random import Random
from uuid import UUID

import trio

import goqueue
from goqueue.errors import LogStopped
from goqueue.net import membership
from goqueue.net.groupviews import Group
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import Conditions
from tests.sim.bugs import replaced
from tests.sim.clienthistory import ClientHistory
from tests.sim.clientjobs import Desk
from tests.sim.clientplan import Job, Trouble
from tests.sim.clientworld import AUDITOR, BROKER, URL, ClientTally, ClientWorld
from tests.sim.grouphistory import GroupHistory
from tests.sim.groupletters import LetterBox, letters_in, of_group
from tests.sim.groupmembers import Member
from tests.sim.groupplan import FailingSync, GroupPlan, Habit, MemberPlan
from tests.sim.groupshifts import Shift, Site
from tests.sim.history import Violation
from tests.sim.plan import Ending

CAREFUL = MemberPlan((Habit.ACK_ALL,), visibility=30.0, batch=500, auto_extends=None)
DRAIN_SECONDS_MAX = 90.0
DESCRIBED_TRIES_MAX = 3
LOOK_SECONDS = (0.05, 1.5)
PAUSES = (0.0, 0.2, 0.5, 1.5)


async def _patiently_described(client: goqueue.Client, name: str) -> Group:
    """A group whose members come back at once, on a disk that takes two seconds for a sync, is busy for long."""
    for _ in range(DESCRIBED_TRIES_MAX):
        with suppress(goqueue.Unavailable):
            return await client.group(name)
    raise Violation(f"liveness: group {name} did not say how it is, {DESCRIBED_TRIES_MAX} times")


class CalmDesk(Desk):
    """Publishers take their time: each message is consumed by all groups, and comes again."""

    async def pause(self) -> None:
        await trio.sleep(self.random.choice(PAUSES))


class GroupWorld(ClientWorld):
    plan: GroupPlan

    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        super().__init__(seed, without)
        self.plan = GroupPlan.drawn(Random(seed), without)
        self.disk = SimulatedDisk(self._generator("disk"), faults=self.plan.disk_faults())
        self.network = SimulatedNetwork(self._generator("network"), Conditions(self.plan.latency()))
        self.history = ClientHistory({f"t{number}": count for number, count in enumerate(self.plan.topics)})
        self.groups = [GroupHistory(setup, self.history) for setup in self.plan.groups]
        self.letters = LetterBox(self.history, self.plan.groups)

    async def run(self) -> ClientTally:
        names = self._generator("member names")
        with replaced(membership, "uuid4", lambda: UUID(bytes=names.randbytes(16))):
            tally = await super().run()
        for group in self.groups:
            letters = of_group(self.letters.letters, group.setup.name)
            group.check_end(letters)
            tally.counts["dead letters"] = tally.counts.get("dead letters", 0) + len(letters)
        return tally

    # Who is there

    async def _begin(self, clients: trio.Nursery, number: int) -> None:
        await super()._begin(clients, number)
        for failing in self.plan.failing:
            if failing.life == number:
                clients.start_soon(self._fail_sync, self.disk, failing)
        if number == 0:
            self._start_members(clients)

    def _start_members(self, clients: trio.Nursery) -> None:
        clients.start_soon(self._watch)
        machine = len(self.plan.clients)
        for group in self.groups:
            for plan in group.setup.members:
                name = f"client-{machine}"
                is_prompt = self.plan.is_prompt(machine)
                member = Member(self._site(), name, plan, group, self._generator(name), is_prompt=is_prompt)
                self._working += 1
                clients.start_soon(self._work_as, member)
                machine += 1

    def _start_job(self, tasks: trio.Nursery, desk: Desk, job: Job, name: str) -> None:
        super()._start_job(tasks, CalmDesk(*(getattr(desk, each.name) for each in fields(desk))), job, name)

    def _site(self) -> Site:
        return Site(URL, self.network, self.clock, self._stopping, self.tally.counts)

    async def _work_as(self, member: Member) -> None:
        await member.run()
        self._working -= 1
        self._all_done.set()

    async def _watch(self) -> None:
        """Somebody looks at the groups all the while."""
        random = self._generator("watcher")
        async with goqueue.connect(URL, network=self.network.machine("watcher"), clock=self.clock) as client:
            while True:
                for group in self.groups:
                    with suppress(goqueue.UnknownGroup, goqueue.Unavailable):
                        group.look(await client.group(group.setup.name))
                await trio.sleep(random.uniform(*LOOK_SECONDS))

    # What happens to the broker

    async def _fail_sync(self, disk: SimulatedDisk, failing: FailingSync) -> None:
        await trio.sleep(failing.after)
        disk.fail_next_sync(f"/data/logs/t{failing.topic}/{failing.partition}/ledgers")

    async def _start(self, node: trio.Nursery) -> None:
        """After a jump of the clock, times from before it are not believed at any later start."""
        if self.plan.has(Trouble.CLOCK):
            for group in self.groups:
                group.lose_time()
        await super()._start(node)

    async def _live(self, clients: trio.Nursery, number: int) -> None:
        try:
            await super()._live(clients, number)
        except* LogStopped:
            self._end_by_itself()

    def _end_by_itself(self) -> None:
        """A broker whose disk could not write stops. The disk is to be trusted once the machine starts anew."""
        self.tally.endings.append("disk failure")
        self.history.power_failed()
        self._lose_power()
        self.network.crash(BROKER)
        self.disk = self.disk.crash()
        self.disk.capacity = CAPACITY

    async def _end(self, node: trio.Nursery, ending: Ending) -> SimulatedDisk:
        if ending is Ending.POWER_CUT:
            self._lose_power()
        return await super()._end(node, ending)

    def _lose_power(self) -> None:
        for group in self.groups:
            group.lose_power()

    # The end

    async def _audit(self) -> dict[str, list[int]]:
        ends = await super()._audit()
        async with goqueue.connect(URL, network=self.network.machine(AUDITOR), clock=self.clock) as client:
            topics = [topic.name for topic in await client.topics() if topic.name.endswith(".dlq")]
            found = [message for topic in topics async for message in client.read(topic, end="latest")]
            self.letters.check(letters_in(found))
            for group in self.groups:
                with suppress(goqueue.UnknownGroup):
                    group.look(await _patiently_described(client, group.setup.name))
        return ends

    async def _converge(self, ends: dict[str, list[int]]) -> None:
        async with goqueue.connect(URL, network=self.network.machine(AUDITOR), clock=self.clock) as client:
            for group in self.groups:
                with trio.move_on_after(DRAIN_SECONDS_MAX) as limit:
                    await self._drain(client, group, ends)
                if limit.cancelled_caught:
                    view = await client.group(group.setup.name)
                    raise Violation(
                        f"liveness: {group.setup.name} is not done after {DRAIN_SECONDS_MAX:g} s: {view}"
                    )
        await self._audit()
        await super()._converge(ends)

    async def _drain(self, client: goqueue.Client, group: GroupHistory, ends: dict[str, list[int]]) -> None:
        """One careful consumer, until everything is done."""
        setup = group.setup
        async with client.consumer(**setup.joining) as consumer:
            group.begin()
            shift = Shift("careful", consumer, CAREFUL, group, self._generator("careful"), self._site())
            while not _is_done(await client.group(setup.name), ends):
                messages = await consumer.receive(timeout=0.5)
                if messages:
                    await shift.ack(messages)


def _is_done(view: Group, ends: dict[str, list[int]]) -> bool:
    return bool(view.partitions) and all(
        each.committed == each.end == ends[each.topic][each.partition]
        and not (each.lag or each.in_flight or each.waiting or each.leaving)
        for each in view.partitions
    )

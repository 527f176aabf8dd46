"""A whole system with consumer groups: publishers, members that behave well and badly, and a broker that dies.

It is a world of clients with members beside them. In the end nothing goes wrong any more: whoever is a member
leaves, a careful consumer of each group takes over, and within a bounded time everything is acked or a dead letter.
Then the books are compared: what the members saw, what the broker says, and what lies in the topics.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from random import Random
from typing import TypeVar
from uuid import UUID
from zlib import crc32

import trio

import goqueue
from goqueue.actors.topics import janitor
from goqueue.client.consuming import membership
from goqueue.client.groups import Group
from goqueue.errors import LogStopped, UnknownFormat
from goqueue.nursery import errors_in
from goqueue.storage.snapshotlog import snapshotlog
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import Conditions
from tests.sim.clients.history import ClientHistory
from tests.sim.clients.jobs import Desk
from tests.sim.clients.plan import Job, Trouble
from tests.sim.clients.world import AUDITOR, BROKER, URL, ClientTally, ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.disk.history import Violation
from tests.sim.disk.plan import Ending
from tests.sim.groupdamage import LedgerDamage, Reports
from tests.sim.groups.book import GroupBook
from tests.sim.groups.history import GroupHistory
from tests.sim.groups.letters import LetterBox, letters_in, of_group
from tests.sim.groups.members import Circumstances, Member, QueueMember, StreamMember
from tests.sim.groups.plan import DamagedFile, FailingSync, GroupPlan, Habit, MemberPlan
from tests.sim.groups.shifts import Shift, Site
from tests.sim.oldfiles import make_older
from tests.sim.streams.history import StreamHistory
from tests.sim.streams.plan import StreamHabit, StreamMemberPlan
from tests.sim.streams.shifts import StreamShift

AnswerT = TypeVar("AnswerT")
CAREFUL = MemberPlan((Habit.ACK_ALL,), visibility=30.0, batch=500, auto_extends=None)
CAREFUL_STREAM = StreamMemberPlan((StreamHabit.COMMIT,), batch=500, auto_commits=False)
DRAIN_SECONDS_MAX = 90.0
TRIES_MAX = 3
LOOK_SECONDS = (0.05, 1.5)
PAUSES = (0.0, 0.2, 0.5, 1.5)
OLDER_ODDS = 0.1
ROUND_SECONDS = 0.4
"""Of the janitor, where it has something to do in a short life."""
"""The share of lives that begin with files of an earlier version."""
GROWN_BYTES = (2_000, 20_000, snapshotlog.GROWN_BYTES)
"""Sizes of a companion log from which on it gets a snapshot."""
YEAR_SECONDS = 365 * 24 * 3_600.0


async def patiently(ask: Callable[[], Awaitable[AnswerT]], what: str) -> AnswerT:
    """On a disk that takes two seconds for a sync, a broker with groups whose members come back at once is busy."""
    for _ in range(TRIES_MAX):
        with suppress(goqueue.Unavailable, goqueue.OffsetOutOfRange):  # out of range: retention overtook a reader
            return await ask()
    raise Violation(f"liveness: {what} did not say how it is, {TRIES_MAX} times")


class CalmDesk(Desk):
    """Publishers take their time: each message is consumed by all groups, and comes again."""

    priorities: tuple[int, ...] = (2,)

    def priority_of(self, value: bytes) -> goqueue.Priority:
        return goqueue.Priority(self.priorities[crc32(value) % len(self.priorities)])

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
        self.groups: list[GroupHistory | StreamHistory] = [
            StreamHistory(setup, self.history) if setup.is_stream else GroupHistory(setup, self.history)
            for setup in self.plan.groups
        ]
        self.history.may_have_gaps = self.plan.hides or self.plan.removes
        self.history.removes = self.plan.removes
        self.letters = LetterBox(self.history, self.plan.groups)
        self._reports = Reports()
        self._flipped: list[tuple[str, int]] = []

    async def run(self) -> ClientTally:
        names = self._generator("member names")
        grown = self._generator("snapshots").choice(GROWN_BYTES)
        with (
            replaced(membership, "uuid4", lambda: UUID(bytes=names.randbytes(16))),
            replaced(snapshotlog, "GROWN_BYTES", grown),
            replaced(janitor, "ROUND_SECONDS", self._janitor_seconds),
            self._reports,
        ):
            tally = await self._run_with_metadata()
        self._check_reports()
        for group in self.groups:
            letters = of_group(self.letters.letters, group.setup.name)
            group.check_end(letters)
            tally.counts["dead letters"] = tally.counts.get("dead letters", 0) + len(letters)
        return tally

    @property
    def _janitor_seconds(self) -> float:
        """On a slow disk so many rounds would leave no time for anything else."""
        is_busy = self.plan.removes and not self.plan.has(Trouble.SLOW_DISK)
        return ROUND_SECONDS if is_busy else janitor.ROUND_SECONDS

    def _check_reports(self) -> None:
        """What a power loss takes was promised to nobody: only damage is reported as a loss."""
        struck = any(str(damage) in self.tally.counts for damage in self.plan.damage)
        lost = [text for text in self._reports.texts if "lost its records" in text]
        if lost and not struck:
            raise Violation(f"G13: nothing was damaged, and the broker says: {lost[0]}")

    async def _run_with_metadata(self) -> ClientTally:
        """Nobody deletes a topic here, and what a fault damages is put right before the broker starts."""
        try:
            return await super().run()
        except BaseException as error:
            if any(isinstance(each, UnknownFormat | goqueue.UnknownTopic) for each in errors_in(error)):
                raise Violation("G1: the broker has lost its metadata") from error
            raise

    # Who is there

    async def _begin(self, clients: trio.Nursery, number: int) -> None:
        await super()._begin(clients, number)
        for failing in self.plan.failing:
            if failing.life == number:
                clients.start_soon(self._fail_sync, self.disk, failing)
        for damage in self.plan.damaged_files:
            if damage.life == number:
                clients.start_soon(self._damage, self.disk, damage)
        if number == 0:
            self._start_members(clients)

    def _start_members(self, clients: trio.Nursery) -> None:
        clients.start_soon(self._watch)
        if self.plan.hides:
            self._working += 1
            clients.start_soon(self._hide)
        machine = len(self.plan.clients)
        for group in self.groups:
            for number in range(len(group.setup.members)):
                self._working += 1
                clients.start_soon(self._work_as, self._member(machine, group, number))
                machine += 1

    def _member(self, machine: int, group: GroupHistory | StreamHistory, number: int) -> Member:
        name, site = f"client-{machine}", self._site()
        by = Circumstances(
            is_prompt=self.plan.is_prompt(machine),
            has_steady_lines=self.plan.has_steady_lines(machine),
            answers=self._generator(f"{name} answers"),
        )
        if isinstance(group, StreamHistory):
            return StreamMember(site, name, group.setup.streams[number], group, self._generator(name), by)
        return QueueMember(site, name, group.setup.members[number], group, self._generator(name), by)

    def _start_job(self, tasks: trio.Nursery, desk: Desk, job: Job, name: str) -> None:
        calm = CalmDesk(*(getattr(desk, each.name) for each in fields(desk)))
        calm.priorities, calm.sizes = self.plan.priorities, self.plan.sizes
        super()._start_job(tasks, calm, job, name)

    def _site(self) -> Site:
        return Site(URL, self.network, self.clock, self._stopping, self.tally.counts, self._has_sound_disk)

    def _has_sound_disk(self) -> bool:
        return self.plan.has_sound_disk(self._lives - 1)

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
                    since = trio.current_time()
                    with suppress(goqueue.UnknownGroup, goqueue.Unavailable):
                        group.look(await client.group(group.setup.name), since)
                await trio.sleep(random.uniform(*LOOK_SECONDS))

    async def _hide(self) -> None:
        """Somebody publishes what no group may see."""
        random, topics = self._generator("hider"), list(self.history.partitions)
        async with goqueue.connect(URL, network=self.network.machine("hider"), clock=self.clock) as client:
            while not self._stopping.is_set():
                topic = random.choice(topics)
                partition = random.randrange(self.history.partitions[topic])
                with suppress(goqueue.DeliveryTimeout, goqueue.OutcomeUnknown, goqueue.Unavailable):
                    await client.publish(topic, b"hidden", partition=partition, delay=YEAR_SECONDS)
                await trio.sleep(random.choice(PAUSES))
        self._working -= 1
        self._all_done.set()

    # What happens to the broker

    async def _fail_sync(self, disk: SimulatedDisk, failing: FailingSync) -> None:
        await trio.sleep(failing.after)
        folder = f"/data/logs/t{failing.topic}/{failing.partition}/groups"
        logs = [name for name in disk.list(folder) if name.endswith(".log")] if disk.is_directory(folder) else []
        if logs:
            disk.fail_next_sync(f"{folder}/{logs[-1]}")

    async def _damage(self, disk: SimulatedDisk, damage: DamagedFile) -> None:
        """What the groups cannot have comes late, so first deliveries do not follow the offsets. A broker that
        stopped by itself took its disk with it: nothing is damaged between two lives."""
        await trio.sleep(damage.after)
        folder = f"/data/logs/t{damage.topic}/{damage.partition}"
        if disk is not self.disk or self._stopping.is_set() or not disk.exists(folder):
            return
        paths = [f"{folder}/{name}" for name in sorted(self.disk.list(folder)) if name.endswith(".log")]
        written = [path for path in paths if self.disk.size(path)]
        if not written:
            return
        path = written[int(damage.place * len(written))]
        flipped = (path, int(damage.place * self.disk.size(path)))
        self.disk.flip_bit(*flipped, 3)
        self._flipped.append(flipped)
        self.tally.counts["damaged files"] = self.tally.counts.get("damaged files", 0) + 1
        for group in self.groups:
            if isinstance(group, GroupHistory):
                group.meet_damage()
        await trio.sleep(damage.seconds)
        self._repair([flipped])

    def _repair(self, flipped: Sequence[tuple[str, int]]) -> None:
        for path, position in flipped:
            if (path, position) in self._flipped:
                self._flipped.remove((path, position))
                self.disk.flip_bit(path, position, 3)

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
        if self._generator(f"older files {number}").random() < OLDER_ODDS:
            self.tally.counts["older files"] = self.tally.counts.get("older files", 0) + await make_older(self.disk)

    def _end_by_itself(self) -> None:
        """A broker whose disk could not write stops. The disk is to be trusted once the machine starts anew."""
        self.tally.endings.append("disk failure")
        self.history.power_failed()
        self._lose_power()
        self._lose_members()
        self.network.crash(BROKER)
        self._repair(self._flipped[:])
        self.disk = self.disk.crash()
        self.disk.capacity = CAPACITY

    async def _end(self, node: trio.Nursery, ending: Ending) -> SimulatedDisk:
        if ending is Ending.POWER_CUT:
            self._lose_power()
        self._repair(self._flipped[:])
        self._lose_members()
        disk = await super()._end(node, ending)
        self._lose_members()
        with trio.CancelScope(shield=True):  # the node is cancelled, and this is not the node
            await self._damage_files(disk)
        return disk

    async def _damage_files(self, disk: SimulatedDisk) -> None:
        """Lost groups cost nothing. Lost ledgers cost progress, as a power cut does, and more."""
        for damage in self.plan.damage:
            if damage.life == self._lives - 1 and await damage.strike(disk):
                self.tally.counts[str(damage)] = 1
                if isinstance(damage, LedgerDamage):
                    self._lose_ledger((f"t{damage.place[0]}", damage.place[1]))

    def _lose_ledger(self, key: tuple[str, int]) -> None:
        stood = [group.committed_at(key) for group in self.groups]
        self._lose_power()
        for group, before in zip(self.groups, stood, strict=True):
            group.lose_ledger(key, before, self._reports.name_loss)

    def _lose_power(self) -> None:
        for group in self.groups:
            group.lose_power()

    def _lose_members(self) -> None:
        for group in self.groups:
            group.lose_members()

    # The end

    async def _audit(self) -> dict[str, list[int]]:
        ends = await super()._audit()
        async with goqueue.connect(URL, network=self.network.machine(AUDITOR), clock=self.clock) as client:
            there = await patiently(client.topics, "the broker")
            topics = [topic.name for topic in there if topic.name.endswith(".dlq")]
            found = [message for topic in topics for message in await self._everything_in(client, topic)]
            self.letters.check(letters_in(found))
            for group in self.groups:
                since = trio.current_time()
                with suppress(goqueue.UnknownGroup):
                    view = await patiently(partial(client.group, group.setup.name), group.setup.name)
                    group.look(view, since)
                    if not self._has_lost_a_ledger:
                        group.check_nothing_is_lost(view)
        return ends

    @property
    def _has_lost_a_ledger(self) -> bool:
        """Then a group may fall back to messages that it was done with, and that are gone."""
        return any(isinstance(each, LedgerDamage) and str(each) in self.tally.counts for each in self.plan.damage)

    async def _everything_in(self, client: goqueue.Client, topic: str) -> list[goqueue.Message]:
        return await patiently(partial(super()._everything_in, client, topic), topic)

    async def _ends_of(self, client: goqueue.Client, topic: str, messages: Sequence[goqueue.Message]) -> list[int]:
        if not (self.plan.hides or self.plan.removes):
            return await super()._ends_of(client, topic, messages)
        view = await patiently(partial(client.topic, topic), topic)
        return [partition.end for partition in view.partitions]

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

    async def _drain(
        self, client: goqueue.Client, group: GroupHistory | StreamHistory, ends: dict[str, list[int]]
    ) -> None:
        """One careful consumer, until everything is done."""
        if isinstance(group, StreamHistory):
            await self._drain_stream(client, group, ends)
            return
        setup = group.setup
        async with client.consumer(**setup.joining) as consumer:
            _note_entered(group)
            shift = Shift("careful", consumer, CAREFUL, group, self._generator("careful"), self._site())
            while not _is_done(await client.group(setup.name), ends):
                messages = await consumer.receive(timeout=0.5)
                if messages:
                    await shift.ack(messages)

    async def _drain_stream(self, client: goqueue.Client, group: StreamHistory, ends: dict[str, list[int]]) -> None:
        reading = group.open("careful", CAREFUL_STREAM, has_steady_lines=True)
        shift = StreamShift(client, CAREFUL_STREAM, group, reading, self._generator("careful"), self._site())
        async with shift.consumer:
            _note_entered(group)
            while not _is_done(await client.group(group.setup.name), ends):
                if await shift.receive(timeout=0.5):
                    await shift.commit()
            shift.close()


def _note_entered(group: GroupBook) -> None:
    group.entered(None, "careful", trio.current_time(), is_sound=False)


def _is_done(view: Group, ends: dict[str, list[int]]) -> bool:
    return bool(view.partitions) and all(
        each.committed == each.end == ends[each.topic][each.partition]
        and not (each.lag or each.in_flight or each.waiting or each.leaving)
        for each in view.partitions
    )

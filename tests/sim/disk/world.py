"""A node with partitions, clients that publish and read, and everything that a seed does to them.

A life begins with a start on whatever the last one left on disk, and with a check of every promise. Then clients
work until the end that the plan says: the power fails, the process is killed, or it is shut down in order. At a
crash the disk image is taken first and the node cancelled after: its last words reach nobody.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from random import Random

import trio

from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.requests import AwaitMore, DeleteBefore, Fetch, Maintain, Produce
from goqueue.actors.runtime.child import ChildSpec, supervised
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.reports import ChildReport
from goqueue.actors.runtime.root import running
from goqueue.actors.runtime.supervisor import Supervisor
from goqueue.core.records.record import Record, encode_record
from goqueue.errors import ActorDied, Closed, DamagedData, DiskFailed, DiskFull, LogStopped, OffsetOutOfRange
from goqueue.storage.log.views import LogStatistics
from goqueue.storage.log.volume import Volume
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.sim.disk.history import History, Violation
from tests.sim.disk.plan import Ending, Harm, Life, Plan
from tests.storage.logs import records_in

STOP_SECONDS_MAX = 20.0
SHUTDOWN_SECONDS_MAX = 3 * STOP_SECONDS_MAX
READ_BYTES = 5_000
BATCH_RECORDS_MAX = 4


@dataclass(slots=True)
class Tally:
    """What happened, for people, and to see that the simulator reaches what it should."""

    published: int = 0
    confirmed: int = 0
    refused: int = 0
    fetched: int = 0
    torn: int = 0
    damaged: int = 0
    endings: list[str] = field(default_factory=list)


class World:
    partition_class: type[Partition] = Partition
    volume_class: type[Volume] = Volume

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.plan = Plan.drawn(self.random)
        self.disk = SimulatedDisk(Random(self.random.getrandbits(64)), faults=self.plan.faults())
        self.clock = SimulatedClock()
        self.history = History()
        self.tally = Tally()
        self._written = 0
        self._flips = dict.fromkeys(range(self.plan.partitions), 0)
        self._refs: list[ActorRef] = []

    async def run(self) -> Tally:
        for life in self.plan.lives:
            await self._live(life)
            self._harm()
        await self._live(Life(seconds=0.1, ending=Ending.SHUTDOWN, full_disk=False, sync_failure=False))
        return self.tally

    # One life

    async def _live(self, life: Life) -> None:
        self.clock.step(self.random.randint(-3_600_000_000, 3_600_000_000))
        self.disk.capacity = 1 << 40
        image: SimulatedDisk | None = None
        try:
            async with trio.open_nursery() as node:
                await self._start(node)
                await self._check_everything()
                ending = await self._work(life)
                image = await self._end(node, ending)
        except* (LogStopped, DiskFailed):
            # A sync failed, perhaps at the start: the node stops itself, and somebody cuts the power to be sure.
            self.tally.endings.append("sync failed")
            image = self._power_cut()
        assert image is not None
        self.disk = image

    async def _start(self, node: trio.Nursery) -> None:
        volume = self.volume_class(self.disk)
        specs = [self._spec(volume, number) for number in range(self.plan.partitions)]
        self._refs = [spec.ref for spec in specs]
        self._stop, self._stopped = trio.Event(), trio.Event()
        await node.start(self._run_node, volume, specs)

    def _spec(self, volume: Volume, number: int) -> ChildSpec:
        # A slow disk takes two seconds for a sync, and a stop waits for several.
        return ChildSpec(
            f"partition {number}", lambda: self._partition(volume, number), stop_timeout_seconds=STOP_SECONDS_MAX
        )

    async def _run_node(
        self, volume: Volume, specs: list[ChildSpec], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with AsyncExitStack() as stack:
            nursery = await stack.enter_async_context(trio.open_nursery())
            await nursery.start(volume.run)
            async with running(supervised("partitions", lambda: Supervisor(specs, report=_ignore))):
                task_status.started()
                await self._stop.wait()
            nursery.cancel_scope.cancel()
        volume.close()
        self._stopped.set()

    def _partition(self, volume: Volume, number: int) -> Partition:
        folder = f"/data/logs/t/{number}"
        return self.partition_class(volume, self.clock, folder, self.plan.log_config(), disk_free_min=0)

    async def _work(self, life: Life) -> Ending:
        async with trio.open_nursery() as clients:
            for _ in range(self.plan.clients):
                clients.start_soon(self._publish_until_told)
            clients.start_soon(self._read_until_told)
            if life.full_disk:
                clients.start_soon(self._fill_disk)
            await trio.sleep(life.seconds / 2)
            if life.sync_failure:
                self.disk.fail_next_sync()
            await trio.sleep(life.seconds / 2)
            clients.cancel_scope.cancel()
        return life.ending

    async def _end(self, node: trio.Nursery, ending: Ending) -> SimulatedDisk:
        self.tally.endings.append(ending.value)
        if ending is Ending.SHUTDOWN:
            await self._shut_down()
            return self._power_cut(accepted_is_safe=True)
        image = self.disk.kill() if ending is Ending.KILL else self._power_cut()
        node.cancel_scope.cancel()
        return image

    def _power_cut(self, *, accepted_is_safe: bool = False) -> SimulatedDisk:
        if not accepted_is_safe:
            self.history.power_failed()
        return self.disk.crash()

    async def _shut_down(self) -> None:
        """G15: ordered, bounded, and afterwards nothing writes."""
        self.disk.capacity = 1 << 40
        with trio.move_on_after(SHUTDOWN_SECONDS_MAX) as limit:
            self._stop.set()
            await self._stopped.wait()
        if limit.cancelled_caught:
            raise Violation("G15: the shutdown took too long")
        before = (self.disk.counts.writes, self.disk.counts.syncs)
        await trio.sleep(60)
        if (self.disk.counts.writes, self.disk.counts.syncs) != before:
            raise Violation("G15: something wrote after the shutdown")

    # Clients

    async def _publish_until_told(self) -> None:
        while True:
            partition = self.random.randrange(self.plan.partitions)
            values = tuple(self._new_value() for _ in range(self.random.randint(1, BATCH_RECORDS_MAX)))
            await self._publish(partition, values, durably=self.random.random() < 0.7)
            await trio.sleep(self.random.choice([0.0, 0.001, 0.05, 0.3]))

    def _new_value(self) -> bytes:
        self._written += 1
        return b"%d " % self._written + bytes(self.random.choice([1, 50, 400]))

    async def _publish(self, partition: int, values: tuple[bytes, ...], *, durably: bool) -> None:
        records = b"".join(
            encode_record(number, self.clock.now(), value, priority=self.random.randrange(5))
            for number, value in enumerate(values)
        )
        self.history.attempt(partition, values)
        self.tally.published += 1
        try:
            acks = Acks.ALL if durably else Acks.LEADER
            produced = await self._refs[partition].call(Produce(records, len(values), acks=acks))
        except DiskFull:
            self.tally.refused += 1
            return
        except (ActorDied, Closed):
            await trio.sleep_forever()
        self.history.confirm(partition, produced.base_offset, values, durably=durably)
        self.tally.confirmed += 1

    async def _read_until_told(self) -> None:
        offsets = dict.fromkeys(range(self.plan.partitions), 0)
        while True:
            partition = self.random.randrange(self.plan.partitions)
            try:
                offsets[partition] = await self._read_on(partition, offsets[partition])
            except (ActorDied, Closed):
                await trio.sleep_forever()
            if self.random.random() < 0.05:
                await self._maintain(partition)
            if self.random.random() < 0.02:
                await self._delete(partition, self.random.randint(0, offsets[partition]))
            await trio.sleep(self.random.uniform(0, 0.1))

    async def _read_on(self, partition: int, offset: int) -> int:
        try:
            deadline = trio.current_time() + self.random.choice([0.0, 0.05, 5.0])
            await self._refs[partition].call(AwaitMore(offset, deadline))
            found = await self._refs[partition].call(Fetch(offset, READ_BYTES))
        except OffsetOutOfRange as error:
            return int(error.details["start"])
        except DamagedData as damage:
            return damage.end_offset
        for record in records_in(found.data):
            self.history.see(partition, record)
        self.tally.fetched += 1
        return found.next_offset

    async def _delete(self, partition: int, offset: int) -> None:
        self.history.deleted_before(partition, offset)
        try:
            await self._refs[partition].call(DeleteBefore(offset))
        except (OffsetOutOfRange, DiskFull):
            return
        except (ActorDied, Closed):
            await trio.sleep_forever()

    async def _maintain(self, partition: int) -> None:
        """Nothing is old enough to go, and no two messages share a key: nothing may change."""
        try:
            await self._refs[partition].call(Maintain(compact=True))
        except DiskFull:
            return
        except (ActorDied, Closed):
            await trio.sleep_forever()

    async def _fill_disk(self) -> None:
        while True:
            await trio.sleep(self.random.uniform(0, 0.5))
            self.disk.capacity -= self.disk.space("/").free - self.random.randint(0, 300)
            await trio.sleep(self.random.uniform(0, 0.5))
            self.disk.capacity = 1 << 40

    # Checking and harming

    async def _check_everything(self) -> None:
        for partition, ref in enumerate(self._refs):
            board = await board_of(ref)
            statistics = replace(board.log.statistics(), damage=await board.damage())
            damaged = self._named_damage(statistics)
            records = await self._read_all(partition, statistics, damaged)
            self._check_extent(partition, damaged)
            self.history.check(partition, records, damaged)
            for record in records:
                self.history.see(partition, record)
                self.history.confirm(partition, record.offset, (record.value,), durably=True)

    def _named_damage(self, statistics: LogStatistics) -> list[range]:
        self.tally.torn += len(statistics.torn)
        self.tally.damaged += len(statistics.damage)
        if statistics.damage and self.plan.harm is not Harm.ROT:
            raise Violation(f"G13: nobody harmed the logs, yet {statistics.damage[0]} is called damaged")
        return [range(damage.offset, damage.end_offset) for damage in statistics.damage]

    def _check_extent(self, partition: int, damaged: list[range]) -> None:
        """A flipped bit costs the batch it hits, and no other."""
        lost = {offset for each in damaged for offset in each}
        if len(lost) > self._flips[partition] * BATCH_RECORDS_MAX:
            raise Violation(f"G1: {self._flips[partition]} flipped bits cost {len(lost)} records: {sorted(lost)}")

    async def _read_all(self, partition: int, statistics: LogStatistics, damaged: list[range]) -> list[Record]:
        offset, records = statistics.log_start, []
        while offset < statistics.high_watermark:
            try:
                found = await self._refs[partition].call(Fetch(offset, READ_BYTES))
            except DamagedData as damage:
                if self.plan.harm is not Harm.ROT:
                    raise Violation(f"G13: nobody harmed the logs, yet {damage}") from damage
                damaged.append(range(damage.offset, damage.end_offset))
                offset = damage.end_offset
                continue
            records += [record for record in records_in(found.data) if record.offset >= offset]
            offset = found.next_offset
        return records

    def _harm(self) -> None:
        for partition in range(self.plan.partitions):
            folder = f"/data/logs/t/{partition}"
            if not self.disk.is_directory(folder):
                continue
            names = self.disk.list(folder)
            logs = [name for name in names if name.endswith(".log") and self.disk.size(f"{folder}/{name}")]
            others = [name for name in names if not name.endswith((".log", ".torn"))]
            closed = self.tally.endings[-1] == Ending.SHUTDOWN.value
            if self.plan.harm is Harm.ROT and closed and logs:
                self.disk.damage(f"{folder}/{self.random.choice(logs)}")
                self._flips[partition] += 1
            if self.plan.harm is Harm.METADATA and others:
                self._harm_file(f"{folder}/{self.random.choice(others)}")

    def _harm_file(self, path: str) -> None:
        if self.random.random() < 0.5 and self.disk.size(path):
            self.disk.damage(path)
        else:
            self.disk.remove(path)


def _ignore(_: ChildReport) -> None:
    """Crashes are what a simulation is made of."""

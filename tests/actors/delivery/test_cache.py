"""The memory for what is kept from the logs: partitions share it, and give it back when they end."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import pytest
from trio.testing import MockClock

from goqueue.actors.delivery.requests import AttachGroup, Take
from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.requests import Produce
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.actors.statistics.statistics import TopicCounts
from goqueue.actors.topics.requests import DeleteTopic
from goqueue.config import LogConfig
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.records.record import encode_record
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.core.slices.readcache import PartitionCache
from goqueue.storage.slices import Slices
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.actors.delivery.delivering import Listener
from tests.actors.delivery.gatherers import broker
from tests.actors.groups.groupworld import consumer, create, partition_of
from tests.storage.logs import mounted

PARTITIONS = 8
GROUPS = {"in order": LedgerSettings(key_order=True), "by lanes": LedgerSettings()}
BODY = b"".join(encode_record(number, 1, bytes(9), key=b"%d" % number, priority=number % 3) for number in range(99))


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


class Node:
    """Some partitions that share a budget."""

    def __init__(self, budget: CacheBudget) -> None:
        self.budget = budget
        self.partitions: list[Partition] = []
        self.refs: list[ActorRef] = []

    @property
    def bytes_kept(self) -> int:
        caches: list[PartitionCache] = [each.delivery.cache for each in self.partitions]
        return sum(part.kept.bytes_kept for each in caches for part in (each.indexes, each.stretches, each.batches))


@asynccontextmanager
async def node(disk: SimulatedDisk, bytes_max: int) -> AsyncIterator[Node]:
    there = Node(CacheBudget(bytes_max))
    async with mounted(disk) as volume, AsyncExitStack() as stack:
        for number in range(PARTITIONS):
            partition = Partition(
                volume,
                SimulatedClock(),
                f"/topics/orders/{number}",
                LogConfig(),
                disk_free_min=0,
                random=Random(number),
                budget=there.budget,
            )
            spec = ChildSpec(f"orders/{number}", lambda partition=partition: partition)  # type: ignore[misc]
            there.partitions.append(partition)
            there.refs.append(await stack.enter_async_context(running(spec)))
        yield there


async def take_from_all(there: Node, listener: ActorRef) -> None:
    """A few messages at a time, so that the rest of each batch is kept."""
    for ref in there.refs:
        await ref.call(Produce(BODY, 99, acks=Acks.ALL))
        for number, (group, settings) in enumerate(GROUPS.items(), start=1):
            await ref.call(AttachGroup(group, number, settings, "earliest", listener, "ann", 1, False))
            for _ in range(3):
                await ref.call(Take(group, "ann", 1, 4, 1_000_000, 30.0, False, None, 0))
                assert there.bytes_kept == there.budget.bytes_kept <= there.budget.bytes_max


async def test_all_caches_together_stay_within_the_budget_and_give_it_back_at_the_end(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with running(ChildSpec("listener", lambda: Listener([]))) as listener:
        async with node(disk, 40_000) as there:
            await take_from_all(there, listener)
            last = there.partitions[-1].delivery.cache
            assert all(part.kept.bytes_kept for part in (last.indexes, last.stretches, last.batches))
            assert not there.partitions[0].delivery.cache.batches.kept.bytes_kept, "it was used longest ago"
        assert there.budget.bytes_kept == there.bytes_kept == 0


async def test_a_deleted_topic_gives_its_share_back_and_counters_show_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async def kept() -> int:
        counted = (await there.statistics.report(TopicCounts(0, 0, 0, 0, 0), 0, {}, {}, Slices()))[
            "groups.bytes_kept"
        ]
        assert isinstance(counted, int)
        return counted

    async with broker(disk) as there:
        for topic in ("orders", "letters"):
            await create(there, topic)
            ref = await partition_of(there, topic)
            await ref.call(Produce(BODY, 99, acks=Acks.ALL))
            await (await consumer(there, topic, group=topic)).take(topic, count=4)
        both = await kept()
        await there.topics.call(DeleteTopic("orders"))
        one = await kept()
        await there.topics.call(DeleteTopic("letters"))
        assert (both, one, await kept()) == (2 * one, one, 0)
        assert one > 0

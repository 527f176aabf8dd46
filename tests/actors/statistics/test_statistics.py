"""What a broker counts: each counter moves when what it counts happens, and only then."""

import re
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.actors.delivery import view
from goqueue.actors.front import lanefigures
from goqueue.actors.front.lanefigures import READ_MAX
from goqueue.actors.statistics.statistics import COUNTERS, REFUSED, RESTARTS
from goqueue.core.records.batch import ENVELOPE_SIZE
from goqueue.core.records.record import HEADER_SIZE, encode_record
from goqueue.errors import InvalidSchema
from goqueue.net.wire import messages as wire
from goqueue.net.wire.schemas import RegisterSchema, SchemaBody, SchemaRegistered
from goqueue.testing.disk import SimulatedDisk
from tests.process.brokers import URL, MemoryNetwork, broker_in_memory


class Counted:
    """A client, and how much the counters moved since it was last asked."""

    def __init__(self, client: goqueue.Client) -> None:
        self.client = client
        self._before: dict[str, Any] = {}

    async def moved(self) -> dict[str, Any]:
        now = dict(await self.client.stats())
        moved = {name: value - self._before.get(name, 0) for name, value in now.items()}
        self._before = now
        return {name: value for name, value in moved.items() if value}


@pytest.fixture
async def counted(autojump_clock: MockClock) -> AsyncIterator[Counted]:
    network = MemoryNetwork()
    async with (
        broker_in_memory(network, SimulatedDisk(Random(0))),
        goqueue.connect(URL, network=network) as client,
    ):
        await client.create_topic("orders", partitions=2)
        counted = Counted(client)
        await counted.moved()
        yield counted


async def test_every_counter_is_on_the_list(counted: Counted) -> None:
    with pytest.raises(goqueue.UnknownTopic):
        await counted.client.publish("missing", b"a")
    async with counted.client.consumer("orders", group="billing"):
        await counted.client.call(RegisterSchema("orders", SchemaBody("{}")), SchemaRegistered)
        names = {_as_listed(name) for name in await counted.client.stats()}
    only_of_processes = {name for name in COUNTERS if name.startswith(("loop.", "memory."))}
    only_with_damage = {"damaged.TOPIC/PARTITION"}
    assert names | {REFUSED + "CODE"} | only_of_processes | only_with_damage == set(COUNTERS)


def _as_listed(name: str) -> str:
    if name.startswith(REFUSED):
        return REFUSED + "CODE"
    if name.startswith(RESTARTS):
        return RESTARTS + "KIND"
    if name.startswith("schemas.registrations."):
        return "schemas.registrations.RESULT"
    return re.sub(r"^lane\.[a-z]+\.", "lane.PRIORITY.", name)


async def test_what_becomes_of_registrations_is_counted(counted: Counted) -> None:
    register = RegisterSchema("orders", SchemaBody('{"type": "object"}'))
    for _ in range(2):
        await counted.client.call(register, SchemaRegistered)
    with pytest.raises(InvalidSchema):
        await counted.client.call(register._replace(schema=SchemaBody("{")), SchemaRegistered)
    moved = {name: value for name, value in (await counted.moved()).items() if name.startswith("schemas")}
    assert moved == {
        "schemas": 1,
        "schemas.subjects": 1,
        "schemas.versions": 1,
        "schemas.size": len(register.schema.text),
        "schemas.registrations.new": 1,
        "schemas.registrations.existing": 1,
        "schemas.registrations.invalid_schema": 1,
    }


async def test_what_is_published_is_counted_in_messages_batches_and_bytes(counted: Counted) -> None:
    async with counted.client.producer("orders") as producer:
        await producer.send_many([b"12345"] * 10, partition=0)
    moved = await counted.moved()
    assert (moved["published.messages"], moved["published.batches"]) == (10, 1)
    assert moved["published.bytes"] == moved["logs.bytes"] == ENVELOPE_SIZE + 10 * (HEADER_SIZE + 5)
    assert moved["fsync.rounds"] >= 1
    assert moved["fsync.syncs"] >= 1
    assert "refused" not in moved
    assert "fetched.messages" not in moved


async def test_lanes_of_all_queues_are_summed_up(counted: Counted) -> None:
    """Ready, in flight, served, share and oldest age of each priority; streams have no lanes."""
    async with counted.client.producer("orders") as producer:
        await producer.send_many([b"a"] * 6, partition=0, priority="high")
        await producer.send_many([b"a"] * 10, partition=1, priority="low")
    await trio.sleep(5)
    async with (
        counted.client.consumer("orders", group="billing") as billing,
        counted.client.consumer("orders", group="shipping"),
        counted.client.consumer("orders", group="audit", mode="stream") as audit,
    ):
        await audit.receive()
        received = [await billing.receive(2), await billing.receive(2)]
        await billing.ack(received[0])
        figures = await lanes(counted)
        assert (figures["high"]["ready"] + figures["low"]["ready"]) == 32 - 4
        assert (figures["high"]["in_flight"] + figures["low"]["in_flight"]) == 2
        assert (figures["high"]["served"] + figures["low"]["served"]) == 4
        assert figures["high"]["share"] + figures["low"]["share"] == pytest.approx(1)
        assert all(5 <= figures[lane]["oldest_seconds"] < 7 for lane in ("high", "low"))
        assert figures["normal"] == {"ready": 0, "in_flight": 0, "served": 0, "share": 0, "oldest_seconds": 0}


async def test_what_is_ready_is_left_out_where_one_partition_cannot_tell(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "NEAR_MAX", 3)
    async with counted.client.producer("orders") as producer:
        await producer.send_many([b"a"] * 4, partition=0, priority="high")
        await producer.send_many([b"a"] * 4, partition=0, priority="low")
        await producer.send_many([b"a"] * 2, partition=1, priority="high")
    async with counted.client.consumer("orders", group="billing"):
        figures = await lanes(counted)
        assert "ready" not in figures["high"]
        assert "ready" not in figures["low"]
        assert figures["normal"]["ready"] == 0


async def test_lanes_of_very_many_partitions_with_work_are_left_out(counted: Counted) -> None:
    """Where a group is done with everything, nothing is read, however many partitions there are."""
    await counted.client.create_topic("wide", partitions=READ_MAX)
    async with (
        counted.client.consumer("wide", group="billing"),
        counted.client.consumer("wide", group="shipping"),
    ):
        assert (await lanes(counted))["normal"]["ready"] == 0
        async with counted.client.producer("wide") as producer:
            for number in range(READ_MAX // 2):
                await producer.send(b"a", partition=number)
        assert (await lanes(counted))["normal"]["ready"] == READ_MAX
        await counted.client.publish("wide", b"a", partition=READ_MAX // 2)
        assert await lanes(counted) == {}


async def test_lanes_of_more_partitions_than_can_be_looked_at_are_left_out(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanefigures, "PLACES_MAX", 3)
    async with counted.client.consumer("orders", group="billing"):
        assert await lanes(counted)
        async with counted.client.consumer("orders", group="shipping"):
            assert await lanes(counted) == {}


async def lanes(counted: Counted) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, value in (await counted.client.stats()).items():
        kind, _, rest = name.partition(".")
        if kind == "lane":
            found.setdefault(rest.partition(".")[0], {})[rest.partition(".")[2]] = float(value)
    return found


async def test_what_is_read_is_counted(counted: Counted) -> None:
    async with counted.client.producer("orders") as producer:
        await producer.send_many([b"12345"] * 10, partition=0)
    await counted.moved()
    async with counted.client.read("orders", partition=0, end="latest") as reader:
        assert len([message async for message in reader]) == 10
    moved = await counted.moved()
    assert (moved["fetched.messages"], moved["fetched.slices"]) == (10, 1)
    assert moved["fetched.bytes"] == ENVELOPE_SIZE + 10 * (HEADER_SIZE + 5)
    assert "published.messages" not in moved


async def test_what_is_refused_is_counted_by_its_reason(counted: Counted) -> None:
    await counted.client.create_topic("full", partitions=1, config={"max_messages": 1})
    await counted.client.publish("full", b"a")
    await counted.moved()
    with pytest.raises(goqueue.DeliveryTimeout):
        async with counted.client.producer("full", delivery_timeout=1.0) as producer:
            await producer.send(b"b")
    moved = await counted.moved()
    assert moved["refused.topic_full"] == moved["refused"] >= 1
    assert "published.messages" not in moved


async def test_a_repeat_is_counted_and_not_as_published(counted: Counted) -> None:
    """G11."""
    topic = await counted.client.topic("orders")
    await counted.client.publish("orders", b"a", message_id=b"1", partition=0)
    await counted.client.publish("orders", b"a", message_id=b"1", partition=0)
    moved = await counted.moved()
    assert (moved["published.messages"], moved["published.repeats"]) == (1, 1)
    assert topic.partitions[0].end == 0


async def test_a_batch_that_is_sent_again_is_a_repeat(counted: Counted) -> None:
    """G11."""
    topic = await counted.client.topic("orders")
    body = encode_record(0, 1, b"a")
    batch = wire.ProduceBatch(topic.uuid.bytes, 0, 0, 2**62, 0, 0, 0, 1, body)
    for _ in range(2):
        answer = await counted.client.call(wire.Produce(int(goqueue.Acks.ALL), (batch,)), wire.Produced)
        assert answer.batches[0].base_offset == 0
    moved = await counted.moved()
    assert (moved["published.messages"], moved["published.repeats"]) == (1, 1)


async def test_connections_come_and_go(counted: Counted) -> None:
    async with goqueue.connect(URL, network=counted.client._network) as other:
        await other.topics()
        moved = await counted.moved()
        assert (moved["connections.open"], moved["connections.accepted"]) == (1, 1)
    assert (await counted.moved())["connections.open"] == -1


async def test_what_a_deleted_topic_counted_stays_counted(counted: Counted) -> None:
    await counted.client.publish("orders", b"a")
    await counted.client.delete_topic("orders")
    stats = await counted.client.stats()
    assert (stats["published.messages"], stats["topics"], stats["partitions"]) == (1, 0, 0)
    assert stats["logs.bytes"] == 0


async def test_requests_are_counted(counted: Counted) -> None:
    await counted.client.call(wire.DescribeTopics(()), wire.Topics)
    assert (await counted.moved())["requests"] == 2

"""The producer, against a real broker in the same process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from random import Random
from typing import Any

import pytest
import trio

import goqueue
from goqueue.client.client import Client
from goqueue.core.records.record import VALUE_SIZE_MAX
from goqueue.environment import Environment, SystemClock, TcpNetwork
from goqueue.errors import BufferFull, InvalidMessage, PublishFailed
from goqueue.http.ports import serving
from goqueue.net.transport.origin import Address
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks

ANY_PORT = Address("127.0.0.1", 0)


@asynccontextmanager
async def connected(disk: SimulatedDisk | None = None, partitions: int = 1) -> AsyncIterator[Client]:
    environment = Environment(disk or SimulatedDisk(Random(0)), TcpNetwork(), SystemClock(), Random(1))
    async with serving(environment, "/data", listen=ANY_PORT, http=ANY_PORT) as ports:
        url = f"ws://127.0.0.1:{ports.websocket.port}"
        async with goqueue.connect(url) as client:
            await client.create_topic("orders", partitions=partitions)
            yield client


async def values(client: Client, partition: int | None = None) -> list[bytes]:
    return [message.value async for message in client.read("orders", partition=partition, end="latest")]


async def test_many_values_are_published_in_order() -> None:
    async with connected() as client, client.producer("orders") as producer:
        sent = [b"%d" % number for number in range(2_500)]
        published = await producer.send_many(sent)
        assert [each.offset for each in published] == list(range(2_500))
        assert await values(client) == sent
        assert await producer.send_many([]) == []


async def test_a_key_keeps_its_partition_and_its_order() -> None:
    """G4"""
    async with connected(partitions=3) as client, client.producer("orders") as producer:
        keys = [b"k%d" % (number % 10) for number in range(300)]
        published = await producer.send_many([b"%d" % number for number in range(300)], keys=keys)
        places: dict[bytes, set[int]] = {}
        for key, each in zip(keys, published, strict=True):
            places.setdefault(key, set()).add(each.partition)
        assert all(len(partitions) == 1 for partitions in places.values())
        assert len({each.partition for each in published}) > 1
        for partition in range(3):
            numbers = [int(value) for value in await values(client, partition)]
            assert numbers == sorted(numbers)


async def test_keyless_values_of_one_call_stay_together_and_the_next_call_moves_on() -> None:
    async with connected(partitions=3) as client, client.producer("orders") as producer:
        chosen = [{each.partition for each in await producer.send_many([b"a", b"b"])} for _ in range(3)]
        assert sorted(chosen, key=sorted) == [{0}, {1}, {2}]


@pytest.mark.parametrize("acks", Acks)
async def test_producers_without_keys_begin_at_any_partition(acks: Acks) -> None:
    """Many short-lived producers must not all fill partition 0."""
    async with connected(partitions=3) as client:
        begun = set()
        for _ in range(20):
            async with client.producer("orders", acks=acks) as producer:
                begun.add((await producer.send(b"a")).partition)
        assert begun == {0, 1, 2}


@pytest.mark.parametrize(
    ("count", "runs"), [(999, [999]), (1_000, [500, 500]), (1_600, [533, 533, 534]), (9_000, [3_000] * 3)]
)
async def test_many_keyless_values_of_one_call_are_spread_in_runs(count: int, runs: list[int]) -> None:
    async with connected(partitions=3) as client, client.producer("orders") as producer:
        sent = [b"%d" % number for number in range(count)]
        published = await producer.send_many(sent, keys=[None] * count if count == 1_600 else None)
        found = [(partition, len(list(each))) for partition, each in groupby(published, lambda one: one.partition)]
        assert [length for _, length in found] == runs
        assert len({partition for partition, _ in found}) == len(runs)
        written = {
            (partition, number): value
            for partition in range(3)
            for number, value in enumerate(await values(client, partition))
        }
        assert [written[each.partition, each.offset or 0] for each in published] == sent
        after = (await producer.send(b"next")).partition
        assert (after in {partition for partition, _ in found}) == (len(runs) == 3)


async def test_a_named_partition_or_id_keeps_many_values_together() -> None:
    async with connected(partitions=3) as client, client.producer("orders") as producer:
        for options in ({"partition": 1}, {"message_id": b"id"}):
            published = await producer.send_many([b"a"] * 2_000, **options)
            assert len({each.partition for each in published}) == 1


async def test_bad_records_fail_alone_and_the_rest_is_published_in_order() -> None:
    """G2, G14: `results` has a Published or an error for each value."""
    async with connected() as client, client.producer("orders") as producer:
        with pytest.raises(PublishFailed) as failed:
            await producer.send_many([b"a", b"b", b"c"], headers={"goqueue-mine": b"1"})
        assert all(isinstance(result, InvalidMessage) for result in failed.value.results)
        large = bytes(16 * 1024 * 1024 + 1)
        with pytest.raises(PublishFailed) as failed:
            await producer.send_many([b"a", large, b"c"])
        first, bad, last = failed.value.results
        assert isinstance(bad, goqueue.TooLarge)
        assert (first.offset, last.offset) == (0, 1)  # type: ignore[attr-defined]
        assert await values(client) == [b"a", b"c"]
        assert (await producer.send(b"d")).offset == 2


async def test_a_queued_message_is_sent_by_flush_and_by_leaving() -> None:
    async with connected() as client:
        async with client.producer("orders") as producer:
            producer.send_nowait(b"a")
            await producer.flush()
            assert await values(client) == [b"a"]
            producer.send_nowait(b"b", key=b"k")
        assert await values(client) == [b"a", b"b"]
        with pytest.raises(goqueue.Closed):
            await producer.send(b"late")


async def test_a_full_buffer_says_so_and_send_waits_for_room() -> None:
    async with connected() as client, client.producer("orders", buffer_messages=3) as producer:
        for _ in range(3):
            producer.send_nowait(b"queued")
        with pytest.raises(BufferFull):
            producer.send_nowait(b"too many")
        assert (await producer.send(b"waited")).offset == 3


async def test_many_are_queued_together_or_not_at_all() -> None:
    async with connected() as client, client.producer("orders", buffer_messages=3) as producer:
        producer.send_many_nowait([b"a", b"b"], [None, b"k"], priority="high")
        for wrong in ([b"c", "text"], [b"c", bytes(VALUE_SIZE_MAX + 1)]):
            with pytest.raises(goqueue.InvalidMessage) as refused:
                producer.send_many_nowait(wrong)  # type: ignore[arg-type]
            assert refused.value.details == {"number": 1}
        with pytest.raises(goqueue.InvalidMessage, match="2 values and 1 keys"):
            producer.send_many_nowait([b"c", b"c"], [b"k"])
        with pytest.raises(goqueue.UnknownPartition):
            producer.send_many_nowait([b"c"], partition=7)
        with pytest.raises(BufferFull):
            producer.send_many_nowait([b"c", b"c"])
        producer.send_many_nowait([])
        await producer.flush()
        producer.send_many_nowait([b"d"] * 4)  # more than the buffer has room for, and nothing else waits
        await producer.flush()
        assert await values(client) == [b"a", b"b", *[b"d"] * 4]


async def leave_by_an_error(client: Client) -> None:
    async with client.producer("orders", linger_ms=10_000) as producer:
        producer.send_nowait(b"leaves at once")
        producer.send_nowait(b"gathers behind it")
        raise KeyError("mine")


async def test_leaving_by_an_exception_drops_what_was_not_sent_and_says_how_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected() as client:
        with pytest.raises(KeyError, match="mine"):
            await leave_by_an_error(client)
        assert b"gathers behind it" not in await values(client)
    assert "2 messages to orders were dropped unconfirmed" in caplog.text


@pytest.mark.parametrize("acks", ["none", "leader", "all", Acks.ALL])
async def test_each_kind_of_acks_is_taken(acks: Acks | str) -> None:
    async with connected() as client, client.producer("orders", acks=acks) as producer:
        published = await producer.send(b"a")
        assert published.offset == (None if acks == "none" else 0)


@pytest.mark.parametrize("acks", ["most", "", 3, -1, True, 1.0, None, b"all"])
async def test_other_acks_are_refused(acks: Any) -> None:
    async with connected() as client:
        with pytest.raises(InvalidMessage, match="nothing to wait for"):
            client.producer("orders", acks=acks)


async def test_text_is_refused() -> None:
    async with connected() as client, client.producer("orders") as producer:
        with pytest.raises(InvalidMessage, match="bytes"):
            await producer.send("text")  # type: ignore[arg-type]
        assert await values(client) == []


async def test_many_tasks_share_a_producer() -> None:
    async with connected() as client, client.producer("orders") as producer:
        confirmed: dict[int, bytes] = {}

        async def work(name: int) -> None:
            for number in range(20):
                value = b"%d-%d" % (name, number)
                published = await producer.send(value)
                assert published.offset is not None
                confirmed[published.offset] = value

        async with trio.open_nursery() as nursery:
            for name in range(20):
                nursery.start_soon(work, name)
        assert await values(client) == [confirmed[offset] for offset in range(400)]


async def test_a_topic_that_wants_zstd_is_sent_compressed_batches() -> None:
    disk = SimulatedDisk(Random(0))
    async with connected(disk) as client:
        await client.alter_topic("orders", {"compression": "zstd"})
        async with client.producer("orders") as producer:
            sent = [b"the same again " * 100] * 200
            await producer.send_many(sent)
        assert await values(client) == sent
    log = "/data/logs/orders/0/00000000000000000000.log"
    assert disk.size(log) < sum(map(len, sent)) / 10

"""A sender takes over a batch of another producer id, which was sent by other means and may have been written."""

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.producing.answered import AnsweredOutcome
from goqueue.client.producing.producer import Producer
from goqueue.core.sending.chunk import Chunk, Content
from goqueue.core.sending.queue import OutBatch
from goqueue.net.wire import messages as wire
from goqueue.types import Acks
from tests.client.producing.test_answered import Caller
from tests.client.test_client import Machine, machine

__all__ = ["machine"]


def batch_of(value: bytes, caller: Caller) -> OutBatch:
    outcome = AnsweredOutcome([caller], trio.current_time())
    return OutBatch([Chunk(outcome, Content(0), [value], range(1), since=trio.current_time())], 1, is_sent=True)


async def send_by_other_means(client: goqueue.Client, who: wire.ProducerReady, batch: OutBatch) -> None:
    uuid = (await client.topic("orders")).uuid.bytes
    body = wire.ProduceBatch(uuid, 0, 0, who.producer_id, who.epoch, batch.sequence, 0, 1, batch.body())
    await client.call(wire.Produce(Acks.ALL, (body,)), wire.Produced)


async def values(client: goqueue.Client) -> list[bytes | None]:
    return [message.value async for message in client.read("orders", end="latest")]


@pytest.mark.parametrize("was_written", [True, False])
async def test_it_is_there_once_and_what_comes_later_follows_it(
    machine: Machine, autojump_clock: MockClock, *, was_written: bool
) -> None:
    """G3, G11: whether or not the first attempt was written, and though other messages are under way."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            who, caller = await client.call(wire.InitProducer(0, 0), wire.ProducerReady), Caller()
            batch = batch_of(b"adopted", caller)
            if was_written:
                await send_by_other_means(client, who, batch)
            before = [b"before 0", b"before 1", b"before 2"]
            producer.send_many_nowait(before)
            producer.adopt(0, who, batch)
            for number in range(3):
                producer.send_nowait(b"after %d" % number)
            await producer.flush()
        found = await values(client)
        assert caller.heard == [("orders", 0, found.index(b"adopted"))]
        assert len(found) == len(set(found)) == 7
        assert [value for value in found if value in before] == before
        following = [value for value in found if value not in before]
        assert following == [b"adopted", b"after 0", b"after 1", b"after 2"]


async def test_a_closed_producer_says_so(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        caller = Caller()
        async with client.producer("orders") as producer:
            who = await client.call(wire.InitProducer(0, 0), wire.ProducerReady)
        producer.adopt(0, who, batch_of(b"late", caller))
        assert [type(each) for each in caller.heard] == [goqueue.Closed]
        assert producer.room == 0
        assert await values(client) == []


async def test_a_producer_is_idle_for_others_only_while_nothing_is_under_way(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)

        async def is_idle(producer: Producer) -> list[bool]:
            async with producer:
                seen = [producer.idle_topic is not None]
                producer.send_nowait(b"")
                seen.append(producer.idle_topic is not None)
                await producer.flush()
                return [*seen, producer.idle_topic is not None]

        assert await is_idle(client.producer("orders")) == [True, False, True]
        assert await is_idle(client.producer("orders", idempotent=False)) == [False, False, False]

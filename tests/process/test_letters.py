"""Dead letters with a real process: a broker that is killed while it sends them back tells no lies afterwards."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
import trio

import goqueue
from tests.process.brokers import broker_process

COUNT = 60
DISMISSED = range(0, COUNT, 10)
SECONDS_MAX = 60.0


async def give_up_all(client: goqueue.Client) -> None:
    await client.create_topic("orders", partitions=1)
    async with client.producer("orders") as producer:
        await producer.send_many([b"%d" % number for number in range(COUNT)])
    async with client.consumer("orders", group="billing") as consumer:
        while (await client.group("billing")).lag:
            if messages := await consumer.receive(timeout=0.1):
                await consumer.reject(messages, "no address")


async def copies(client: goqueue.Client) -> Counter[bytes]:
    """What was sent back, by value."""
    async with client.read("orders", start=COUNT, partition=0, end="latest") as reader:
        return Counter([message.value async for message in reader])


async def values(client: goqueue.Client, state: str) -> list[bytes]:
    return [letter.message.value for letter in await client.dead_letters("orders", state=state)]


async def redrive_rest(client: goqueue.Client) -> goqueue.Redriven:
    """Once the broker has finished what a kill cut short."""
    while True:
        try:
            return await client.redrive("orders")
        except goqueue.GroupConflict:
            await trio.sleep(0.05)


@pytest.mark.parametrize("seed", range(3))
async def test_states_survive_a_kill_and_each_letter_is_sent_once(tmp_path: Path, seed: int) -> None:
    """G5"""
    with trio.fail_after(SECONDS_MAX):
        async with broker_process(tmp_path) as (process, url), goqueue.connect(url) as client:
            await give_up_all(client)
            done = await client.dismiss("orders", offsets=list(DISMISSED), note="known")
            assert (done.dismissed, done.remaining) == (len(DISMISSED), COUNT - len(DISMISSED))
            async with trio.open_nursery() as nursery, client.read("orders", partition=0, start=COUNT) as reader:
                nursery.start_soon(lambda: client.redrive("orders", per_second=20))
                await anext(reader)
                await trio.sleep(Random(seed).random() * 1.5)
                process.process.kill()
                nursery.cancel_scope.cancel()
        async with broker_process(tmp_path) as (_, url), goqueue.connect(url) as client:
            counts = await client.count_dead_letters("orders")
            assert (counts.total, counts.dismissed, counts.is_doubtful) == (COUNT, len(DISMISSED), False)
            rest = await redrive_rest(client)
            assert rest.redriven_in_all == COUNT - len(DISMISSED)
            assert 0 < rest.redriven < COUNT - len(DISMISSED), "some were sent before the kill"
            assert await values(client, "waiting") == []
            dismissed = await values(client, "dismissed")
            assert dismissed == [b"%d" % number for number in DISMISSED]
            sent = await copies(client)
            assert sent == Counter(b"%d" % number for number in range(COUNT) if number not in DISMISSED)
            assert sorted(sent) == sorted(await values(client, "redriven"))

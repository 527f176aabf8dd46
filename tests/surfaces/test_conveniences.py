"""JSON, lengths of time, time limits, ids and topics that may be there: the same on every surface."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from inspect import isawaitable
from types import ModuleType
from typing import Any

import pytest
import trio

import goqueue
from goqueue import aio, blocking

SURFACES = [goqueue, aio, blocking]
Program = Callable[[Any], Awaitable[None]]


async def now(answer: Any) -> Any:
    """What a call answers, whether or not it is awaited."""
    return await answer if isawaitable(answer) else answer


def run(surface: ModuleType, address: str, program: Program) -> None:
    """The same program with a client of each surface."""

    async def entered() -> None:
        async with surface.connect(address) as client:
            await program(client)

    if surface is blocking:
        with blocking.connect(address) as client, pytest.raises(StopIteration):
            program(client).__await__().send(None)  # it never waits
    elif surface is aio:
        asyncio.run(entered())
    else:
        trio.run(entered)


async def read(client: Any) -> list[Any]:
    found = client.read("orders", end="latest")
    return [each async for each in found] if hasattr(found, "__anext__") else list(found)


async def send(client: Any, *calls: Callable[[Any], Any]) -> None:
    producer = client.producer("orders")
    if hasattr(producer, "__enter__"):
        with producer:
            for call in calls:
                call(producer)
    else:
        async with producer:
            for call in calls:
                await call(producer)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
def test_json_goes_and_comes_back(surface: ModuleType, address: str) -> None:
    async def program(client: Any) -> None:
        await now(client.create_topic("orders", 1, exist_ok=True))
        await now(client.create_topic("orders", 1, exist_ok=True))
        await now(client.publish_json("orders", {"b": [1, "grün"], "a": None}, key=b"k", timeout=5))
        await now(client.publish_json("orders", None))
        await now(client.publish("orders", None, key=b"k", timeout=timedelta(seconds=5)))
        await send(client, lambda producer: producer.send_json([1.5], timeout=5, priority="low"))
        await now(client.publish("orders", b"secret"))
        *messages, last = await read(client)
        assert messages[0].value == '{"b":[1,"grün"],"a":null}'.encode()
        assert [message.json() for message in messages] == [{"b": [1, "grün"], "a": None}, None, None, [1.5]]
        with pytest.raises(goqueue.InvalidMessage, match="orders/0 offset 4 is no JSON: ") as refused:
            last.json()
        assert refused.value.details == {"topic": "orders", "partition": 0, "offset": 4}
        assert "secret" not in str(refused.value)
        assert refused.value.__context__ is None
        for call in (client.publish_json, lambda *_: send(client, lambda each: each.send_json(math.nan))):
            with pytest.raises(goqueue.InvalidMessage, match="cannot be written as JSON"):
                await now(call("orders", {"at": math.nan}))
        assert len(await read(client)) == 5

    run(surface, address, program)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
def test_a_delayed_message_is_named_by_its_id_and_times_are_timedeltas(surface: ModuleType, address: str) -> None:
    async def program(client: Any) -> None:
        await now(client.create_topic("orders", 1, {"retention_hours": timedelta(days=2)}))
        begin = time.time()
        await now(client.publish("orders", b"v", delay=timedelta(hours=1), ttl=timedelta(days=1), message_id="a"))
        found = await now(client.delayed_message("orders", "a"))
        assert found.due == pytest.approx(begin + 3600, abs=10)
        assert await now(client.reschedule_delayed("orders", message_id="a", delay=timedelta(hours=2)))
        assert await now(client.cancel_delayed("orders", message_id="a"))
        assert not await now(client.deliver_delayed("orders", message_id="a"))
        assert (await now(client.topic("orders"))).config["retention_hours"] == 48

    run(surface, address, program)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
def test_a_consumer_takes_timedeltas(surface: ModuleType, address: str) -> None:
    second = timedelta(seconds=1)

    async def work(consumer: Any) -> None:
        [message] = await now(consumer.receive(timeout=10 * second, visibility_timeout=20 * second))
        await now(message.extend(30 * second))
        await now(message.nack(delay=0 * second))
        [message] = await now(consumer.receive(timeout=10 * second))
        assert message.attempt == 2
        await now(message.ack())
        assert await now(consumer.receive(timeout=timedelta(milliseconds=1))) == []

    async def program(client: Any) -> None:
        await now(client.create_topic("orders", 1))
        await now(client.publish("orders", b"v"))
        consumer = client.consumer("orders", group="billing", visibility_timeout=25 * second)
        if hasattr(consumer, "__enter__"):
            with consumer:
                await work(consumer)
        else:
            async with consumer:
                await work(consumer)

    run(surface, address, program)


@pytest.mark.parametrize("surface", [aio, blocking], ids=lambda each: each.__name__)
def test_a_publish_to_nobody_ends_in_time(surface: ModuleType) -> None:
    async def program(client: Any) -> None:
        with pytest.raises(goqueue.DeliveryTimeout, match=r"not sent within 0\.05 s; it was not written"):
            await now(client.publish("orders", b"v", timeout=0.05))
        with pytest.raises(goqueue.InvalidConfig, match="timeout=-1"):
            await now(client.publish("orders", b"v", timeout=-1))

    run(surface, "ws://127.0.0.1:1", program)

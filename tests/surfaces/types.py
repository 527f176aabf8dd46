"""What a type checker sees on the three surfaces. Nothing here runs: mypy reads it with all other tests."""

from collections.abc import Sequence
from typing import Any, assert_type

import goqueue
import goqueue.aio
import goqueue.blocking
from goqueue.client.reading.message import Published
from tests.client.schemas.orders import Order


async def of_trio(client: goqueue.Client) -> None:
    assert_type(await client.create_topic("orders", partitions=3), goqueue.Topic)
    assert_type(await client.publish("orders", b"v", key=b"k", delay=1.5), Published)
    async with client.producer("orders", linger_ms=0) as producer:
        assert_type(await producer.send_many([b"a"], [b"k"], ttl=5), Sequence[Published])
        assert_type(await producer.send_many([b"a", None], [b"k", b"k"]), Sequence[Published])
        await producer.send(b"v", prority="high")  # type: ignore[call-arg]
        await producer.send(b"v", priority=1.5)  # type: ignore[arg-type]
    async with client.producer("orders", schema=Order, register=False, linger_ms=0) as orders:
        assert_type(orders, goqueue.TypedProducer[Order])
        assert_type(await orders.send_many([Order(id=1), None], [b"k", b"k"]), Sequence[Published])
        await orders.send({"id": 1})  # type: ignore[arg-type]
    assert_type(client.producer("orders", schema={"type": "object"}), goqueue.TypedProducer[Any])
    assert_type(await client.schema("orders"), goqueue.RegisteredSchema)
    async with client.consumer("orders", group="billing", visibility_timeout=10) as consumer:
        assert_type(await consumer.receive(max_messages=5), list[goqueue.DeliveredMessage])


def of_threads(client: goqueue.blocking.Client) -> None:
    assert_type(client.create_topic("orders", partitions=3), goqueue.Topic)
    assert_type(client.groups(), list[goqueue.Group])
    assert_type(client.publish("orders", b"v", key=b"k", delay=1.5), Published)
    assert_type(client.publish("orders", None, key=b"k"), Published)
    with client.producer("orders", linger_ms=0) as producer:
        assert_type(producer.send_many([b"a"], [b"k"], ttl=5), Sequence[Published])
        assert_type(producer.send_nowait(b"a", priority="high"), None)
        producer.send(b"v", prority="high")  # type: ignore[call-arg]
    with client.producer("orders", schema=Order) as orders:
        assert_type(orders, goqueue.blocking.TypedProducer[Order])
        assert_type(orders.send(Order(id=1), priority="high"), Published)
    assert_type(client.check_schema("orders", Order), goqueue.SchemaFindings)
    with client.consumer("orders", group="billing", visibility_timeout=10) as consumer:
        assert_type(consumer.receive(max_messages=5), list[goqueue.blocking.DeliveredMessage])
        consumer.nack([], delay=1.0, reason="busy")
    client.create_topic(3)  # type: ignore[arg-type]
    client.consumer("orders")  # type: ignore[call-arg]
    client.producer("orders", linger=3)  # type: ignore[call-overload]


async def of_asyncio(client: goqueue.aio.Client) -> None:
    assert_type(await client.create_topic("orders", partitions=3), goqueue.Topic)
    assert_type(await client.why("billing"), str)
    assert_type(await client.publish("orders", b"v", key=b"k", delay=1.5), Published)
    async with client.producer("orders", linger_ms=0) as producer:
        assert_type(await producer.send_many([b"a"], [b"k"], ttl=5), Sequence[Published])
    async with client.producer("orders", schema=Order) as orders:
        assert_type(orders, goqueue.aio.TypedProducer[Order])
        assert_type(await orders.send(Order(id=1)), Published)
    async with client.consumer("orders", group="billing", visibility_timeout=10) as consumer:
        assert_type(await consumer.receive(max_messages=5), list[goqueue.DeliveredMessage])
    await client.create_topic(3)  # type: ignore[arg-type]

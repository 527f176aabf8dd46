"""The registry and producers of objects against a real process, which is killed in between."""

from pathlib import Path

import pytest
import trio

import goqueue
from tests.client.schemas.orders import ORDER_SCHEMA, NewerOrder, Order
from tests.process.brokers import broker_process

SECONDS_MAX = 60.0
COUNT = 500


async def test_schemas_outlive_a_kill_and_producers_go_on_under_them(tmp_path: Path) -> None:
    """G1, G16: what was registered holds after a restart, for those who come back and for all others."""
    with trio.fail_after(SECONDS_MAX):
        async with broker_process(tmp_path) as (broker, url):
            port = int(url.rpartition(":")[2])
            async with goqueue.connect(url) as client:
                await client.create_topic("orders", partitions=1)
                async with client.producer("orders", schema=Order) as producer:
                    await producer.send_many([Order(id=number) for number in range(COUNT)])
                    broker.process.kill()
                    await broker.end()
                    async with broker_process(tmp_path, port) as (_, again):
                        assert again == url
                        await go_on(client, producer)


async def go_on(client: goqueue.Client, producer: "goqueue.TypedProducer[Order]") -> None:
    await producer.send_many([Order(id=COUNT + number) for number in range(COUNT)])
    assert await client.schema("orders-value") == producer.schema
    with pytest.raises(goqueue.SchemaRefused):
        await client.publish("orders", b'{"id":"one"}')
    with pytest.raises(goqueue.IncompatibleSchema):
        await client.register_schema("orders-value", ORDER_SCHEMA)
    seen = list[int]()
    async with client.consumer("orders", group="billing", schema=NewerOrder) as consumer:
        while len(seen) < 2 * COUNT:
            messages = await consumer.receive(timeout=10)
            seen += [message.body.id for message in messages]
            await consumer.ack(messages)
    assert seen == list(range(2 * COUNT))

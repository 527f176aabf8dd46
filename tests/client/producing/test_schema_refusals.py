"""What a program hears of messages that do not fit the schema of their topic, on each way in. (G14, G16)"""

import pytest
from trio.testing import MockClock

import goqueue
from goqueue.errors import PublishFailed, SchemaRefused
from tests.client.test_client import Machine, machine, values

__all__ = ["machine"]

PRICE = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}
GOOD, BAD = b'{"price": 1}', b'{"price": "a secret"}'
WHY = '$.price: type "number"; subject orders-value, version 1'


async def topic_with_schema(client: goqueue.Client, **config: str) -> None:
    await client.create_topic("orders", partitions=1, config=config)
    await client.register_schema("orders-value", PRICE)


async def test_a_message_that_does_not_fit_is_refused_with_path_and_keyword(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await topic_with_schema(client)
        await client.publish("orders", GOOD)
        with pytest.raises(SchemaRefused) as caught:
            await client.publish("orders", BAD)
        assert (caught.value.message, caught.value.code, caught.value.retryable) == (WHY, "schema_refused", False)
        assert await values(client) == [GOOD]


async def test_the_others_of_a_batch_are_sent_again_in_order(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await topic_with_schema(client)
        async with client.producer("orders") as producer:
            with pytest.raises(PublishFailed) as caught:
                await producer.send_many([GOOD, BAD, GOOD, b"", GOOD])
            results = caught.value.results
            assert [type(result) for result in results] == [
                goqueue.Published,
                SchemaRefused,
                goqueue.Published,
                SchemaRefused,
                goqueue.Published,
            ]
            assert isinstance(results[1], SchemaRefused)
            assert results[1].message == WHY
            assert (await producer.send(GOOD)).offset == 3
        assert await values(client) == [GOOD] * 4


async def test_a_compressed_batch_and_a_delayed_message_are_held_to_the_schema(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await topic_with_schema(client, compression="zstd")
        with pytest.raises(PublishFailed) as caught:
            async with client.producer("orders") as producer:
                await producer.send_many([GOOD] * 200 + [BAD])
        assert isinstance(caught.value.results[200], SchemaRefused)
        with pytest.raises(SchemaRefused):
            await client.publish("orders", BAD, delay=60)


async def test_delayed_messages_are_moved_and_cancelled_whatever_the_schema_is_by_then(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """They were held to it when they were published, and marks have no value."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        for number in range(3):
            await client.publish("orders", BAD, delay=60, message_id=f"later {number}")
        await client.register_schema("orders-value", PRICE)
        assert await client.cancel_delayed("orders", message_id="later 0")
        await client.reschedule_delayed("orders", message_id="later 1", delay=1)
        async with client.consumer("orders", group="billing") as consumer:
            [message] = await consumer.receive(max_messages=1, timeout=10)
            assert message.value == BAD
            await message.reject("it does not fit")
            [message] = await consumer.receive(max_messages=1, timeout=100)
            await message.ack()
        async with client.consumer("orders.dlq", group="looking") as consumer:
            [letter] = await consumer.receive(max_messages=1, timeout=10)
            assert letter.value == BAD
        await client.redrive("orders")
        async with client.consumer("orders", group="billing") as consumer:
            [message] = await consumer.receive(max_messages=1, timeout=10)
            assert message.value == BAD
            await message.ack()


async def test_the_setting_of_a_topic_switches_at_once(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await topic_with_schema(client)
        for mode, is_taken in (("warn", True), ("on", False), ("off", True)):
            await client.alter_topic("orders", {"schema_validation": mode})
            if is_taken:
                await client.publish("orders", BAD)
            else:
                with pytest.raises(SchemaRefused):
                    await client.publish("orders", BAD)
        counted = await client.stats()
        assert [counted[f"schemas.{what}"] for what in ("accepted", "refused", "warned")] == [0, 1, 1]


async def test_a_deleted_schema_holds_no_more_and_the_one_before_does_again(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        await client.register_schema("orders", {"type": "integer"})
        await client.register_schema("orders", {"type": ["integer", "string"]})
        await client.publish("orders", b'"x"')
        await client.delete_schema("orders", 2)
        with pytest.raises(SchemaRefused):
            await client.publish("orders", b'"x"')
        await client.delete_schema("orders")
        await client.publish("orders", b"anything")


async def test_schemas_hold_after_a_restart(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await topic_with_schema(client)
    async with machine.both() as client:
        with pytest.raises(SchemaRefused):
            await client.publish("orders", BAD)
        await client.publish("orders", GOOD)

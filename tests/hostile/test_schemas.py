"""Hostile schemas and values, at a broker in a process of its own: typed errors, and it goes on. (G14)

A schema that is believed too much takes for ever, or ends the process where its stack ends: the first is seen by
the patience of this test, the second by its client.
"""

from contextlib import suppress
from pathlib import Path

import pytest
import trio

import goqueue
from goqueue.errors import InvalidSchema, SchemaRefused, TooLarge
from goqueue.net.wire.failures import NOTE_SIZE_MAX
from tests.hostile.hostileschemas import ACCEPTED, REFUSED, VALUES
from tests.process.brokers import broker_process

PATIENCE_SECONDS = 240


async def register_refused(client: goqueue.Client) -> None:
    for name, schema in REFUSED.items():
        with pytest.raises(InvalidSchema) as caught:
            await client.register_schema("hostile-value", schema)
        assert caught.value.error_code in (42201, 42209), name
        assert len(caught.value.message) < 1_000, name
    assert await client.subjects() == []


async def publish_hostile(client: goqueue.Client, name: str) -> None:
    """Whatever fits is accepted; what does not is refused by a typed error."""
    for value in VALUES.values():
        with suppress(SchemaRefused, TooLarge):
            await client.publish(name, value)


async def test_a_broker_withstands_hostile_schemas_and_values(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        async with broker_process(tmp_path) as (_, url), goqueue.connect(url) as client:
            await register_refused(client)
            for number, (name, schema) in enumerate(ACCEPTED.items()):
                topic = f"hostile-{number}"
                await client.create_topic(topic, partitions=1)
                registered = await client.register_schema(f"{topic}-value", schema)
                assert registered.version == 1, name
                await publish_hostile(client, topic)
            assert (await client.stats())["restarts"] == 0


async def test_values_are_refused_all_in_one_batch(tmp_path: Path) -> None:
    """And each by its own error."""
    with trio.fail_after(PATIENCE_SECONDS):
        async with broker_process(tmp_path) as (_, url), goqueue.connect(url) as client:
            await client.create_topic("orders", partitions=1)
            await client.register_schema("orders-value", {"type": "object", "required": ["z"]})
            with pytest.raises(goqueue.PublishFailed) as caught:
                async with client.producer("orders") as producer:
                    await producer.send_many(list(VALUES.values()))
            assert len(caught.value.results) == len(VALUES)
            for result in caught.value.results:
                assert isinstance(result, SchemaRefused | TooLarge)
                assert len(result.message) <= NOTE_SIZE_MAX
                assert "abab" not in result.message

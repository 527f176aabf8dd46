"""Producers of objects: what they send, what is registered when they are entered, and what is refused where."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import goqueue
from goqueue.testing import Machine, machine
from tests.client.schemas.orders import ORDER_SCHEMA, NewerOrder, Order, Payment

BAD: Any = Payment(1, 2.0)


@pytest.fixture
async def world() -> AsyncIterator[Machine]:
    async with machine() as made:
        yield made


@pytest.fixture
async def client(world: Machine) -> AsyncIterator[goqueue.Client]:
    async with world.client() as client:
        await client.create_topic("orders", partitions=1)
        yield client


async def sent(client: goqueue.Client) -> list[goqueue.Message]:
    return [message async for message in client.read("orders", end="latest")]


async def values(client: goqueue.Client) -> list[bytes | None]:
    return [message.value for message in await sent(client)]


async def test_objects_are_sent_as_json_under_a_header_that_names_their_schema(client: goqueue.Client) -> None:
    async with client.producer("orders", schema=Order) as producer:
        schema = producer.schema
        assert (schema.subject, schema.version) == ("orders-value", 1)
        assert (await producer.send(Order(id=1), key=b"k", headers={"a": b"1"})).offset == 0
        assert [each.offset for each in await producer.send_many([Order(id=2), None], [b"k", b"k"])] == [1, 2]
        producer.send_nowait(Order(id=3))
        producer.send_many_nowait([Order(id=4), Order(id=5)])
        await producer.flush()
    messages = await sent(client)
    assert messages[0].value == b'{"id":1,"note":"","lines":[]}'
    assert messages[0].headers == {"a": b"1", "schema-id": b"%d" % schema.id}
    assert [message.json() and message.json()["id"] for message in messages] == [1, 2, None, 3, 4, 5]
    assert {message.headers["schema-id"] for message in messages} == {b"%d" % schema.id}


async def test_a_newer_type_is_a_new_version_and_an_older_one_goes_on_under_its_own(client: goqueue.Client) -> None:
    for kind, version in ((Order, 1), (NewerOrder, 2), (Order, 1)):
        async with client.producer("orders", schema=kind) as producer:
            assert producer.schema.version == version
            await producer.send(kind(id=version))
    assert [message.headers["schema-id"] for message in await sent(client)] == [b"1", b"2", b"1"]


async def test_a_type_that_is_not_compatible_sends_nothing(client: goqueue.Client) -> None:
    async with client.producer("orders", schema=Order):
        pass
    with pytest.raises(goqueue.IncompatibleSchema):
        async with client.producer("orders", schema=Payment):
            raise AssertionError("it came in")


async def test_a_schema_that_is_not_registered_is_said_to_be_missing(client: goqueue.Client) -> None:
    for _ in range(2):  # first without the subject, then without the version
        with pytest.raises(
            goqueue.UnknownSchema, match="subject orders-value has no version with the schema of Order"
        ):
            async with client.producer("orders", schema=Order, register=False):
                raise AssertionError("it came in")
        await client.register_schema("orders-value", {"type": "object", "additionalProperties": False})
    await client.set_compatibility("orders-value", "NONE")
    registered = await client.register_schema("orders-value", Order)
    async with client.producer("orders", schema=Order, register=False) as producer:
        assert producer.schema == registered


async def test_nothing_is_registered_for_a_topic_that_is_not_there(client: goqueue.Client) -> None:
    with pytest.raises(goqueue.UnknownTopic):
        async with client.producer("nothing", schema=Order):
            raise AssertionError("it came in")
    assert await client.subjects() == []


async def test_what_is_no_such_object_is_refused_before_it_is_sent(client: goqueue.Client) -> None:
    async with client.producer("orders", schema=Order) as producer:
        with pytest.raises(goqueue.SchemaMisfit, match="the value is no Order"):
            await producer.send(BAD)
        with pytest.raises(goqueue.SchemaMisfit):
            producer.send_nowait(BAD)
        with pytest.raises(goqueue.SchemaMisfit) as refused:
            producer.send_many_nowait([Order(id=1), BAD])
        assert refused.value.details["number"] == 1
        with pytest.raises(goqueue.InvalidMessage, match="schema-id is the producer's own"):
            await producer.send(Order(id=1), headers={"schema-id": b"7"})
        with pytest.raises(goqueue.PublishFailed) as failed:
            await producer.send_many([BAD, Order(id=1), BAD, Order(id=2)], message_id="call")
    kinds = [type(result) for result in failed.value.results]
    assert kinds == [goqueue.SchemaMisfit, goqueue.Published, goqueue.SchemaMisfit, goqueue.Published]
    assert [value and b'"id":%d' % place in value for place, value in enumerate(await values(client), 1)] == [
        True
    ] * 2


async def test_what_the_broker_refuses_arrives_where_it_was_sent(client: goqueue.Client) -> None:
    """G16: the broker has the last word, also on what a program takes for sound."""
    async with client.producer("orders", schema=ORDER_SCHEMA) as producer:
        with pytest.raises(goqueue.SchemaRefused, match="id"):
            await producer.send({"id": "secret"})
        with pytest.raises(goqueue.PublishFailed) as failed:
            await producer.send_many([{"id": 1}, {"id": "secret"}, {"id": 2, "more": 1}])
        producer.send_nowait({})
        with pytest.raises(goqueue.PublishFailed) as flushed:
            await producer.flush()
    good, *bad = failed.value.results
    assert isinstance(good, goqueue.Published)
    assert [type(each) for each in (*bad, *flushed.value.results)] == [goqueue.SchemaRefused] * 3
    assert "secret" not in str(failed.value.results)
    assert await values(client) == [b'{"id":1}']


async def test_a_producer_is_entered_before_it_sends_and_leaves_by_an_error_of_the_program(
    client: goqueue.Client,
) -> None:
    producer = client.producer("orders", schema=Order)
    with pytest.raises(goqueue.Closed):
        _ = producer.schema
    with pytest.raises(goqueue.Closed):
        await producer.send(Order(id=1))
    with pytest.raises(ZeroDivisionError):
        async with client.producer("orders", schema=Order):
            raise ZeroDivisionError
    with pytest.raises(goqueue.InvalidConfig, match="register=1"):
        client.producer("orders", schema=Order, register=1)  # type: ignore[call-overload]


async def test_what_is_produced_comes_out_of_a_consumer(client: goqueue.Client) -> None:
    orders = [Order(id=number) for number in range(5)]
    async with client.producer("orders", schema=Order) as producer:
        await producer.send_many(orders)
    async with client.consumer("orders", group="billing", schema=NewerOrder) as consumer:
        messages = await consumer.receive(timeout=5)
        assert [message.body for message in messages] == [NewerOrder(id=each.id) for each in orders]

"""Consumers with a schema: bodies are objects, and what does not fit goes to the dead letters or raises."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.testing import Machine, machine
from tests.client.schemas.orders import ORDER_SCHEMA, NewerOrder, Order

GOOD, NO_JSON, NO_ORDER = b'{"id":1}', b"hello", b'{"note":"secret"}'
NO_ID = "SchemaMisfit: the value is no Order: id: Field required"


@pytest.fixture
async def world() -> AsyncIterator[Machine]:
    async with machine() as made:
        yield made


@pytest.fixture
async def client(world: Machine) -> AsyncIterator[goqueue.Client]:
    async with world.client() as client:
        await client.create_topic("orders", partitions=1)
        yield client


async def publish(client: goqueue.Client, *values: bytes | None) -> None:
    async with client.producer("orders") as producer:
        await producer.send_many(values, [b"k"] * len(values))


async def letters(client: goqueue.Client, count: int) -> list[tuple[int, str]]:
    """Offset and reason of each dead letter, once there are so many."""
    with trio.fail_after(600):
        while (await client.count_dead_letters("orders")).total < count:  # noqa: ASYNC110
            await trio.sleep(0.1)
    return [(letter.origin_offset or 0, letter.reason) for letter in await client.dead_letters("orders")]


Receive = Callable[[goqueue.Consumer], Awaitable[list[goqueue.DeliveredMessage]]]


async def by_calls(consumer: goqueue.Consumer) -> list[goqueue.DeliveredMessage]:
    found = list[goqueue.DeliveredMessage]()
    while some := await consumer.receive(timeout=5):
        found += some
    return found


async def by_a_loop(consumer: goqueue.Consumer) -> list[goqueue.DeliveredMessage]:
    found = []
    with trio.move_on_after(5):
        async for message in consumer:
            found.append(message)  # noqa: PERF401
    return found


@pytest.mark.parametrize("receive", [by_calls, by_a_loop])
async def test_a_message_has_the_object_and_what_does_not_fit_is_a_dead_letter(
    client: goqueue.Client, autojump_clock: MockClock, receive: Receive
) -> None:
    """G5: what is not handed out is a dead letter, with the reason, and nothing of its value is in that."""
    await publish(client, GOOD, NO_JSON, None, NO_ORDER, NO_ORDER, b"\0\0\0\0\x09" + GOOD)
    await client.publish("orders", b'{"id":2,"placed_at":1}', headers={"a": b"1"})
    async with client.consumer("orders", group="billing", schema=Order) as consumer:
        messages = await receive(consumer)
        assert [message.body for message in messages] == [Order(id=1), None, Order(id=1), Order(id=2)]
        assert [message.offset for message in messages] == [0, 2, 5, 6]
        assert messages[-1].headers == {"a": b"1"}
        assert messages[0].value == GOOD
        assert all(isinstance(message, goqueue.DeliveredMessage) for message in messages)
        await consumer.ack(messages)
        [no_json, *others] = await letters(client, 3)
        assert no_json[1].startswith("SchemaMisfit: the value is no Order: Invalid JSON")
        assert others == [(3, NO_ID), (4, NO_ID)]
        assert (await client.group("billing")).lag == 0


async def test_a_topic_of_misfits_alone_is_worked_off_and_what_comes_next_is_received(
    client: goqueue.Client,
    autojump_clock: MockClock,
) -> None:
    await publish(client, *[NO_ORDER] * 2_000, GOOD)
    async with client.consumer("orders", group="billing", schema=Order, max_in_flight=100) as consumer:
        [message] = await consumer.receive(timeout=60)
        assert (message.offset, message.body) == (2_000, Order(id=1))
        await message.ack()
    assert len(await letters(client, 2_000)) == 100  # a page


async def test_a_consumer_that_is_left_at_once_has_said_what_it_rejects(
    client: goqueue.Client, autojump_clock: MockClock
) -> None:
    """Whichever of its tasks runs first: so it is tried some times."""
    await publish(client, NO_ORDER, GOOD)
    for number in range(20):
        async with client.consumer("orders", group=f"group-{number}", schema=Order) as consumer:
            [message] = await consumer.receive(timeout=5)
            assert message.body == Order(id=1)
    assert await letters(client, 20) == [(0, NO_ID)] * 20
    async with client.consumer("orders", group="group-0") as consumer:
        [message] = await consumer.receive(timeout=5)
        assert (message.offset, message.attempt) == (1, 1)


async def test_a_reject_outlives_a_lost_connection(
    client: goqueue.Client, autojump_clock: MockClock, world: Machine
) -> None:
    async with (
        client.consumer("orders", group="billing", schema=Order) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(partial(consumer.receive, timeout=3_600))
        await publish(client, NO_ORDER)
        world.cut()
        assert await letters(client, 1) == [(0, NO_ID)]
        nursery.cancel_scope.cancel()


async def test_a_misfit_raises_where_its_body_is_asked_for(
    client: goqueue.Client, autojump_clock: MockClock
) -> None:
    await publish(client, NO_ORDER, GOOD)
    async with client.consumer("orders", group="billing", schema=Order, on_misfit="raise") as consumer:
        bad, good = await consumer.receive(timeout=5)
        for _ in range(2):
            with pytest.raises(
                goqueue.SchemaMisfit, match=r"^orders/0 offset 0: the value is no Order: id:"
            ) as found:
                _ = bad.body
        assert found.value.details == {"topic": "orders", "partition": 0, "offset": 0}
        assert "secret" not in str(found.value)
        assert good.body is good.body
        assert good.body == Order(id=1)
        await bad.reject("by hand")
        await good.ack()
    assert await letters(client, 1) == [(0, "by hand")]


async def test_another_version_is_read_into_the_consumer_s_own_type(
    client: goqueue.Client, autojump_clock: MockClock
) -> None:
    await publish(client, GOOD)
    async with client.consumer("orders", group="billing", schema=NewerOrder) as consumer:
        [message] = await consumer.receive(timeout=5)
        assert message.body == NewerOrder(id=1)


async def test_json_schema_gives_maps(client: goqueue.Client, autojump_clock: MockClock) -> None:
    await publish(client, GOOD, b'{"id":"x"}')
    async with client.consumer("orders", group="billing", schema=ORDER_SCHEMA) as consumer:
        [message] = await consumer.receive(timeout=5)
        assert message.body == {"id": 1}
    assert len(await letters(client, 1)) == 1


async def test_without_a_schema_a_message_is_as_ever_and_says_what_a_body_needs(
    client: goqueue.Client, autojump_clock: MockClock
) -> None:
    await publish(client, NO_JSON)
    async with client.consumer("orders", group="billing") as consumer:
        [message] = await consumer.receive(timeout=5)
        assert type(message) is goqueue.DeliveredMessage
        with pytest.raises(goqueue.InvalidConfig, match="schema=Order"):
            _ = message.body


# Streams


async def test_a_stream_raises_where_a_body_is_asked_for(client: goqueue.Client, autojump_clock: MockClock) -> None:
    await publish(client, NO_ORDER, GOOD)
    async with client.consumer("orders", group="audit", mode="stream", schema=Order) as consumer:
        bad, good = await consumer.receive(timeout=5)
        with pytest.raises(goqueue.SchemaMisfit):
            _ = bad.body
        assert good.body == Order(id=1)


@pytest.mark.parametrize("receive", [by_calls, by_a_loop])
async def test_a_stream_may_pass_over_what_does_not_fit(
    client: goqueue.Client, autojump_clock: MockClock, receive: Receive
) -> None:
    await publish(client, NO_ORDER, GOOD, NO_JSON, GOOD, NO_ORDER)
    options: dict[str, Any] = {"group": "audit", "mode": "stream", "schema": Order, "on_misfit": "skip"}
    async with client.consumer("orders", **options) as consumer:
        assert [message.offset for message in await receive(consumer)] == [1, 3]
        await consumer.commit()
    assert (await client.group("audit")).lag == 0
    assert (await client.count_dead_letters("orders")).total == 0


# Options


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"schema": 3}, "no type that pydantic knows"),
        ({"schema": "{"}, "#: no JSON"),
        ({"schema": {"$ref": "line"}}, "line"),
        ({"schema": Order, "on_misfit": "skip"}, 'on_misfit=\'skip\' must be "reject" or "raise" in mode "queue"'),
        ({"schema": Order, "on_misfit": "reject", "mode": "stream"}, '"raise" or "skip" in mode "stream"'),
        ({"on_misfit": "reject"}, "on_misfit is for a consumer with a schema"),
    ],
)
async def test_options_that_cannot_be_meant_are_refused(
    client: goqueue.Client, autojump_clock: MockClock, options: dict[str, Any], fault: str
) -> None:
    with pytest.raises((goqueue.InvalidConfig, goqueue.InvalidSchema)) as refused:
        client.consumer("orders", group="billing", **options)
    assert fault in str(refused.value)

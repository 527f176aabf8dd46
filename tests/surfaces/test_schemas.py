"""The registry, producers of objects, bodies and workers with a schema: the same on every surface."""

import asyncio
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import trio

import goqueue
from goqueue import aio, blocking
from tests.client.schemas.orders import ORDER_SCHEMA, NewerOrder, Order, Payment
from tests.surfaces.background import wait_until
from tests.surfaces.test_conveniences import SURFACES, now, run

BAD: Any = Payment(1, 2.0)


class Entered:
    """Something that is entered on any surface: `with` or `async with`."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    async def __aenter__(self) -> Any:
        thing = self._thing
        return thing.__enter__() if hasattr(thing, "__enter__") else await thing.__aenter__()

    async def __aexit__(self, *error: Any) -> Any:
        thing = self._thing
        return thing.__exit__(*error) if hasattr(thing, "__exit__") else await thing.__aexit__(*error)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
def test_the_registry_is_asked_by_the_same_names(surface: ModuleType, address: str) -> None:
    async def program(client: Any) -> None:
        first = await now(client.register_schema("orders-value", Order))
        assert await now(client.register_schema("orders-value", Order, ())) == first
        assert await now(client.schema("orders-value")) == await now(client.schema_by_id(first.id)) == first
        assert await now(client.find_schema("orders-value", Order)) == first
        assert (await now(client.check_schema("orders-value", NewerOrder))).is_compatible
        assert [each.path for each in await now(client.check_schema("orders-value", {"type": "string"}))]
        await now(client.set_compatibility("orders-value", "FULL"))
        assert await now(client.compatibility("orders-value")) == "FULL"
        await now(client.set_schema_mode(None, "READONLY"))
        assert await now(client.schema_mode()) == "READONLY"
        await now(client.set_schema_mode(None, "READWRITE"))
        assert await now(client.schema_versions("orders-value")) == [1]
        assert await now(client.subjects()) == ["orders-value"]
        assert await now(client.delete_schema("orders-value")) == [1]
        with pytest.raises(goqueue.UnknownSubject):
            await now(client.schema("orders-value"))

    run(surface, address, program)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    ("schema", "value"), [(Order, Order(id=1)), (Payment, Payment(1, 2.5)), (ORDER_SCHEMA, {"id": 1})], ids=repr
)
def test_an_object_goes_and_comes_back(surface: ModuleType, address: str, schema: Any, value: Any) -> None:
    async def program(client: Any) -> None:
        await now(client.create_topic("orders", 1))
        async with Entered(client.producer("orders", schema=schema, linger_ms=0)) as producer:
            assert producer.schema.version == 1
            await now(producer.send(value, key=b"k", timeout=5))
            await now(producer.send(value))
            await now(producer.send_many([value, None], [b"k", b"k"], priority="high"))
            producer.send_nowait(value, headers={"a": b"1"})
            producer.send_many_nowait([value])
            await now(producer.flush())
        async with Entered(client.consumer("orders", group="billing", schema=schema)) as consumer:
            messages: list[Any] = []
            while len(messages) < 6:
                messages += await now(consumer.receive(timeout=10))
            bodies = [message.body for message in sorted(messages, key=lambda each: each.offset)]
            assert bodies == [value, value, value, None, value, value]
            await now(consumer.ack(messages))

    run(surface, address, program)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
def test_what_cannot_be_sent_is_said(surface: ModuleType, address: str) -> None:
    async def program(client: Any) -> None:
        await now(client.create_topic("orders", 1))
        with pytest.raises(goqueue.UnknownSchema):
            async with Entered(client.producer("orders", schema=Order, register=False)):
                raise AssertionError("it came in")
        async with Entered(client.producer("orders", schema=ORDER_SCHEMA)) as producer:
            for value, error in (({}, goqueue.SchemaRefused), (b"x", goqueue.SchemaMisfit)):
                with pytest.raises(error):
                    await now(producer.send(value))
            with pytest.raises(goqueue.PublishFailed) as failed:
                await now(producer.send_many([{"id": 1}, b"x", {}]))
            with pytest.raises(goqueue.SchemaMisfit):
                producer.send_many_nowait([{"id": 2}, b"x"])
        kinds = [type(each) for each in failed.value.results]
        assert kinds == [goqueue.Published, goqueue.SchemaMisfit, goqueue.SchemaRefused]
        assert (await now(client.topic("orders"))).partitions[0].end == 1

    run(surface, address, program)


async def next_of(consumer: Any) -> Any:
    return next(consumer) if hasattr(consumer, "__next__") else await anext(consumer)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
def test_what_does_not_fit_is_a_dead_letter_or_raises_or_is_passed_over(surface: ModuleType, address: str) -> None:
    async def program(client: Any) -> None:
        await now(client.create_topic("orders", 1))
        for value in (b"{}", b'{"id":1}', b"hello", b'{"id":2}'):
            await now(client.publish("orders", value))
        async with Entered(client.consumer("orders", group="billing", schema=Order)) as consumer:
            for number in (1, 2):
                message = await next_of(consumer)
                assert message.body == Order(id=number)
                assert isinstance(message, surface.DeliveredMessage)
                await now(message.ack())
        while (await now(client.count_dead_letters("orders"))).total < 2:
            pass
        letters = await now(client.dead_letters("orders"))
        assert [letter.origin_offset for letter in letters] == [0, 2]
        assert all("the value is no Order" in letter.reason for letter in letters)
        raising = client.consumer("orders", group="audit", schema=Order, on_misfit="raise")
        async with Entered(raising) as consumer:
            message = await next_of(consumer)
            with pytest.raises(goqueue.SchemaMisfit, match="orders/0 offset 0: the value is no Order"):
                _ = message.body
        skipping = client.consumer("orders", group="copy", mode="stream", schema=Order, on_misfit="skip")
        async with Entered(skipping) as consumer:
            assert [(await next_of(consumer)).body.id for _ in range(2)] == [1, 2]

    run(surface, address, program)


# Workers


def fill(address: str) -> None:
    with blocking.connect(address) as client:
        client.create_topic("orders", 1)
        client.publish("orders", b"{}")
        with client.producer("orders", schema=Order) as producer:
            producer.send_many([Order(id=number) for number in range(20)])


def seen_and_letters(address: str, seen: list[int]) -> None:
    assert sorted(seen) == list(range(20))
    with blocking.connect(address) as client:
        wait_until(lambda: client.count_dead_letters("orders").total == 1)
        [letter] = client.dead_letters("orders")
        assert (letter.origin_offset, "no Order: id: Field required" in letter.reason) == (0, True)
        assert client.group("billing").lag == 0


def test_a_worker_of_trio_gets_objects(address: str) -> None:
    fill(address)
    seen: list[int] = []

    async def handler(message: goqueue.DeliveredMessage) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(message.body.id)
        if len(seen) == 20:
            worker.stop()

    worker = goqueue.Worker("orders", "billing", handler, url=address, schema=Order, handle_signals=False)
    assert trio.run(worker.run).handled == 20
    seen_and_letters(address, seen)


def test_a_worker_of_asyncio_gets_objects(address: str) -> None:
    fill(address)
    seen: list[int] = []

    async def handler(message: aio.DeliveredMessage) -> None:
        await asyncio.sleep(0)
        seen.append(message.body.id)
        if len(seen) == 20:
            worker.stop()

    worker = aio.Worker("orders", "billing", handler, url=address, schema=Order, handle_signals=False)
    assert asyncio.run(worker.run()).handled == 20
    seen_and_letters(address, seen)


def test_a_worker_of_threads_gets_objects(address: str) -> None:
    fill(address)
    seen: list[int] = []

    def handler(message: blocking.DeliveredMessage) -> None:
        seen.append(message.body.id)
        if len(seen) == 20:
            worker.stop()

    worker = blocking.Worker("orders", "billing", handler, url=address, schema=Order, handle_signals=False)
    assert worker.run().handled == 20
    seen_and_letters(address, seen)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda each: each.__name__)
def test_a_worker_s_schema_is_checked_before_it_runs(surface: ModuleType) -> None:
    make = partial(surface.Worker, "orders", "billing", lambda _: None)
    if surface is not blocking:

        async def handler(message: Any) -> None: ...

        make = partial(surface.Worker, "orders", "billing", handler)
    with pytest.raises(goqueue.InvalidConfig, match="no type that pydantic knows"):
        make(schema=3)
    with pytest.raises(goqueue.InvalidConfig, match="on_misfit"):
        make(schema=Order, on_misfit="skip")

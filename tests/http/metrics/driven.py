"""A broker in memory to which everything happens that metrics tell of, or as good as."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import trio

from goqueue.client.client import Client, connect
from goqueue.environment import Environment
from goqueue.errors import BatchRefused, InvalidMessage, SchemaRefused, StaleReceipt
from goqueue.http.ports import serving
from goqueue.net.transport.origin import Address
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.memory import BROKER, HOST, PORT, Machine
from goqueue.testing.network import SimulatedNetwork
from tests.http.world import HTTP_PORT

MEMBERS: dict[str, Any] = {"group": "billing", "visibility_timeout": 5, "auto_extend": False, "max_deliveries": 3}
SMALL = {"segment_bytes": 1_024}


class AProcess:
    """As that of a broker that is a process of its own."""

    def memory_bytes(self) -> int:
        return 50_000_000

    def collecting_seconds(self) -> float:
        return 0.25

    def settle(self) -> None: ...

    def tidy(self, *, idle: bool) -> None: ...


@asynccontextmanager
async def a_broker() -> AsyncIterator[tuple[SimulatedNetwork, Client]]:
    network, clock = SimulatedNetwork(Random(0)), SimulatedClock()
    environment = Environment(SimulatedDisk(Random(0)), network.machine(BROKER), clock, Random(0))
    ports: dict[str, Any] = {"listen": Address(HOST, PORT), "http": Address(HOST, HTTP_PORT)}
    async with (
        serving(environment, "/data", process=AProcess(), **ports),
        connect(Machine.url, network=network.machine("client"), clock=clock) as client,
    ):
        yield network, client


async def drive(client: Client) -> None:
    await client.create_topic("orders", 2, config={**SMALL, "retention_hours": 0.02})
    await client.create_topic("states", 1, config={**SMALL, "cleanup": "compact"})
    await client.create_topic("recent", 1, config={**SMALL, "max_messages": 5, "overflow": "drop_oldest"})
    await _validate(client)
    await _publish(client)
    await _consume(client)
    await _delay(client)
    await _remove(client)


async def _validate(client: Client) -> None:
    await client.create_topic("typed", 1)
    await client.register_schema("typed-value", {"type": "integer"})
    for value in (b"1", b"x"):
        with suppress(SchemaRefused):
            await client.publish("typed", value)


async def _publish(client: Client) -> None:
    for acks in ("all", "leader", "none"):
        await client.publish("orders", b"x", key=b"one", acks=acks)
    for _ in range(2):
        await client.publish("orders", b"x", key=b"one", message_id="again")
    with suppress(BatchRefused, InvalidMessage):  # it has no key
        await client.publish("states", b"x")
    for number in range(30):
        await client.publish("recent", bytes(200))
        await client.publish("states", bytes(200), key=b"%d" % (number % 2))
    async with client.read("recent", end="latest") as reader:
        async for _ in reader:
            pass


async def _consume(client: Client) -> None:
    for number in range(20):
        await client.publish("orders", b"%d" % number, key=b"%d" % number, priority="high" if number % 2 else "low")
    async with client.consumer("orders", **MEMBERS) as consumer:
        for number in range(10):
            [message] = await consumer.receive(max_messages=1)
            if number % 5 == 0:
                await message.ack()
            elif number % 5 == 1:
                await message.nack(delay=0)
            elif number % 5 == 2:
                await message.reject("broken")
            elif number % 5 == 3:
                await message.release()
            else:
                await trio.sleep(6)
                with suppress(StaleReceipt):
                    await message.ack()
        async with client.consumer("orders", **MEMBERS):
            await trio.sleep(10)
    await client.redrive("orders")


async def _delay(client: Client) -> None:
    for number in range(4):
        await client.publish("orders", b"later", message_id=f"later {number}", delay=1 + 100 * number)
    await client.reschedule_delayed("orders", message_id="later 1", delay=200)
    await client.cancel_delayed("orders", message_id="later 2")
    await trio.sleep(5)


async def _remove(client: Client) -> None:
    """By age and by key, and by a purge, before the group was done with it."""
    await client.publish("orders", bytes(1_000), key=b"one")
    await trio.sleep(150)
    for number in range(4):
        await client.publish("orders", b"left", key=b"%d" % number)
    await client.publish("orders", b"later", delay=3_600)
    await client.purge("orders")
    await client.publish("orders", b"x")
    async with client.consumer("orders", **MEMBERS) as consumer:
        await consumer.receive(max_messages=1)
        await trio.sleep(0.5)

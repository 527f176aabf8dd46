"""`goqueue bench consume`: a group takes every message and acks it. Each has to come, once, with its value."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import click
import trio

from goqueue.cli.bench.work import REMOVE_SECONDS_MAX, SETTLE_SECONDS_MAX, Cost, measured
from goqueue.client.client import Client
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.errors import GoQueueError


@asynccontextmanager
async def group_of_its_own(client: Client, name: str) -> AsyncIterator[str]:
    try:
        yield name
    finally:
        with (
            trio.CancelScope(shield=True, deadline=trio.current_time() + REMOVE_SECONDS_MAX),
            suppress(GoQueueError),
        ):
            await client.delete_group(name)


async def consume_all(
    client: Client, topic: str, *, count: int, value: bytes, at_once: int, advance: Callable[[int], None]
) -> Cost:
    """From the first receive to the last ack that was answered."""
    async with group_of_its_own(client, topic) as group:
        with measured() as cost:
            async with client.consumer(topic, group=group) as consumer:
                seen = 0
                while seen < count:
                    messages = await consumer.receive(max_messages=at_once, timeout=SETTLE_SECONDS_MAX)
                    _check(messages, value, seen, count)
                    await consumer.ack(messages)
                    seen += len(messages)
                    advance(len(messages))
        left = (await client.group(group)).lag
    if seen != count or left:
        raise click.ClickException(f"{count:,} messages were published, {seen:,} came, and {left:,} are not done")
    return cost


def _check(messages: list[DeliveredMessage], value: bytes, seen: int, count: int) -> None:
    if not messages:
        raise click.ClickException(f"{count:,} messages were published, and only {seen:,} came")
    for message in messages:
        if message.attempt != 1 or message.value != value:
            raise click.ClickException(
                f"partition {message.partition}, offset {message.offset} is not what was published, or came again"
            )

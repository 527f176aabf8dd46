"""`goqueue consume --group`: a member of a group, which acks or commits messages once they are written."""

from collections.abc import Callable
from typing import BinaryIO

import click

from goqueue.cli.program.output import printable
from goqueue.client.client import Client
from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.client.streaming.consumer import StreamConsumer
from goqueue.core.groups.subscription import Subscription
from goqueue.errors import UnknownTopic

BATCH_MAX = 500
QUIET_SECONDS = 2.0
"""Without --follow the command ends when nothing has come for this long."""
WAIT_SECONDS = 30.0


async def check_there(client: Client, topic: str, follow: bool) -> None:
    """With --follow a group may wait for a topic that comes later; else a misspelt name is an error."""
    if Subscription.to(topic).pattern is not None:
        return
    try:
        await client.topic(topic)
    except UnknownTopic:
        if not follow:
            raise
        click.echo(f"there is no topic {printable(topic)} yet; waiting for it", err=True)


async def consume_as_member(
    member: Consumer,
    count: int | None,
    follow: bool,
    line_of: Callable[[DeliveredMessage], bytes],
    stdout: BinaryIO,
) -> bool:
    """Write the messages that the group has not done yet. Each is acked, or committed, when its line is written.

    Returns whether it ended because no more messages came.
    """
    left = count
    is_stream = isinstance(member, StreamConsumer)
    async with member as consumer:
        while left is None or left > 0:
            messages = await _next_messages(consumer, left, follow)
            if not messages and not follow:
                return True
            stdout.writelines(line_of(message) + b"\n" for message in messages)
            stdout.flush()
            if is_stream:
                await consumer.commit()
            else:
                await consumer.ack(messages)
            left = None if left is None else left - len(messages)
    return False


async def check_nothing_is_damaged(client: Client, name: str) -> None:
    """Without --follow the end of the output would be taken for the end of all messages."""
    group = await client.group(name)
    ranges = [(each, some) for each in group.partitions for some in each.damages]
    if not group.damaged:
        return
    for partition, some in ranges:
        place = f"{printable(partition.topic)}/{partition.partition}"
        click.echo(
            f"{some.messages} messages of {place} are damaged, between offsets {some.first} and {some.last} of "
            f"{printable(some.path)}; to go on without them: "
            f"goqueue group skip {printable(name)} {place} {some.first}-{some.last}",
            err=True,
        )
    raise click.ClickException(
        f"group {printable(name)} could not be given {group.damaged} damaged messages; "
        "they come once their files are restored"
    )


async def _next_messages(consumer: Consumer, left: int | None, follow: bool) -> list[DeliveredMessage]:
    most = BATCH_MAX if left is None else min(left, BATCH_MAX)
    return await consumer.receive(most, timeout=WAIT_SECONDS if follow else QUIET_SECONDS)

"""`goqueue consume`: the messages of a topic on stdout, without a group or as a member of one."""

import json
import sys
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import click

from goqueue.cli.messages.consumegroup import check_nothing_is_damaged, check_there, consume_as_member
from goqueue.cli.messages.last import LAST_MAX, last_messages
from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import JSON, output_option, printable
from goqueue.cli.program.running import Misuse
from goqueue.cli.program.times import PastTime
from goqueue.client.client import Client
from goqueue.client.consuming.options import ConsumerOptions
from goqueue.client.reading.message import Message
from goqueue.client.reading.reader import Start
from goqueue.core.groups.settings import ASSIGNORS, REBALANCES
from goqueue.core.groups.start import last_count
from goqueue.errors import DamagedData, GoQueueError
from goqueue.types import Offset

VALUE, NDJSON = "value", "ndjson"
EARLIEST, LATEST = "earliest", "latest"
QUEUE, STREAM = "queue", "stream"
WEIGHTED, STRICT = "weighted", "strict"
OF_GROUPS = {
    "mode": "how a group is served",
    "lanes": "how the priorities of a group share",
    "assignor": "how a group shares out partitions",
    "rebalance": "what a group lets go when members change",
}
OFFSET_MAX = 2**63 - 1
LAST_OFFSETS_MAX = 10**18 - 1


class StartOffset(click.ParamType[Start]):
    """An offset; -20 means 20 offsets before the end of each partition."""

    name = "earliest|latest|OFFSET|-N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        text = str(value)
        if text in (EARLIEST, LATEST):
            return text
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 19 or int(digits) > OFFSET_MAX:
            self.fail(f"{text!r} is neither earliest, latest, an offset nor -N, the last N", param, ctx)
        return f"last:{min(int(digits), LAST_OFFSETS_MAX)}" if text.startswith("-") else int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMessages:
    topic: str
    group: str | None
    mode: str | None
    lanes: str | None
    assignor: str | None
    rebalance: str | None
    partition: int | None
    start: Start | None
    from_time: float | None
    to_time: float | None
    count: int | None
    follow: bool
    skip_damaged: bool

    def __post_init__(self) -> None:
        if self.start is not None and self.from_time is not None:
            raise Misuse("--from and --from-time both say where to begin; give one")
        if self.last is not None and self.group is None:
            self._check_last(self.last)
        if self.to_time is not None and self.follow:
            raise Misuse("--to-time ends the reading and --follow never does; give one")
        if self.group is not None and (self.partition is not None or self.to_time is not None):
            raise Misuse("a group shares out partitions and has no end; leave out --partition and --to-time")
        if self.group is not None and self.skip_damaged:
            raise Misuse(
                "a queue goes round damage by itself; leave out --skip-damaged, and use `goqueue group skip`"
            )
        if self.group is None:
            self._check_no_member()
        else:
            self._check_member(self.group)

    def _check_last(self, last: int) -> None:
        if self.to_time is not None:
            raise Misuse("--from -N counts from the end and --to-time ends before it; give one")
        if last > LAST_MAX:
            raise Misuse(f"--from -{last} is more than the last {LAST_MAX:,}; give --from-time, or an offset")

    @property
    def last(self) -> int | None:
        return last_count(self.start)

    def _check_no_member(self) -> None:
        for name, meaning in OF_GROUPS.items():
            if getattr(self, name) is not None:
                raise Misuse(f"--{name} is {meaning}; give --group too")

    def _check_member(self, group: str) -> None:
        try:
            ConsumerOptions(topics=self.topic, group=group, **self.settings)
        except GoQueueError as error:
            raise Misuse(printable(error.message)) from None

    @property
    def settings(self) -> dict[str, Any]:
        """The group settings that were given."""
        return {name: getattr(self, name) for name in OF_GROUPS} | {"mode": self.mode or QUEUE}

    @property
    def begin(self) -> Start:
        places = (self.start, self.from_time, EARLIEST)
        return next(place for place in places if place is not None)

    def includes(self, message: Message) -> bool:
        """By the message's timestamp: in the log an older one may follow younger ones."""
        after = self.from_time is None or message.timestamp >= self.from_time
        return after and (self.to_time is None or message.timestamp < self.to_time)


@click.command()
@click.argument("topic")
@click.option("--group", help="As a member of this group: what is written is acked, and the group goes on there.")
@click.option(
    "--mode",
    type=click.Choice([QUEUE, STREAM]),
    help="How the group is served: each message is acked, or offsets are committed in order.  [default: queue]",
)
@click.option(
    "--lanes",
    type=click.Choice([WEIGHTED, STRICT]),
    help="How the group's priorities share: by weights, or the highest first.  [default: weighted]",
)
@click.option(
    "--assignor",
    type=click.Choice(ASSIGNORS),
    help="How the group shares out partitions: with the fewest moves, in ranges, or in turn.  [default: sticky]",
)
@click.option(
    "--rebalance",
    type=click.Choice(REBALANCES),
    help="What members of the group let go when others come or go: what moves, or all.  [default: cooperative]",
)
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Of this partition only.")
@click.option(
    "--from", "start", type=StartOffset(), help="Where to begin; -20: with the last 20.  [default: earliest]"
)
@click.option(
    "--from-time",
    type=PastTime(),
    help="Begin with messages of this time: seconds, or ISO (UTC without zone), or how long ago, as 1h.",
)
@click.option("--to-time", type=PastTime(), help="Leave out messages of this time and later.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many messages.")
@click.option("--follow", is_flag=True, help="Wait for new messages instead of ending.")
@click.option("--skip-damaged", is_flag=True, help="Go on behind what cannot be read; stderr says what that is.")
@click.option("--format", "line_format", type=click.Choice([VALUE, NDJSON]), default=VALUE, show_default=True)
@broker_options
@output_option
def consume(line_format: str, output: str, broker: BrokerAddress, **wanted: Any) -> None:
    """Write a topic's messages to stdout, to the end that it has now.

    A line is a value, or with `--format ndjson` (or `-o json`) an object that `produce --format ndjson` takes.
    There is no order between partitions. With `--group` it writes what the group has not done yet, and where to
    begin is for a group that has not begun; TOPIC may be a pattern like `orders-*`, or with `--follow` come later.
    """
    stdout = sys.stdout.buffer
    plain_line = terminal_line if stdout.isatty() else value_line
    line_of = json_line if line_format == NDJSON or output == JSON else plain_line
    selection = WantedMessages(**wanted)
    ask(broker, lambda client: _consume(client, selection, line_of, stdout))


async def _consume(
    client: Client, wanted: WantedMessages, line_of: Callable[[Message], bytes], stdout: BinaryIO
) -> None:
    if wanted.group is not None:
        consumer = client.consumer(wanted.topic, group=wanted.group, start=wanted.begin, **wanted.settings)
        await check_there(client, wanted.topic, wanted.follow)
        if await consume_as_member(consumer, wanted.count, wanted.follow, line_of, stdout):
            await check_nothing_is_damaged(client, wanted.group)
    else:
        await _read(client, wanted, line_of, stdout)


async def _read(
    client: Client, wanted: WantedMessages, line_of: Callable[[Message], bytes], stdout: BinaryIO
) -> None:
    await _check_offset(client, wanted)
    written = 0
    async with aclosing(selected(client, wanted)) as messages:
        async for message in messages:
            if not wanted.includes(message):
                continue
            stdout.write(line_of(message) + b"\n")
            stdout.flush()
            written += 1
            if written == wanted.count:
                return


async def selected(client: Client, wanted: WantedMessages) -> AsyncGenerator[Message, None]:
    on_damaged = partial(_say_skipped, wanted.topic) if wanted.skip_damaged else None
    topic, partition, ends = wanted.topic, wanted.partition, dict[int, Offset]()
    if wanted.last is not None:
        last = await last_messages(client, topic, partition, wanted.last, on_damaged)
        for message in last.messages:
            yield message
        if not wanted.follow:
            return
        ends |= last.ends
    end = None if wanted.follow else LATEST
    async with client.read(topic, partition=partition, start=wanted.begin, end=end) as reader:
        reader.begin_at = ends
        reader.on_damaged = on_damaged
        async for message in reader:
            yield message


def _say_skipped(topic: str, partition: int, damage: DamagedData) -> None:
    click.echo(
        f"skipped offsets {damage.offset} to {damage.restart_at - 1} of {printable(topic)}/{partition}, "
        f"which are damaged in {printable(damage.path)}",
        err=True,
    )


async def _check_offset(client: Client, wanted: WantedMessages) -> None:
    if type(wanted.start) is not int or wanted.partition is not None:
        return
    partitions = (await client.topic(wanted.topic)).partitions
    if len(partitions) > 1:
        raise Misuse(f"an offset is of one partition; give --partition, 0 to {len(partitions) - 1}")


# Lines


def value_line(message: Message) -> bytes:
    """A tombstone is an empty line."""
    return message.value or b""


def terminal_line(message: Message) -> bytes:
    """Bytes from messages never reach a terminal unescaped."""
    return printable(value_line(message).decode(errors="backslashreplace")).encode()


def json_line(message: Message) -> bytes:
    return json.dumps(message_fields(message)).encode()


def message_fields(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        **_text_or_base64("key", message.key),
        **_text_or_base64("value", message.value),
        "headers": {name: _header(value) for name, value in message.headers.items()},
        "priority": message.priority.name.lower(),
    }


def _text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data or b"").decode()}


def _header(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}

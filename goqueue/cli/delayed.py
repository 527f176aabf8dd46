"""`goqueue delayed`: lists, cancels and moves delayed messages."""

import math
import os
from base64 import b64encode
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click

from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import (
    JSON,
    Column,
    output_option,
    preview,
    printable,
    readable,
    say,
    write_json,
    write_table,
)
from goqueue.cli.program.running import Misuse
from goqueue.cli.program.times import Length, Time
from goqueue.client.delayed import Delayed, DelayedPage, DueCount
from goqueue.client.link.moments import due_of
from goqueue.errors import GoQueueError

SHOWN = 20
BAR_WIDTH = 40
COLUMNS = [
    Column("PARTITION", 9, is_number=True),
    Column("OFFSET", 6, is_number=True),
    Column("STATE", 5),
    Column("DUE OR DONE", 11),
    Column("PRIORITY", 8),
    Column("KEY", 3),
    Column("ID", 2),
]
_STRETCHES = {1: "1 second", 10: "10 seconds", 60: "1 minute", 600: "10 minutes", 3_600: "1 hour"} | {
    21_600: "6 hours",
    86_400: "1 day",
    604_800: "7 days",
    2_592_000: "30 days",
}


class DelayedOffset(click.ParamType[tuple[int, int]]):
    name = "PARTITION:OFFSET"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        partition, _, offset = str(value).partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            self.fail(f"{value!r} is no place; give a partition and an offset, like 0:4711", param, ctx)
        return int(partition), int(offset)


@click.group()
def delayed() -> None:
    """Look at delayed messages, cancel them, or give them another time."""


class Which(NamedTuple):
    """The message of a command: by its place, or by its id."""

    partition: int | None
    offset: int | None
    message_id: str | None
    key: bytes | None

    @property
    def place(self) -> str:
        return f"{self.partition}:{self.offset}" if self.message_id is None else self.message_id


def of_one_message(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments of every command for one message, which gets them as `which`."""

    @wraps(command)
    def with_message(
        *, partition: int | None, offset: int | None, message_id: str | None, key: str | None, **others: Any
    ) -> None:
        if (message_id is None) != (partition is not None and offset is not None) or (key and message_id is None):
            raise Misuse("name the message: give PARTITION and OFFSET, or --id, with --key if it has one")
        command(which=Which(partition, offset, message_id, None if key is None else os.fsencode(key)), **others)

    topic = click.argument("topic")
    partition = click.argument("partition", type=click.IntRange(min=0), required=False)
    offset = click.argument("offset", type=click.IntRange(min=0), required=False)
    message_id = click.option("--id", "message_id", metavar="ID", help="All that have this message id.")
    key = click.option("--key", metavar="TEXT", help="With --id: its key, so that one partition is asked.")
    return topic(partition(offset(message_id(key(broker_options(output_option(with_message)))))))


partition_option = click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Of this one only.")


@delayed.command("list", short_help="Show what waits for its time.")
@click.argument("topic")
@partition_option
@click.option(
    "--count", type=click.IntRange(min=1), default=SHOWN, show_default=True, metavar="N", help="So many at most."
)
@click.option("--after", type=DelayedOffset(), help="Go on behind this one.")
@click.option("--finished", is_flag=True, help="Those that were delivered or cancelled, the newest of them.")
@broker_options
@output_option
def list_command(
    *, topic: str, finished: bool, count: int, broker: BrokerAddress, output: str, **where: Any
) -> None:
    """Show what waits for its time, in order of partitions and offsets; as JSON, one on each line."""
    state = "finished" if finished else "pending"
    page = ask(broker, lambda client: client.delayed(topic, limit=count, state=state, **where))
    if output == JSON:
        for each in page:
            write_json(_fields(each))
        return
    write_table(COLUMNS, [_row(each) for each in page])
    _say_what_is_left(page, finished=finished)


def _say_what_is_left(page: DelayedPage, *, finished: bool) -> None:
    if not finished:
        click.echo(f"{page.pending:,} pending")
    if page.next is not None:
        click.echo(f"there are more: --after {page.next.partition}:{page.next.offset}")


@delayed.command()
@click.argument("topic")
@partition_option
@broker_options
@output_option
def due(topic: str, partition: int | None, broker: BrokerAddress, output: str) -> None:
    """Show how many are due when."""
    counts = ask(broker, lambda client: client.delayed_by_due(topic, partition=partition))
    if output == JSON:
        for each in counts:
            write_json({"within_seconds": each.within, "messages": each.count})
        return
    for line in _bars(counts):
        click.echo(line)


@delayed.command()
@of_one_message
def cancel(topic: str, which: Which, broker: BrokerAddress, output: str) -> None:
    """Let a message never be delivered. Exit code 1 when it was, or there is none."""
    done = ask(broker, lambda client: client.cancel_delayed(topic, **which._asdict()))
    _tell(output, "cancelled", topic, which, done)


@delayed.command()
@click.option("--delay", type=Length(), metavar="SECONDS", help="So long from now; also as 2h.")
@click.option("--at", "deliver_at", type=Time(), help="At this time.")
@of_one_message
def reschedule(*, topic: str, which: Which, broker: BrokerAddress, output: str, **when: Any) -> None:
    """Give a message another time. Exit code 1 when it is not pending."""
    if when["delay"] is None and when["deliver_at"] is None:
        raise Misuse("say when it is to be delivered: give --delay or --at")
    try:
        due_of(when["delay"], when["deliver_at"])
    except GoQueueError as error:
        raise Misuse(printable(error.message)) from None
    done = ask(broker, lambda client: client.reschedule_delayed(topic, **which._asdict(), **when))
    _tell(output, "rescheduled", topic, which, done)


@delayed.command()
@of_one_message
def deliver(topic: str, which: Which, broker: BrokerAddress, output: str) -> None:
    """Deliver a message now. Exit code 1 when it is not pending."""
    done = ask(broker, lambda client: client.deliver_delayed(topic, **which._asdict()))
    _tell(output, "delivered", topic, which, done)


def _tell(output: str, what: str, topic: str, which: Which, done: bool) -> None:
    named = {"partition": which.partition, "offset": which.offset, "message_id": which.message_id}
    fields = {"topic": topic, **{name: each for name, each in named.items() if each is not None}, what: done}
    message = f"the message {'at' if which.message_id is None else 'with id'} {which.place} of {topic}"
    if done or output == JSON:
        say(output, fields, f"{message} was {what}")
    if not done:
        ended = "if it was, `goqueue delayed list --finished` says what became of it"
        _refuse(output, f"{message} is not pending; {ended}")


def _refuse(output: str, sentence: str) -> None:
    """With a sentence for people; a program has already read the result on stdout."""
    if output != JSON:
        raise click.ClickException(printable(sentence))
    raise click.exceptions.Exit(1)


def _row(each: Delayed) -> list[str]:
    time = each.due if each.due is not None else each.finished_at
    where = f" as {each.delivered_offset}" if each.delivered_offset is not None else ""
    return [
        str(each.partition),
        str(each.offset),
        each.state + where,
        _shown(time),
        str(each.priority),
        "" if each.key is None else preview(each.key),
        "" if each.message_id is None else preview(each.message_id),
    ]


def _fields(each: Delayed) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "offset": each.offset,
        "state": each.state,
        "due": each.due,
        "finished_at": each.finished_at,
        "delivered_offset": each.delivered_offset,
        "priority": each.priority.name.lower(),
        "key_base64": None if each.key is None else b64encode(each.key).decode(),
        "message_id": None if each.message_id is None else each.message_id.decode(errors="backslashreplace"),
    }


def _shown(time: float | None) -> str:
    return "" if time is None else readable(round(time * 1_000_000))


def _bars(counts: list[DueCount]) -> list[str]:
    most = max((each.count for each in counts), default=0) or 1
    return [
        f"{_stretch(each.within):>17}  {each.count:>11,}  {'█' * math.ceil(each.count / most * BAR_WIDTH)}".rstrip()
        for each in counts
    ]


def _stretch(within: float | None) -> str:
    if within is None:
        return "later"
    return "overdue" if not within else f"within {_STRETCHES[int(within)]}"

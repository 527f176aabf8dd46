"""`goqueue dlq`: lists dead letters with their reasons, and sends them back."""

from collections.abc import Sequence
from typing import Any

import click

from goqueue.cli.messages.consume import message_fields
from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import (
    JSON,
    Column,
    counted,
    output_option,
    preview,
    printable,
    write_json,
    write_table,
)
from goqueue.cli.topic import say
from goqueue.client.client import Client
from goqueue.client.groups import Redriven
from goqueue.client.link.topics import Topic
from goqueue.client.reading.message import Message
from goqueue.core.names import DEAD_LETTER_SUFFIX, dead_letter_topic
from goqueue.errors import GroupConflict

HEADER = "goqueue-dlq-"
SHOWN = 20

LIST_COLUMNS = [
    Column("TOPIC", 5),
    Column("DEAD LETTERS", 12, is_number=True),
    Column("REMAIN", 6, is_number=True),
]
LETTER_COLUMNS = [
    Column("PARTITION", 9, is_number=True),
    Column("OFFSET", 6, is_number=True),
    Column("GROUP", 5),
    Column("ATTEMPTS", 8, is_number=True),
    Column("REASON", 6),
    Column("VALUE", 5),
]


@click.group()
def dlq() -> None:
    """Look at dead letters, and send them back."""


@dlq.command("list", short_help="Show the topics that have dead letters.")
@broker_options
@output_option
def list_command(broker: BrokerAddress, output: str) -> None:
    """Show the topics that have dead letters, how many, and how many of them remain, since they were not sent back;
    as JSON, one on each line."""
    rows = ask(broker, _counts)
    if output == JSON:
        for name, count, remaining in rows:
            write_json({"topic": name, "dead_letters": count, "remaining": remaining})
    else:
        write_table(LIST_COLUMNS, [[printable(name), str(count), _or_unknown(rest)] for name, count, rest in rows])


@dlq.command(short_help="Show the dead letters of a topic.")
@click.argument("topic")
@click.option("--group", help="Of this group only.")
@click.option(
    "--count", type=click.IntRange(min=1), default=SHOWN, show_default=True, metavar="N", help="So many at most."
)
@broker_options
@output_option
def show(topic: str, group: str | None, count: int, broker: BrokerAddress, output: str) -> None:
    """Show the dead letters of a topic, also those that were sent back; as JSON, one on each line."""
    letters = ask(broker, lambda client: _letters(client, topic, group, count))
    if output == JSON:
        for each in letters:
            write_json(message_fields(each))
    else:
        write_table(LETTER_COLUMNS, [_letter_row(each) for each in letters])


@dlq.command(short_help="Send dead letters back, each once.")
@click.argument("topic")
@click.option("--group", help="Those that this group gave up.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Those in this partition.")
@click.option(
    "--offset", "offsets", type=click.IntRange(min=0), multiple=True, metavar="N", help="This one; may be repeated."
)
@click.option("--reason", help="Those whose reason contains this.")
@click.option("--to", metavar="TOPIC", help="To another topic.")
@click.option("--all-groups", is_flag=True, help="For all groups, not only the one that gave them up.")
@click.option("--count", "max_messages", type=click.IntRange(min=1), metavar="N", help="So many at most.")
@click.option("--rate", "per_second", type=click.IntRange(min=1), metavar="N", help="So many a second at most.")
@click.option("--dry-run", is_flag=True, help="Only say how many it would be.")
@broker_options
@output_option
def redrive(
    topic: str, offsets: Sequence[int], dry_run: bool, broker: BrokerAddress, output: str, **wanted: Any
) -> None:
    """Send dead letters back, each once: all of a topic, or those that fit all that is given."""
    chosen = {"offsets": offsets or None, "dry_run": dry_run, **wanted}
    done = ask(broker, lambda client: _redrive(client, topic, chosen))
    what = "would be sent back" if dry_run else "sent back"
    fields = {"topic": topic, "redriven": done.redriven, "remaining": done.remaining, "dry_run": dry_run}
    say(output, fields, f"{counted(done.redriven, 'dead letter')} {what}, {done.remaining} remain")


async def _counts(client: Client) -> list[tuple[str, int, int | None]]:
    """For each topic with dead letters: its name, their number in the log, and the number not sent back."""
    letters = [each for each in await client.topics() if each.name.endswith(DEAD_LETTER_SUFFIX)]
    found = [(each.name.removesuffix(DEAD_LETTER_SUFFIX), _count_in(each)) for each in letters]
    return [(name, count, await _remaining(client, name)) for name, count in sorted(found)]


async def _remaining(client: Client, topic: str) -> int | None:
    """The number that was not sent back; None during a redrive."""
    try:
        asked = await client.redrive(topic, max_messages=1, dry_run=True)
    except GroupConflict:
        return None
    return asked.redriven + asked.remaining


def _or_unknown(count: int | None) -> str:
    return "?" if count is None else str(count)


async def _letters(client: Client, topic: str, group: str | None, count: int) -> list[Message]:
    letters: list[Message] = []
    if not await _has_some(client, topic):
        return letters
    async with client.read(dead_letter_topic(topic), end="latest") as reader:
        async for letter in reader:
            if group in (None, _header(letter, "group")):
                letters.append(letter)
            if len(letters) == count:
                break
    return letters


async def _redrive(client: Client, topic: str, chosen: dict[str, Any]) -> Redriven:
    return await client.redrive(topic, **chosen) if await _has_some(client, topic) else Redriven(0, 0)


async def _has_some(client: Client, topic: str) -> bool:
    """The first dead letter creates the dead-letter topic; `UnknownTopic` when the topic itself is missing, too."""
    names = {each.name for each in await client.topics()}
    if dead_letter_topic(topic) not in names:
        await client.topic(topic)
    return dead_letter_topic(topic) in names


def _letter_row(letter: Message) -> list[str]:
    return [
        str(letter.partition),
        str(letter.offset),
        printable(_header(letter, "group")),
        printable(_header(letter, "attempts")),
        printable(_header(letter, "reason")),
        preview(letter.value or b""),
    ]


def _header(letter: Message, name: str) -> str:
    return letter.headers.get(HEADER + name, b"").decode(errors="backslashreplace")


def _count_in(topic: Topic) -> int:
    return sum(each.end - each.start for each in topic.partitions)

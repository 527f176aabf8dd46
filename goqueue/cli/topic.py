"""`goqueue topic`: creates, changes and shows topics."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from goqueue.cli.backup.restorepartition import restore_partition
from goqueue.cli.program.asking import (
    BrokerAddress,
    ask,
    broker_options,
    confirm,
    settings_are_misuse,
    yes_option,
)
from goqueue.cli.program.output import JSON, Column, counted, output_option, printable, say, write_json, write_table
from goqueue.cli.program.running import Misuse
from goqueue.cli.program.sizes import exact_size_text, size_of, size_text
from goqueue.client.client import Client
from goqueue.client.link.topics import HeldSegments, Partition, Topic
from goqueue.core.settingstable import Hours, Whole
from goqueue.core.topics.config import SETTINGS
from goqueue.errors import GoQueueError, PartitionLost

DEFAULT = "default"
KINDS = {setting.name: setting.kind for setting in SETTINGS}
INTEGER_MAX = 2**63 - 1
BYTES = "_bytes"
"""The end of the names of settings that are sizes."""

LIST_COLUMNS = [
    Column("TOPIC", 5),
    Column("PARTITIONS", 10, is_number=True),
    Column("OFFSETS", 7, is_number=True),
    Column("MESSAGES", 8, is_number=True),
    Column("SIZE", 4, is_number=True),
]
PARTITION_COLUMNS = [
    Column("PARTITION", 9, is_number=True),
    Column("START", 5, is_number=True),
    Column("END", 3, is_number=True),
    Column("MESSAGES", 8, is_number=True),
    Column("SIZE", 4, is_number=True),
]
DAMAGE_COLUMNS = [Column("PARTITION", 9, is_number=True), Column("OFFSETS", 7), Column("DAMAGED FILE", 12)]
HELD_COLUMNS = [
    Column("PARTITION", 9, is_number=True),
    Column("OLDEST SEGMENT", 14),
    Column("HELD BY GROUP", 13),
    Column("NOT DONE", 8, is_number=True),
    Column("FROM", 4, is_number=True),
    Column("SEGMENTS", 8, is_number=True),
    Column("SIZE", 4, is_number=True),
]
SETTING_COLUMNS = [Column("SETTING", 7), Column("VALUE", 5)]

config_option = click.option(
    "--config",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting, as often as there are settings to give; `default` resets one.",
)


@click.group()
def topic() -> None:
    """Make, change and look at topics."""


topic.add_command(restore_partition)


@topic.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), default=3, show_default=True, help="How many.")
@config_option
@click.option("--if-not-exists", "exist_ok", is_flag=True, help="A topic like that may be there already.")
@broker_options
@output_option
def create(
    *, name: str, partitions: int, pairs: Sequence[str], exist_ok: bool, broker: BrokerAddress, output: str
) -> None:
    """Make a topic."""
    given = {key: value for key, value in _settings_in(pairs).items() if value is not None}
    made = ask(broker, lambda client: _create(client, name, partitions, given, exist_ok))
    done = "is there" if exist_ok else "was created"
    say(output, topic_fields(made), f"{name} {done} with {counted(len(made.partitions), 'partition')}")


@topic.command("list")
@broker_options
@output_option
def list_command(broker: BrokerAddress, output: str) -> None:
    """Show all topics; as JSON, one on each line."""
    topics = sorted(ask(broker, lambda client: client.topics()), key=lambda each: each.name)
    if output == JSON:
        for each in topics:
            write_json(topic_fields(each))
    else:
        write_table(LIST_COLUMNS, [_list_row(each) for each in topics])


@topic.command()
@click.argument("name")
@broker_options
@output_option
def describe(name: str, broker: BrokerAddress, output: str) -> None:
    """Show a topic's partitions and settings."""
    found = ask(broker, lambda client: client.topic(name))
    if output == JSON:
        write_json(topic_fields(found))
        return
    click.echo(f"{printable(found.name)}  {found.uuid}\n")
    write_table(PARTITION_COLUMNS, [_partition_row(each) for each in found.partitions])
    for each in found.partitions:
        if each.error is not None:
            click.secho(printable(f"{_state(each)}: {each.error.message}"), fg="red", bold=True)
    click.echo()
    damage = [
        [str(each.number), f"{some.first}-{some.last}", printable(some.path)]
        for each in found.partitions
        for some in each.damage
    ]
    held = [[str(each.number), *_held_row(each.held)] for each in found.partitions if each.held is not None]
    for columns, rows in ((DAMAGE_COLUMNS, damage), (HELD_COLUMNS, held)):
        if rows:
            write_table(columns, rows)
            click.echo()
    write_table(SETTING_COLUMNS, [[printable(key), _setting(key, value)] for key, value in found.config.items()])


@topic.command()
@click.argument("name")
@config_option
@click.option("--partitions", type=click.IntRange(min=1), help="How many there shall be; never fewer than before.")
@broker_options
@output_option
def alter(name: str, pairs: Sequence[str], partitions: int | None, broker: BrokerAddress, output: str) -> None:
    """Change settings, or have more partitions.

    Keys move when there are more partitions: what has the same key may then lie in two of them.
    """
    changes = _settings_in(pairs)
    if not changes and partitions is None:
        raise Misuse("nothing to change; give --config KEY=VALUE or --partitions N")
    altered = ask(broker, lambda client: _alter(client, name, changes, partitions))
    say(output, topic_fields(altered), f"{name} was altered")


@topic.command()
@click.argument("name")
@yes_option
@broker_options
@output_option
def delete(name: str, yes: bool, broker: BrokerAddress, output: str) -> None:
    """Delete a topic and all that is in it."""
    confirm(yes, f"Delete {printable(name)} and all its messages?")
    ask(broker, lambda client: client.delete_topic(name))
    say(output, {"topic": name, "deleted": True}, f"{name} was deleted")


@topic.command()
@click.argument("name")
@yes_option
@broker_options
@output_option
def purge(name: str, yes: bool, broker: BrokerAddress, output: str) -> None:
    """Delete all messages of a topic, and keep the topic."""
    confirm(yes, f"Delete all messages of {printable(name)}?")
    ask(broker, lambda client: client.purge(name))
    say(output, {"topic": name, "purged": True}, f"{name} was purged")


async def _create(client: Client, name: str, partitions: int, given: dict[str, Any], exist_ok: bool) -> Topic:
    with settings_are_misuse():
        return await client.create_topic(name, partitions, given, exist_ok=exist_ok)


async def _alter(client: Client, name: str, changes: dict[str, Any], partitions: int | None) -> Topic:
    """The settings first: they are refused more often, and then nothing has changed."""
    with settings_are_misuse():
        altered = await client.alter_topic(name, changes) if changes else None
    if partitions is None:
        assert altered is not None
        return altered
    try:
        return await client.add_partitions(name, partitions)
    except GoQueueError as error:
        if altered is not None:
            error.message = f"the settings were altered, the number of partitions was not: {error.message}"
        raise


# Arguments


def _settings_in(pairs: Sequence[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise Misuse(f"{pair!r} is not a setting like retention_hours=24")
        if key in settings:
            raise Misuse(f"{key} is given twice; give one value")
        settings[key] = None if value == DEFAULT else _value_of(key, value)
    return settings


def _value_of(key: str, text: str) -> str | int | float:
    """A number if the setting is one. Other text stays text, and the broker says what it must be."""
    if not isinstance(KINDS.get(key), Whole | Hours):
        return text
    if key.endswith(BYTES) and (size := size_of(text)) is not None:
        return _within_wire(size, text)
    try:
        return _within_wire(int(text), text)
    except ValueError:
        return _fraction(text) if isinstance(KINDS[key], Hours) else text


def _within_wire(number: int, text: str) -> int | str:
    """A number too large for the wire is sent as text: the broker refuses it with the setting's name."""
    return number if abs(number) <= INTEGER_MAX else text


def _fraction(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


# Output


def topic_fields(topic: Topic) -> dict[str, Any]:
    partitions = [_partition_fields(each) for each in topic.partitions]
    return {"name": topic.name, "uuid": str(topic.uuid), "partitions": partitions, "config": dict(topic.config)}


def _partition_fields(partition: Partition) -> dict[str, Any]:
    fields: dict[str, Any] = {"partition": partition.number, "start": partition.start, "end": partition.end}
    if partition.size is not None and partition.error is None:
        fields |= {"messages": partition.messages, "size": partition.size}
    if partition.held is not None:
        fields["held"] = asdict(partition.held)
    if partition.damage:
        return {**fields, "damage": [asdict(some) for some in partition.damage]}
    if partition.error is None:
        return fields
    return {**fields, "state": _state(partition), "error": partition.error.message}


def _partition_row(partition: Partition) -> list[str]:
    """A partition that cannot be used has no offsets."""
    if partition.error is not None:
        return [str(partition.number), _state(partition), "-", "-", "-"]
    places = [str(partition.number), str(partition.start), str(partition.end)]
    return [*places, *_on_disk([partition])]


def _on_disk(partitions: Sequence[Partition]) -> list[str]:
    """Messages and bytes; an older broker does not say."""
    if any(each.size is None for each in partitions):
        return ["-", "-"]
    messages = sum(each.messages or 0 for each in partitions)
    return [str(messages), size_text(sum(each.size or 0 for each in partitions))]


def _setting(key: str, value: object) -> str:
    is_size = key.endswith(BYTES) and isinstance(value, int)
    return exact_size_text(value) if is_size and isinstance(value, int) else printable(str(value))


def _held_row(held: HeldSegments) -> list[str]:
    """Without a group, nobody has said that anything may go."""
    group = "no group reads it" if held.group is None else printable(held.group)
    begin = "-" if held.committed is None else str(held.committed)
    segment, size = f"{held.first}-{held.last}", size_text(held.size)
    return [segment, group, str(held.messages), begin, str(held.segments), size]


def _state(partition: Partition) -> str:
    return "lost" if isinstance(partition.error, PartitionLost) else "unavailable"


def _list_row(topic: Topic) -> list[str]:
    offsets = sum(each.end - each.start for each in topic.partitions)
    return [printable(topic.name), str(len(topic.partitions)), str(offsets), *_on_disk(topic.partitions)]

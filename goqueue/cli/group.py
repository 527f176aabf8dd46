"""`goqueue group`: shows and changes groups and their progress."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from goqueue.cli.messages.consume import StartOffset
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
from goqueue.cli.program.times import PastTime, length_of
from goqueue.cli.topic import DEFAULT, config_option
from goqueue.client.client import Client
from goqueue.client.groups import DamagedSkipped, Group, GroupMember, GroupPartition, ResetPartition
from goqueue.client.reading.reader import Start
from goqueue.core.groups.settings import RETRY_SECONDS, SETTINGS
from goqueue.core.settingstable import Number, Whole, YesOrNo

OFFSET_MAX = 2**63 - 1
KINDS = {setting.name: setting.kind for setting in SETTINGS}
TRUTHS = {"true": True, "false": False}

LIST_COLUMNS = [
    Column("GROUP", 5),
    Column("STATE", 5),
    Column("MEMBERS", 7, is_number=True),
    Column("LAG", 3, is_number=True),
    Column("DAMAGED", 7, is_number=True),
]
MEMBER_COLUMNS = [
    Column("MEMBER", 6),
    Column("CLIENT", 6),
    Column("ADDRESS", 7),
    Column("SUBSCRIPTION", 12),
    Column("SILENT", 6, is_number=True),
    Column("PLACE", 5),
]
PARTITION_COLUMNS = [
    Column("TOPIC", 5),
    Column("PARTITION", 9, is_number=True),
    Column("COMMITTED", 9, is_number=True),
    Column("END", 3, is_number=True),
    Column("LAG", 3, is_number=True),
    Column("IN FLIGHT", 9, is_number=True),
    Column("RETRIES", 7, is_number=True),
    Column("DAMAGED", 7, is_number=True),
    Column("MEMBER", 6),
]
OF_QUEUES = ("IN FLIGHT", "RETRIES")
SETTINGS_OF_STREAMS = ("mode", "assignor", "rebalance")
DAMAGE_COLUMNS = [
    Column("TOPIC", 5),
    Column("PARTITION", 9, is_number=True),
    Column("OFFSETS", 7),
    Column("MESSAGES", 8, is_number=True),
    Column("DAMAGED FILE", 12),
]
LANE_COLUMNS = [
    Column("TOPIC", 5),
    Column("PARTITION", 9, is_number=True),
    Column("PRIORITY", 8),
    Column("READY", 5, is_number=True),
    Column("IN FLIGHT", 9, is_number=True),
    Column("SERVED", 6, is_number=True),
    Column("SHARE", 5, is_number=True),
    Column("OLDEST", 6, is_number=True),
]
SETTING_COLUMNS = [Column("SETTING", 7), Column("VALUE", 5)]
RESET_COLUMNS = [
    Column("TOPIC", 5),
    Column("PARTITION", 9, is_number=True),
    Column("BEFORE", 6, is_number=True),
    Column("AFTER", 5, is_number=True),
]


class PartitionPlace(click.ParamType[tuple[str, int]]):
    name = "TOPIC/PARTITION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        topic, slash, number = str(value).partition("/")
        if not (topic and slash and _is_number(number)):
            self.fail(f"{value!r} is no partition like orders/0", param, ctx)
        return topic, int(number)


class Offsets(click.ParamType[tuple[int, int]]):
    name = "FROM-TO"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        first, _, last = str(value).partition("-")
        if not (_is_number(first) and _is_number(last or first)) or int(first) > int(last or first):
            self.fail(f"{value!r} are no offsets like 40-59", param, ctx)
        return int(first), int(last or first)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= OFFSET_MAX


@click.group()
def group() -> None:
    """Look at consumer groups and change them."""


@group.command("list")
@broker_options
@output_option
def list_command(broker: BrokerAddress, output: str) -> None:
    """Show all groups; as JSON, one on each line."""
    groups = sorted(ask(broker, lambda client: client.groups()), key=lambda each: each.name)
    if output == JSON:
        for each in groups:
            write_json(group_fields(each))
    else:
        write_table(LIST_COLUMNS, [_list_row(each) for each in groups])


@group.command(short_help="Show a group's members, settings and progress.")
@click.argument("name")
@broker_options
@output_option
def describe(name: str, broker: BrokerAddress, output: str) -> None:
    """Show a group's members, its settings, and how far it is with each partition."""
    found = ask(broker, lambda client: client.group(name))
    if output == JSON:
        write_json(group_fields(found))
        return
    click.echo(f"{printable(found.name)}  {found.state}, generation {found.generation}\n")
    _write_partitions(found)
    _write_losses(found.partitions)
    click.echo()
    damage = [row for each in found.partitions for row in _damage_rows(each)]
    if damage:
        write_table(DAMAGE_COLUMNS, damage)
        click.echo()
    lanes = [row for each in found.partitions for row in _lane_rows(each)]
    if lanes and not _is_stream(found):
        write_table(LANE_COLUMNS, lanes)
        click.echo()
    write_table(MEMBER_COLUMNS, [_member_row(each) for each in found.members])
    click.echo()
    write_table(SETTING_COLUMNS, [[printable(key), printable(str(each))] for key, each in _settings_of(found)])


@group.command()
@click.argument("name")
@config_option
@click.option("--force", is_flag=True, help="Though it has members, which must ask for the same from now on.")
@broker_options
@output_option
def alter(name: str, pairs: Sequence[str], force: bool, broker: BrokerAddress, output: str) -> None:
    """Change what the members of a group share."""
    changes = _settings_in(pairs)
    if not changes:
        raise Misuse("nothing to change; give --config KEY=VALUE")
    altered = ask(broker, lambda client: _alter(client, name, changes, force))
    say(output, group_fields(altered), f"{name} was altered")


@group.command()
@click.argument("name")
@click.option("--to", "place", type=StartOffset(), help="Where to begin again; -20: 20 offsets before each end.")
@click.option("--to-time", type=PastTime(), help="Begin again with messages of this time, or so long ago: 1h.")
@click.option("--topic", help="On this topic only.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="On this partition only.")
@click.option("--dry-run", is_flag=True, help="Only say what would be.")
@click.option("--force", is_flag=True, help="Though it has members.")
@yes_option
@broker_options
@output_option
def reset(name: str, yes: bool, broker: BrokerAddress, output: str, **wanted: Any) -> None:
    """Let a group begin again elsewhere."""
    start = _only_start(wanted.pop("place"), wanted.pop("to_time"))
    if wanted["partition"] is not None and wanted["topic"] is None:
        raise Misuse("a partition is of one topic; give --topic")
    if not wanted["dry_run"]:
        confirm(yes, f"Let {printable(name)} begin again at {start}?")
    _show_reset(output, ask(broker, lambda client: client.reset_group(name, start, **wanted)))


@group.command()
@click.argument("name")
@click.argument("place", type=PartitionPlace(), metavar="TOPIC/PARTITION")
@click.argument("offsets", type=Offsets(), metavar="FROM-TO")
@click.option("--dry-run", is_flag=True, help="Only say what would be.")
@yes_option
@broker_options
@output_option
def skip(name: str, yes: bool, broker: BrokerAddress, output: str, **wanted: Any) -> None:
    """Give up messages of a group that cannot be read any more.

    Those between the offsets FROM and TO, TO included, that are damaged: the group goes on behind them, and they
    count as removed before they were acked. A stream must have no members.
    """
    topic, partition = wanted["place"]
    damaged = (name, topic, partition, *wanted["offsets"])
    found = ask(broker, lambda client: client.skip_damaged(*damaged, dry_run=True))
    if not wanted["dry_run"]:
        messages = counted(found.messages, "damaged message")
        confirm(yes, f"Give up {messages} of {printable(topic)}/{partition} for {printable(name)}?")
        found = ask(broker, lambda client: client.skip_damaged(*damaged))
    _show_skipped(output, found, wanted["dry_run"])


@group.command()
@click.argument("name")
@yes_option
@broker_options
@output_option
def delete(name: str, yes: bool, broker: BrokerAddress, output: str) -> None:
    """Delete a group without members, and its progress."""
    confirm(yes, f"Delete {printable(name)} and its progress?")
    ask(broker, lambda client: client.delete_group(name))
    say(output, {"group": name, "deleted": True}, f"{name} was deleted")


async def _alter(client: Client, name: str, changes: dict[str, Any], force: bool) -> Group:
    """Only the broker knows the other settings, and whether all go together."""
    with settings_are_misuse():
        return await client.alter_group(name, changes, force=force)


# Arguments


def _only_start(place: Start | None, time: float | None) -> Start:
    if place is None and time is None:
        raise Misuse("say where to begin again: give --to or --to-time")
    if place is not None and time is not None:
        raise Misuse("--to and --to-time both say where to begin again; give one")
    return place if place is not None else time or 0.0


def _settings_in(pairs: Sequence[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise Misuse(f"{pair!r} is not a setting like max_deliveries=5")
        if key in settings:
            raise Misuse(f"{key} is given twice; give one value")
        settings[key] = None if value == DEFAULT else _value_of(key, value)
    for key, setting in settings.items():
        _check_value(key, setting)
    return settings


def _check_value(key: str, value: object) -> None:
    if key not in KINDS:
        raise Misuse(f"{printable(key)} is not a setting of a group; there are {', '.join(KINDS)}")
    if value is not None and not KINDS[key].accepts(value):
        raise Misuse(f"{key} is {printable(str(value))}, but must be {KINDS[key].allowed}")


def _value_of(key: str, text: str) -> str | float | bool:
    """The value in the type of the setting; text that does not fit stays text."""
    kind = KINDS.get(key)
    if isinstance(kind, YesOrNo):
        return TRUTHS.get(text.lower(), text)
    if isinstance(kind, Number):
        seconds = length_of(text) if kind is RETRY_SECONDS else None
        return _number_in(text) if seconds is None else seconds
    is_number = isinstance(kind, Whole) and text.isascii() and text.isdecimal() and len(text) < 19
    return int(text) if is_number else text


def _number_in(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


# Output


def group_fields(found: Group) -> dict[str, Any]:
    return {
        "name": found.name,
        "state": found.state,
        "generation": found.generation,
        "lag": found.lag,
        "damaged": found.damaged,
        "settings": dict(found.settings),
        "members": [asdict(each) for each in found.members],
        "partitions": [_partition_fields(each) for each in found.partitions],
    }


def _partition_fields(partition: GroupPartition) -> dict[str, Any]:
    lanes = [asdict(each) | {"priority": each.priority.name.lower()} for each in partition.lanes]
    return asdict(partition) | {"error": partition.error and partition.error.message, "lanes": lanes}


def _partition_row(partition: GroupPartition) -> list[str]:
    numbers = (partition.partition, partition.committed, partition.end, partition.lag, partition.in_flight)
    who = printable(partition.member_id or "nobody")
    return [printable(partition.topic), *map(str, numbers), str(partition.waiting), str(partition.damaged), who]


def _settings_of(found: Group) -> Iterable[tuple[str, Any]]:
    """A stream shows only those that it heeds."""
    settings = found.settings.items()
    return [each for each in settings if each[0] in SETTINGS_OF_STREAMS] if _is_stream(found) else settings


def _is_stream(found: Group) -> bool:
    return found.settings.get("mode") == "stream"


def _write_partitions(found: Group) -> None:
    """A stream commits offsets: nothing of it is in flight, and nothing is tried again."""
    rows = [_partition_row(each) for each in found.partitions]
    shown = [at for at, each in enumerate(PARTITION_COLUMNS) if not (_is_stream(found) and each.title in OF_QUEUES)]
    write_table([PARTITION_COLUMNS[at] for at in shown], [[row[at] for at in shown] for row in rows])


def _list_row(found: Group) -> list[str]:
    numbers = (len(found.members), found.lag, found.damaged)
    return [printable(found.name), found.state, *map(str, numbers)]


def _damage_rows(partition: GroupPartition) -> list[list[str]]:
    place = [printable(partition.topic), str(partition.partition)]
    return [
        [*place, f"{each.first}-{each.last}", str(each.messages), printable(each.path)]
        for each in partition.damages
    ]


def _write_losses(partitions: Sequence[GroupPartition]) -> None:
    for each in partitions:
        if each.progress_lost_at is not None:
            place = f"{printable(each.topic)}/{each.partition}"
            shown = "" if each.shown_before is None else f"; it was last shown at offset {each.shown_before}"
            when = datetime.fromtimestamp(each.progress_lost_at, UTC).isoformat(timespec="seconds")
            click.secho(f"{place}: progress was lost, as found at {when}: messages come again{shown}", fg="red")


def _lane_rows(partition: GroupPartition) -> list[list[str]]:
    """The lanes that have or had messages."""
    told = [each for each in partition.lanes if each.served or each.in_flight or each.oldest_seconds is not None]
    return [
        [
            printable(partition.topic),
            str(partition.partition),
            each.priority.name.lower(),
            "some" if each.ready is None else str(each.ready),
            str(each.in_flight),
            str(each.served),
            f"{100 * each.share:.1f} %",
            "" if each.oldest_seconds is None else f"{each.oldest_seconds:.1f} s",
        ]
        for each in told
    ]


def _member_row(member: GroupMember) -> list[str]:
    return [
        printable(member.member_id),
        printable(member.client),
        printable(member.address or "-"),
        printable(", ".join(member.topics)),
        f"{member.silent_seconds:.1f} s",
        "away" if member.is_away else "here",
    ]


def _show_skipped(output: str, found: DamagedSkipped, dry_run: bool) -> None:
    done = "would be given up" if dry_run else "given up"
    moved = f"the committed offset goes from {found.before} to {found.after}"
    say(output, asdict(found), f"{counted(found.messages, 'message')} {done}; {moved}")


def _show_reset(output: str, moved: Sequence[ResetPartition]) -> None:
    if output == JSON:
        for each in moved:
            write_json(asdict(each))
        return
    rows = [[printable(each.topic), str(each.partition), str(each.before), str(each.after)] for each in moved]
    write_table(RESET_COLUMNS, rows)

"""`goqueue recover`: repairs a data directory that no broker can start on."""

from collections.abc import Sequence
from random import SystemRandom
from typing import Any

import click

from goqueue.cli.backup.copying import mounted
from goqueue.cli.program.output import JSON, Column, output_option, printable, write_json, write_table
from goqueue.cli.program.running import Misuse, run
from goqueue.environment import SystemClock
from goqueue.errors import GoQueueError
from goqueue.storage.directory.datadirectory import LOCK, recovery_command
from goqueue.storage.directory.rebuilding import RebuiltList, RebuiltTopic, put_in_place, rebuild
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.log.volume import Volume

COLUMNS = [
    Column("TOPIC", 5),
    Column("PARTITIONS", 10, is_number=True),
    Column("LOST", 4),
    Column("SETTINGS", 8),
]


@click.group()
def recover() -> None:
    """Repair a data directory that no broker can start on."""


@recover.command(short_help="Rebuild a damaged list of topics and groups.")
@click.option("--data", metavar="DIR", required=True, help="The data directory of a stopped broker.")
@click.option("--write", is_flag=True, help="Put the rebuilt list in place. Without it nothing is changed.")
@output_option
def topics(data: str, write: bool, output: str) -> None:
    """Rebuild the list of topics and groups from the partitions' folders.

    Shows the list that it would write; with --write it does. The old list is set aside in DIR/stray, and never
    deleted. Settings that cannot be read any more are the defaults, but the messages are kept for ever until the
    topic's retention is set. Groups that cannot be read come back with the next start of the broker, from their
    ledgers in the partitions. The broker must be stopped.
    """
    rebuilt, aside = run(lambda: _recover(data.rstrip("/") or "/", write))
    if output == JSON:
        write_json(_fields(rebuilt, write, aside))
        return
    write_table(COLUMNS, [_row(each) for each in rebuilt.topics])
    click.echo()
    for fault in rebuilt.faults:
        click.echo(printable(fault))
    click.echo(printable(_summary(rebuilt, data, write, aside)))


async def _recover(data: str, write: bool) -> tuple[RebuiltList, str | None]:
    disk = RealDisk()
    if not disk.is_directory(data):
        raise Misuse(f"there is no directory {printable(data)}; give the data directory of a broker")
    try:
        lock = disk.lock(f"{data}/{LOCK}")
    except GoQueueError as error:
        raise click.ClickException(printable(error.message)) from None
    try:
        async with mounted(disk) as volume:
            return await _rebuild(volume, data, write)
    finally:
        lock.release()


async def _rebuild(volume: Volume, data: str, write: bool) -> tuple[RebuiltList, str | None]:
    try:
        rebuilt = await rebuild(volume, data, SystemRandom())
        if not write or rebuilt.is_same:
            return rebuilt, None
        return rebuilt, await put_in_place(volume, data, rebuilt.record, SystemClock().now())
    except GoQueueError as error:
        raise click.ClickException(printable(error.message)) from None


def _row(each: RebuiltTopic) -> list[str]:
    lost = ", ".join(map(str, each.missing)) or "-"
    settings = "as before" if each.has_settings else "default, kept for ever"
    return [printable(each.topic.name), str(each.topic.partitions), lost, settings]


def _fields(rebuilt: RebuiltList, write: bool, aside: str | None) -> dict[str, Any]:
    return {
        "topics": [_topic_fields(each) for each in rebuilt.topics],
        "groups": list(rebuilt.groups),
        "faults": list(rebuilt.faults),
        "is_same": rebuilt.is_same,
        "is_written": write and not rebuilt.is_same,
        "set_aside": aside,
    }


def _topic_fields(each: RebuiltTopic) -> dict[str, Any]:
    lost: Sequence[int] = each.missing
    return {
        "name": each.topic.name,
        "uuid": str(each.topic.uuid),
        "partitions": each.topic.partitions,
        "lost": list(lost),
        "has_settings": each.has_settings,
    }


def _summary(rebuilt: RebuiltList, data: str, write: bool, aside: str | None) -> str:
    if rebuilt.is_same:
        return "the list of topics and groups is sound; nothing was changed"
    groups = f"with {len(rebuilt.groups)} groups; the next start adopts others from the partitions"
    if not write:
        return f"nothing was changed; run `{recovery_command(data)} --write` to write this list, {groups}"
    kept = f"; the old one is in {data}/{aside}" if aside is not None else ""
    return f"the list was written, {groups}{kept}; start the broker"

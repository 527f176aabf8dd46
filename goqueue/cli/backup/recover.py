"""`goqueue recover`: repairs a data directory that no broker can start on."""

from collections.abc import Awaitable, Callable, Sequence
from random import SystemRandom
from typing import Any, TypeVar

import click

from goqueue.cli.backup.copying import mounted
from goqueue.cli.program.output import JSON, Column, output_option, printable, write_json, write_table
from goqueue.cli.program.running import Misuse, run
from goqueue.core.schemas.refusals import shown
from goqueue.core.schemas.registry import ID_MAX, SchemaRegistry
from goqueue.core.schemas.stored import Subject
from goqueue.environment import SystemClock
from goqueue.errors import GoQueueError
from goqueue.storage.directory.datadirectory import LOCK, recovery_command
from goqueue.storage.directory.rebuilding import RebuiltList, RebuiltTopic, put_in_place, rebuild
from goqueue.storage.directory.recoveringschemas import (
    RecoveredRegistry,
    put_schemas_in_place,
    recover_schemas,
)
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.log.volume import Volume

COLUMNS = [
    Column("TOPIC", 5),
    Column("PARTITIONS", 10, is_number=True),
    Column("LOST", 4),
    Column("SETTINGS", 8),
]

SUBJECT_COLUMNS = [Column("SUBJECT", 7), Column("VERSIONS", 8), Column("NEXT", 4, is_number=True)]
ResultT = TypeVar("ResultT")


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
    rebuilt, aside = run(lambda: _in_directory(data, lambda volume, path: _rebuild(volume, path, write)))
    if output == JSON:
        write_json(_fields(rebuilt, write, aside))
        return
    write_table(COLUMNS, [_row(each) for each in rebuilt.topics])
    click.echo()
    for fault in rebuilt.faults:
        click.echo(printable(fault))
    click.echo(printable(_summary(rebuilt, data, write, aside)))


@recover.command()
@click.option("--data", metavar="DIR", required=True, help="The data directory of a stopped broker.")
@click.option("--write", is_flag=True, help="Put the recovered registry in place. Without it nothing is changed.")
@click.option(
    "--ids-above",
    metavar="ID",
    type=click.IntRange(0, ID_MAX),
    default=0,
    help="The highest id that was imported from another registry.",
)
@output_option
def schemas(data: str, write: bool, ids_above: int, output: str) -> None:
    """Keep what can be read of a damaged schema registry.

    Shows the subjects that it would keep; with --write it puts them in place. The damaged log is set aside in
    DIR/stray, and never deleted. Ids and versions that lost schemas may have had are not given again. If schemas
    were imported from another registry, say how high its ids went with --ids-above. Register the lost schemas
    again: they get new ids. The broker must be stopped.
    """
    found, aside = run(
        lambda: _in_directory(data, lambda volume, path: _recover_schemas(volume, path, write, ids_above))
    )
    if output == JSON:
        write_json(_registry_fields(found, write, aside))
        return
    write_table(SUBJECT_COLUMNS, [_subject_row(found.registry, each) for each in found.registry])
    click.echo()
    for line in (*found.faults, *_registry_summary(found, data, write, aside)):
        click.echo(printable(line))


async def _in_directory(data: str, work: Callable[[Volume, str], Awaitable[ResultT]]) -> ResultT:
    """The directory is held meanwhile, so no broker starts on it."""
    disk, path = RealDisk(), data.rstrip("/") or "/"
    if not disk.is_directory(path):
        raise Misuse(f"there is no directory {printable(path)}; give the data directory of a broker")
    try:
        lock = disk.lock(f"{path}/{LOCK}")
    except GoQueueError as error:
        raise click.ClickException(printable(error.message)) from None
    try:
        async with mounted(disk) as volume:
            return await work(volume, path)
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


async def _recover_schemas(
    volume: Volume, data: str, write: bool, ids_above: int
) -> tuple[RecoveredRegistry, str | None]:
    try:
        found = await recover_schemas(volume, data, ids_above=ids_above)
        if not write or found.is_same:
            return found, None
        return found, await put_schemas_in_place(volume, data, found.registry, SystemClock().now())
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


def _subject_row(registry: SchemaRegistry, subject: Subject) -> list[str]:
    versions = ", ".join(str(each.version) for each in subject.live()) or "-"
    return [printable(subject.name), versions, str(registry.next_version(subject.name))]


def _registry_fields(found: RecoveredRegistry, write: bool, aside: str | None) -> dict[str, Any]:
    registry = found.registry
    return {
        "subjects": [
            {
                "name": each.name,
                "versions": [version.version for version in each.live()],
                "next_version": registry.next_version(each.name),
            }
            for each in registry
        ],
        "next_id": registry.next_id,
        "softly_deleted": [{"subject": each.subject, "version": each.version} for each in found.detached],
        "faults": found.faults,
        "is_same": found.is_same,
        "is_written": write and not found.is_same,
        "set_aside": aside,
    }


def _registry_summary(found: RecoveredRegistry, data: str, write: bool, aside: str | None) -> list[str]:
    if found.is_same:
        return ["the schema registry is sound; nothing was changed"]
    lines = [f"{shown(each)} refers to a lost schema, and is softly deleted" for each in found.detached]
    numbers = f"ids go on at {found.registry.next_id:,}"
    if not write:
        command = f"{recovery_command(data, 'schemas')} --write"
        lines.append(f"nothing was changed; run `{command}` to write this registry; {numbers}")
    else:
        kept = f"; the old one is in {data}/{aside}" if aside is not None else ""
        lines.append(f"the registry was written; {numbers}{kept}; start the broker")
    return lines

"""`goqueue schema`: registers, shows, lists, configures and deletes schemas."""

import sys
from typing import Any

import click

from goqueue.cli.program.asking import BrokerAddress, broker_options, confirm, yes_option
from goqueue.cli.program.output import JSON, Column, output_option, printable, say, write_json, write_table
from goqueue.cli.program.running import Misuse
from goqueue.cli.schema.comparing import check, diff
from goqueue.cli.schema.given import Version, ask_about, of_one_schema
from goqueue.cli.schema.views import pretty, printable_lines, schema_fields, title_of
from goqueue.client.client import Client
from goqueue.client.schemas.registry import LATEST, LEVELS, MODES, AnyVersion, SchemaQuestions
from goqueue.client.schemas.source import RegisteredSchema, SchemaSource

LIST_COLUMNS = [
    Column("SUBJECT", 7),
    Column("VERSIONS", 8),
    Column("NEWEST", 6, is_number=True),
    Column("ID", 2, is_number=True),
    Column("TYPE", 4),
    Column("COMPATIBILITY", 13),
]
SETTING_COLUMNS = [Column("SETTING", 7), Column("VALUE", 5), Column("FROM", 4)]
OWN, DEFAULT = "the subject", "all subjects"

version_option = click.option("--version", type=Version(), help="This one; else the newest.")
deleted_option = click.option("--deleted", is_flag=True, help="Also softly deleted ones.")


@click.group()
def schema() -> None:
    """Register, compare and look at schemas."""


schema.add_command(check)
schema.add_command(diff)


@schema.command(short_help="Register a schema from a file or stdin.")
@click.argument("subject")
@of_one_schema
@click.option("--normalize", is_flag=True, help="The order of members makes no difference.")
@click.option("--force", is_flag=True, help="Without comparison to earlier versions.")
@click.option("--id", "schema_id", type=click.IntRange(min=1), help="In mode IMPORT: its id.")
@click.option("--version", type=click.IntRange(min=1), help="In mode IMPORT: its version.")
@broker_options
@output_option
def register(*, subject: str, source: SchemaSource, broker: BrokerAddress, output: str, **options: Any) -> None:
    """Register the schema in FILE, or on stdin, for a subject.

    The values of topic T are held to subject T-value. Exit code 1 when the schema is not compatible with earlier
    versions, 2 when it is no schema.
    """
    options["normalize"] = options["normalize"] or None
    registered, is_new = ask_about(
        broker, lambda client: SchemaQuestions(client).register(subject, source, **options)
    )
    where = f"version {registered.version}, id {registered.id}"
    said = f"{registered.subject}: {where}" + ("" if is_new else ", which was there already")
    say(output, schema_fields(registered, is_new=is_new), said)


@schema.command(short_help="Show a schema.")
@click.argument("subject", required=False)
@version_option
@click.option("--id", "schema_id", type=click.IntRange(min=1), help="The schema of this id, in place of a subject.")
@click.option("--text", "only_text", is_flag=True, help="The schema alone, to the letter.")
@deleted_option
@broker_options
@output_option
def show(
    *, subject: str | None, schema_id: int | None, only_text: bool, broker: BrokerAddress, output: str, **which: Any
) -> None:
    """Show a version of a subject, the newest by itself, or the schema of an id."""
    if (subject is None) == (schema_id is None) or (schema_id is not None and which["version"] is not None):
        raise Misuse("name the schema: give SUBJECT, with --version for another than the newest, or --id")
    found = ask_about(broker, lambda client: _found(client, subject, schema_id, **which))
    if output == JSON:
        write_json(schema_fields(found, schema=found.schema))
    elif only_text:
        _write_text(found.schema)
    else:
        _write_schema(found)


async def _found(
    client: Client, subject: str | None, schema_id: int | None, *, version: AnyVersion | None, deleted: bool
) -> RegisteredSchema:
    if schema_id is not None:
        return await client.schema_by_id(schema_id)
    return await client.schema(subject or "", version or LATEST, deleted=deleted)


def _write_text(text: str) -> None:
    shown = printable_lines(text) if sys.stdout.isatty() else text
    click.echo(shown, nl=not shown.endswith("\n"))


def _write_schema(found: RegisteredSchema) -> None:
    click.echo(title_of(found))
    for each in found.references:
        click.echo(printable(f"{each.name} is {each.subject}, version {each.version}"))
    click.echo()
    click.echo(printable_lines(pretty(found.schema)))


@schema.command("list", short_help="Show all subjects.")
@click.option("--prefix", default="", metavar="TEXT", help="Subjects that begin so.")
@deleted_option
@broker_options
@output_option
def list_command(prefix: str, deleted: bool, broker: BrokerAddress, output: str) -> None:
    """Show subjects, their versions, and the compatibility asked of new ones; as JSON, one on each line."""
    rows = ask_about(broker, lambda client: _subjects(SchemaQuestions(client), prefix, deleted=deleted))
    if output == JSON:
        for newest, versions, level in rows:
            write_json(schema_fields(newest, versions=versions, compatibility=level))
        return
    write_table(LIST_COLUMNS, [_list_row(*row) for row in rows])


SubjectRow = tuple[RegisteredSchema, list[int], str]


async def _subjects(questions: SchemaQuestions, prefix: str, *, deleted: bool) -> list[SubjectRow]:
    return [
        (
            each,
            await questions.versions(each.subject, deleted=deleted),
            str((await questions.settings(each.subject)).level),
        )
        for each in await questions.latest(prefix, deleted=deleted)
    ]


def _list_row(newest: RegisteredSchema, versions: list[int], level: str) -> list[str]:
    return [
        printable(newest.subject),
        _ranges(versions),
        str(newest.version),
        str(newest.id),
        newest.type,
        level,
    ]


def _ranges(numbers: list[int]) -> str:
    """Rising numbers, short: 1-3,5."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


@schema.command(short_help="Show or change what is asked of new versions.")
@click.argument("subject", required=False)
@click.option(
    "--compatibility", "level", type=click.Choice(LEVELS, case_sensitive=False), help="With which versions."
)
@click.option("--normalize/--no-normalize", default=None, help="Whether the order of members makes no difference.")
@click.option("--mode", type=click.Choice(MODES, case_sensitive=False), help="IMPORT takes ids as they are given.")
@click.option("--reset", is_flag=True, help="Take back all that the subject has of its own.")
@click.option("--force", is_flag=True, help="With --mode IMPORT: though the subject has versions.")
@broker_options
@output_option
def config(
    *, subject: str | None, reset: bool, force: bool, broker: BrokerAddress, output: str, **changes: Any
) -> None:
    """Show the settings of a subject, or of all that have none of their own; change those that are given."""
    is_change = any(each is not None for each in changes.values())
    if reset and is_change:
        raise Misuse("settings are changed or reset, not both at once; run it twice")
    if force and changes["mode"] is None:
        raise Misuse("--force is for --mode IMPORT")

    async def work(client: Client) -> tuple[Any, Any]:
        questions = SchemaQuestions(client)
        if reset:
            await questions.reset(subject, config=True, mode=True)
        elif is_change:
            await questions.change(subject, force=force, **changes)
        own = None if subject is None else await questions.settings(subject, with_default=False)
        return await questions.settings(subject), own

    _write_settings(output, subject, *ask_about(broker, work))


def _write_settings(output: str, subject: str | None, holds: Any, own: Any) -> None:
    values = {"compatibility": holds.level, "normalize": bool(holds.normalize), "mode": holds.mode}
    if output == JSON:
        mine = None if own is None else {"compatibility": own.level, "normalize": own.normalize, "mode": own.mode}
        write_json({"subject": subject, **values, "own": mine})
        return
    owned = (None, None, None) if own is None else (own.level, own.normalize, own.mode)
    rows = [
        [name, _shown(value), DEFAULT if each is None else OWN]
        for (name, value), each in zip(values.items(), owned, strict=True)
    ]
    write_table(SETTING_COLUMNS, rows)


def _shown(value: str | bool) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else value


@schema.command(short_help="Delete a version or a subject.")
@click.argument("subject")
@click.option("--version", type=Version(), help="This one; else all of the subject.")
@click.option("--permanent", is_flag=True, help="For good; it has to be deleted before.")
@yes_option
@broker_options
@output_option
def delete(
    *, subject: str, version: AnyVersion | None, permanent: bool, yes: bool, broker: BrokerAddress, output: str
) -> None:
    """Delete a version, or a subject with all of them. Their numbers and ids are not given again."""
    what = f"all versions of {subject}" if version is None else f"version {version} of {subject}"
    confirm(yes, printable(f"delete {what}{' for good' if permanent else ''}?"))
    deleted = ask_about(broker, lambda client: client.delete_schema(subject, version, permanent=permanent))
    done = f"{subject}: deleted {'version' if len(deleted) == 1 else 'versions'} {_ranges(deleted)}"
    say(output, {"subject": subject, "versions": deleted, "permanent": permanent}, done)

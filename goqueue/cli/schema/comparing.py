"""`goqueue schema check` and `diff`: whether a schema may be registered, and in what two differ."""

from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import click

from goqueue.cli.program.asking import BrokerAddress, broker_options
from goqueue.cli.program.output import JSON, counted, output_option, printable, write_json
from goqueue.cli.program.running import Exit, Misuse, end
from goqueue.cli.schema.given import (
    Version,
    ask_about,
    of_one_schema,
    reference_option,
    source_in,
    type_option,
    version_in,
)
from goqueue.cli.schema.views import difference_fields, write_differences, write_findings
from goqueue.client.client import Client
from goqueue.client.schemas.registry import LATEST, AnyVersion, SchemaFindings, SchemaQuestions, source_to_register
from goqueue.client.schemas.source import SchemaSource
from goqueue.core.schemas.compatibility.check import Change, changes, findings
from goqueue.core.schemas.findings import Finding
from goqueue.core.schemas.schema import Compatibility, Reference, ResolvedSchema
from goqueue.core.schemas.text import finished
from goqueue.core.schemas.validation.checking import check_schema


@click.command(short_help="Say whether a schema could be registered.")
@click.argument("subject")
@of_one_schema
@click.option("--version", type=Version(), help="Compare with this one alone.")
@broker_options
@output_option
def check(
    *, subject: str, source: SchemaSource, version: AnyVersion | None, broker: BrokerAddress, output: str
) -> None:
    """Say whether the schema in FILE, or on stdin, could be registered, and what stands against it.

    Exit code 0 when it could, 1 when it is not compatible, 2 when it is no schema. Nothing is registered.
    """
    found = ask_about(broker, lambda client: SchemaQuestions(client).check(subject, source, version=version))
    if output == JSON:
        rows = [{**difference_fields(each), "version": each.version} for each in found]
        fields = {"subject": subject, "level": found.level, "is_compatible": found.is_compatible}
        write_json({**fields, "findings": rows})
    else:
        _write_check(subject, found)
    if not found.is_compatible:
        end(Exit.DAMAGE)


def _write_check(subject: str, found: SchemaFindings) -> None:
    if found.is_compatible:
        click.echo(printable(f"compatible with {subject} ({found.level})"))
        return
    versions = sorted({each.version for each in found} - {0})
    earlier = f", version {', '.join(map(str, versions))}" if versions else ""
    click.echo(
        printable(f"not compatible with {subject}{earlier} ({found.level}): {counted(len(found), 'finding')}")
    )
    write_findings(found)


# Two schemas


class Compared(NamedTuple):
    changes: list[Change]
    """What the new schema has otherwise."""
    backward: list[Finding]
    """Why the new one does not read what the old one wrote."""
    forward: list[Finding]
    """Why the old one does not read what the new one writes."""
    level: Compatibility

    @property
    def is_compatible(self) -> bool:
        misses_backward = self.level.is_backward and bool(self.backward)
        return not (misses_backward or (self.level.is_forward and self.forward))


@click.command(short_help="Show in what two schemas differ.")
@click.argument("subject")
@click.argument("schemas", nargs=-1, metavar="[OLD] NEW")
@type_option
@reference_option
@broker_options
@output_option
def diff(
    *,
    subject: str,
    schemas: Sequence[str],
    schema_type: str,
    references: Sequence[Reference],
    broker: BrokerAddress,
    output: str,
) -> None:
    """Show in what a schema differs from another one, and which of them reads what the other wrote.

    OLD and NEW are versions of the subject, or files (`-` is stdin); OLD is the newest version by itself.
    Exit code 1 when NEW is not compatible with OLD as the subject asks.
    """
    old, new = _two(schemas)

    def source_of(text: str) -> AnyVersion | SchemaSource:
        version = version_in(text)
        if version is not None:
            return version
        return source_in(_opened(text), schema_type, references)

    sides = source_of(old), source_of(new)
    compared = ask_about(broker, lambda client: _compared(client, subject, *sides))
    if output == JSON:
        write_json(_compared_fields(subject, old, new, compared))
    else:
        _write_compared(subject, compared)
    if not compared.is_compatible:
        end(Exit.DAMAGE)


def _opened(name: str) -> IO[bytes]:
    opened: IO[bytes] = click.File("rb").convert(name, None, click.get_current_context())
    return opened


def _two(schemas: Sequence[str]) -> tuple[str, str]:
    if len(schemas) not in (1, 2):
        raise Misuse("name one schema to compare with the newest version, or two: versions or files")
    return (LATEST, schemas[0]) if len(schemas) == 1 else (schemas[0], schemas[1])


async def _compared(
    client: Client, subject: str, old: AnyVersion | SchemaSource, new: AnyVersion | SchemaSource
) -> Compared:
    questions = SchemaQuestions(client)
    before, now = [await _resolved(questions, subject, each) for each in (old, new)]
    level = Compatibility(await client.compatibility(subject))
    return Compared(
        finished(changes(now, before)), finished(findings(now, before)), finished(findings(before, now)), level
    )


async def _resolved(questions: SchemaQuestions, subject: str, side: AnyVersion | SchemaSource) -> ResolvedSchema:
    """What the registry has is sound; what a file has is looked at."""
    if not isinstance(side, SchemaSource):
        return await questions.resolved(source_to_register(await questions.get(subject, side)))
    resolved = await questions.resolved(side)
    check_schema(resolved)
    return resolved


def _compared_fields(subject: str, old: str, new: str, compared: Compared) -> dict[str, Any]:
    return {
        "subject": subject,
        "old": old,
        "new": new,
        "level": compared.level.value,
        "is_compatible": compared.is_compatible,
        "changes": [{**difference_fields(each), "breaks": each.breaks} for each in compared.changes],
        "backward": [difference_fields(each) for each in compared.backward],
        "forward": [difference_fields(each) for each in compared.forward],
    }


def _write_compared(subject: str, compared: Compared) -> None:
    if compared.changes:
        write_differences(compared.changes)
    else:
        click.echo("the two say the same")
    _write_direction("NEW reads what OLD wrote", "BACKWARD", compared.backward)
    _write_direction("OLD reads what NEW writes", "FORWARD", compared.forward)
    verdict = "compatible" if compared.is_compatible else "not compatible"
    click.echo()
    click.echo(printable(f"{verdict} as {subject} asks ({compared.level.value})"))


def _write_direction(claim: str, level: str, found: Sequence[Finding]) -> None:
    click.echo(f"\n{claim} ({level}): {'no' if found else 'yes'}")
    for each in found:
        click.echo(printable(f"  {each.path}: {each.help}"))

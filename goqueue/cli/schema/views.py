"""Schemas and findings, for people and for programs."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import click

from goqueue.cli.program.output import Column, fitting, line_of, printable, write_titles
from goqueue.client.schemas.source import RegisteredSchema

COLUMNS = [Column("PATH", 4), Column("BEFORE", 6), Column("NOW", 3), Column("FINDING", 7)]
VALUE_WIDTH = 32


class AnyFinding(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def old(self) -> str: ...
    @property
    def new(self) -> str: ...
    @property
    def help(self) -> str: ...


def schema_fields(found: RegisteredSchema, **others: Any) -> dict[str, Any]:
    references = [
        {"name": each.name, "subject": each.subject, "version": each.version} for each in found.references
    ]
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.id,
        "guid": str(found.guid),
        "type": found.type,
        "references": references,
        "is_deleted": found.is_deleted,
        **others,
    }


def title_of(found: RegisteredSchema) -> str:
    deleted = ", deleted" if found.is_deleted else ""
    return printable(f"{found.subject}  version {found.version}, id {found.id}, {found.type}{deleted}")


def pretty(text: str) -> str:
    """Indented, with the names in their order; what is no JSON as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))


def finding_fields(finding: AnyFinding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in ("type", "path", "old", "new", "help")}


def write_findings(findings: Iterable[AnyFinding]) -> None:
    """A row for each, and below it what would help."""
    found = list(findings)
    rows = [_row(each) for each in found]
    columns = fitting(COLUMNS, rows)
    write_titles(columns)
    for each, row in zip(found, rows, strict=True):
        click.echo(line_of(columns, row))
        if each.help:
            click.echo(f"    {printable(each.help)}")


def _row(finding: AnyFinding) -> Sequence[str]:
    return printable(finding.path), _short(finding.old), _short(finding.new), printable(finding.type)


def _short(value: str) -> str:
    text = printable(value)
    return text if len(text) <= VALUE_WIDTH else text[: VALUE_WIDTH - 1] + "…"

"""Schemas and findings, for people and for programs."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import click

from goqueue.cli.program.output import Column, fitting, printable, write_cells, write_table, write_titles
from goqueue.client.schemas.source import RegisteredSchema

COLUMNS = [Column("PATH", 4), Column("BEFORE", 6), Column("NOW", 3), Column("DIFFERENCE", 10)]
VALUE_WIDTH = 32


class ShownDifference(Protocol):
    """A finding of the broker or of our own, or a change that breaks nothing."""

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


def difference_fields(difference: ShownDifference) -> dict[str, Any]:
    return {name: getattr(difference, name) for name in ("type", "path", "old", "new", "help")}


def write_differences(differences: Iterable[ShownDifference]) -> None:
    write_table(COLUMNS, [_row(each) for each in differences])


def write_findings(findings: Sequence[ShownDifference]) -> None:
    """A row for each, and below it what would help."""
    rows = [_row(each) for each in findings]
    columns = fitting(COLUMNS, rows)
    write_titles(columns)
    for each, row in zip(findings, rows, strict=True):
        write_cells(columns, row)
        click.echo(f"    {printable(each.help)}")


def _row(difference: ShownDifference) -> list[str]:
    path, old, new, kind = map(printable, (difference.path, difference.old, difference.new, difference.type))
    return [path, _short(old), _short(new), kind]


def _short(text: str) -> str:
    return text if len(text) <= VALUE_WIDTH else text[: VALUE_WIDTH - 1] + "…"

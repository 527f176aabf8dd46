"""The output of commands: tables for people, JSON for programs.

Bytes and names from others never reach a terminal unescaped: unprintable characters are escaped.
"""

import codecs
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import click

from goqueue.types import Acks, Microseconds

Command = TypeVar("Command", bound=Callable[..., Any])
TABLE, JSON = "table", "json"
PREVIEW_WIDTH = 40
CHARACTER_SIZE_MAX = 4
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def output_option(command: Command) -> Command:
    """`-o table|json`, after the command."""
    choice = click.Choice([TABLE, JSON])
    add = click.option("-o", "--output", type=choice, default=TABLE, show_default=True, help="How to print.")
    return add(command)


def acks_option(command: Command) -> Command:
    """`--acks all|leader|none`: what a publish waits for."""
    names = click.Choice([each.name.lower() for each in reversed(Acks)])
    add = click.option("--acks", type=names, default="all", show_default=True, help="What a publish waits for.")
    return add(command)


# Values


def printable(text: str) -> str:
    """The text with all unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def preview(data: bytes, width: int = PREVIEW_WIDTH) -> str:
    """The beginning of some bytes: text when they are text, else hexadecimal."""
    begin = data[: width * CHARACTER_SIZE_MAX]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(begin, final=len(begin) == len(data))
    except UnicodeDecodeError:
        shown = "0x" + begin.hex()
    else:
        shown = printable(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def json_bytes(data: bytes) -> dict[str, str]:
    """Bytes for JSON: as base64 and, when they are UTF-8, as text too."""
    fields = {"base64": b64encode(data).decode("ascii")}
    try:
        return {**fields, "text": data.decode()}
    except UnicodeDecodeError:
        return fields


def readable(time: Microseconds) -> str:
    try:
        moment = EPOCH + timedelta(microseconds=time)
    except OverflowError:
        return f"{time} µs"
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def readable_second(seconds: float) -> str:
    """The moment, to the second."""
    return f"{readable(int(seconds * 1_000_000))[:19]}Z"


# Printing


class Column(NamedTuple):
    title: str
    width: int
    is_number: bool = False


def fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[Column]:
    """The columns, wide enough for these rows."""
    widths = [max(len(cell) for cell in cells) for cells in zip(*rows, strict=True)] or [0] * len(columns)
    return [each._replace(width=max(each.width, width)) for each, width in zip(columns, widths, strict=True)]


def write_titles(columns: Sequence[Column]) -> None:
    click.secho(line_of(columns, [column.title for column in columns]), bold=True)


def write_cells(columns: Sequence[Column], cells: Sequence[str]) -> None:
    click.echo(line_of(columns, cells))


def line_of(columns: Sequence[Column], cells: Sequence[str]) -> str:
    padded = [
        cell.rjust(column.width) if column.is_number else cell.ljust(column.width)
        for column, cell in zip(columns, cells, strict=True)
    ]
    return "  ".join(padded).rstrip()


def write_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    columns = fitting(columns, rows)
    write_titles(columns)
    for row in rows:
        write_cells(columns, row)


def say(output: str, fields: dict[str, Any], sentence: str) -> None:
    write_json(fields) if output == JSON else click.echo(printable(sentence))


def write_json(fields: dict[str, Any], indent: int | None = None) -> None:
    click.echo(json.dumps(fields, indent=indent))

"""`goqueue stats`: the counters of a broker."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import click

from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import (
    JSON,
    Column,
    fitting,
    output_option,
    printable,
    write_cells,
    write_json,
    write_titles,
)
from goqueue.cli.program.running import Misuse
from goqueue.cli.program.watching import watching

Counters: TypeAlias = Mapping[str, Any]
COLUMNS = [Column("COUNTER", 7), Column("VALUE", 5, is_number=True)]


@click.command()
@click.option("--watch", is_flag=True, help="Again each second, until Ctrl-C; on a terminal in place.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="With --watch: end after so many looks.")
@broker_options
@output_option
def stats(*, watch: bool, count: int | None, broker: BrokerAddress, output: str) -> None:
    """Show what the broker counts."""
    if count is not None and not watch:
        raise Misuse("--count is how often to look; give --watch too")
    show = _write_line if output == JSON else _write_page if watch and sys.stdout.isatty() else _write_table
    ask(broker, lambda client: watching(client.stats, show, count if watch else 1))


def _write_line(counters: Counters) -> None:
    write_json(dict(counters))
    sys.stdout.flush()


def _write_page(counters: Counters) -> None:
    """In place of the page before: the terminal keeps one."""
    click.clear()
    click.echo(f"{datetime.now(UTC):%H:%M:%S} UTC, until Ctrl-C\n")
    _write_table(counters)


def _write_table(counters: Counters) -> None:
    _write_groups(groups_of(counters))
    sys.stdout.flush()


def groups_of(counters: Mapping[str, Any]) -> list[list[list[str]]]:
    """The counters grouped by their names up to the first dot, in the order of the first of each group."""
    groups: dict[str, list[list[str]]] = {}
    for name, value in counters.items():
        groups.setdefault(name.partition(".")[0], []).append([printable(name), printable(str(value))])
    return list(groups.values())


def _write_groups(groups: Sequence[Sequence[Sequence[str]]]) -> None:
    columns = fitting(COLUMNS, [row for group in groups for row in group])
    write_titles(columns)
    for number, group in enumerate(groups):
        if number:
            click.echo()
        for row in group:
            write_cells(columns, row)

"""`goqueue stats`: the counters of a broker."""

from collections.abc import Mapping, Sequence
from typing import Any

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

COLUMNS = [Column("COUNTER", 7), Column("VALUE", 5, is_number=True)]


@click.command()
@broker_options
@output_option
def stats(broker: BrokerAddress, output: str) -> None:
    """Show what the broker counts."""
    counters = ask(broker, lambda client: client.stats())
    if output == JSON:
        write_json(dict(counters))
    else:
        _write_groups(groups_of(counters))


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

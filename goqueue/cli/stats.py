"""`goqueue stats`: what a broker counts."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from goqueue.cli.config import BrokerAddress, ask, broker_options
from goqueue.cli.output import JSON, Column, output_option, printable, write_json, write_table

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
        write_table(COLUMNS, list(rows_of(counters)))


def rows_of(counters: Mapping[str, Any], prefix: str = "") -> Iterator[list[str]]:
    """Counters in counters stand below their name."""
    for name, value in counters.items():
        if isinstance(value, Mapping):
            yield from rows_of(value, f"{prefix}{name}.")
        else:
            yield [printable(f"{prefix}{name}"), printable(str(value))]

"""The command line: one file per group of commands."""

import click

from goqueue import __version__
from goqueue.cli.log import log
from goqueue.cli.serve import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="goqueue")
def main() -> None:
    """A durable message broker."""


main.add_command(log)
main.add_command(serve)

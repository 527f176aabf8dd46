"""The command line: one file per group of commands.

A command's file is imported when the command runs: publishing a line does not wait for the import of all others.
"""

import click

from goqueue import __version__
from goqueue.cli.program.lazy import CommandsInFiles
from goqueue.cli.program.running import Program

FILES = {
    "backup": "backup.commands",
    "bench": "bench.commands",
    "check": "check",
    "config": "config",
    "consume": "messages.consume",
    "delayed": "delayed",
    "dlq": "dlq",
    "group": "group",
    "log": "log.commands",
    "produce": "messages.produce",
    "recover": "backup.recover",
    "restore": "backup.commands",
    "schema": "schema.commands",
    "serve": "serve",
    "spark": "spark.commands",
    "stats": "stats",
    "top": "top.command",
    "topic": "topic",
    "why": "why",
    "work": "work",
}
"""The file of each command."""


class Commands(CommandsInFiles, Program):
    files = FILES


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="goqueue")
def main() -> None:
    """A durable message broker."""

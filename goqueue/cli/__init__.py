"""The command line: one file per group of commands.

A command's file is imported when the command is asked for: to publish a line one does not wait for all of it.
"""

from importlib import import_module

import click

from goqueue import __version__
from goqueue.cli.running import Program

FILES = {
    "backup": "backup",
    "bench": "bench",
    "config": "config",
    "consume": "consume",
    "delayed": "delayed",
    "dlq": "dlq",
    "group": "group",
    "log": "log",
    "produce": "produce",
    "restore": "backup",
    "serve": "serve",
    "stats": "stats",
    "topic": "topic",
    "why": "why",
    "work": "work",
}
"""Which file has which command."""


class Commands(Program):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(FILES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in FILES:
            self.add_command(getattr(import_module(f"goqueue.cli.{FILES[cmd_name]}"), cmd_name))
        return super().get_command(ctx, cmd_name)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="goqueue")
def main() -> None:
    """A durable message broker."""

"""A group whose commands are in files of their own, each imported when its command runs."""

from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar

import click


class CommandsInFiles(click.Group):
    files: ClassVar[Mapping[str, str]] = {}
    """The file in goqueue/cli of each command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(self.files)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self.files:
            self.add_command(getattr(import_module(f"goqueue.cli.{self.files[cmd_name]}"), cmd_name))
        return super().get_command(ctx, cmd_name)

"""What commands say of themselves: whole on a terminal of 80 columns, and completed by shells."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from goqueue.cli import main

WIDTH = 80
CLICK_WIDTH = WIDTH - 2
"""What click takes of a terminal that is so wide."""


def groups_of(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The group, and all groups in it."""
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from groups_of(command, (*path, name))


def cut_short(lines: list[str]) -> list[str]:
    return [line for line in lines if line.endswith("...") and not line.startswith("Usage:")]


def test_groups_of_commands_are_found() -> None:
    assert {(), ("topic",), ("bench",), ("spark",)} <= set(groups_of(main))


def test_a_summary_that_does_not_fit_would_be_seen() -> None:
    @click.group()
    def group() -> None:
        """Some."""

    group.command(
        "long", help="A summary so long that no line of a terminal with eighty columns can ever hold all of it."
    )(print)
    said = CliRunner().invoke(group, ["--help"], terminal_width=CLICK_WIDTH)
    assert len(cut_short(said.output.splitlines())) == 1


@pytest.mark.parametrize("path", list(groups_of(main)), ids=" ".join)
def test_the_summaries_of_commands_fit_whole(path: tuple[str, ...]) -> None:
    said = CliRunner().invoke(main, [*path, "--help"], terminal_width=CLICK_WIDTH, max_content_width=WIDTH)
    assert said.exit_code == 0
    assert cut_short(said.output.splitlines()) == []
    assert all(len(line) <= WIDTH for line in said.output.splitlines())


@pytest.mark.parametrize(
    ("shell", "words"), [("bash", "complete -o"), ("zsh", "#compdef goqueue"), ("fish", "complete --no-files")]
)
def test_a_shell_gets_its_completion(shell: str, words: str) -> None:
    program = "import sys; sys.argv = ['goqueue']; from goqueue.cli import main; main()"
    environment = os.environ | {"_GOQUEUE_COMPLETE": f"{shell}_source"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, words in done.stdout) == (0, True), done.stderr

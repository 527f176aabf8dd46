"""How commands end, and what a terminal sees that a pipe does not."""

import os
import pty
import sys
from pathlib import Path
from subprocess import run as run_program

import click
import pytest
from click.testing import CliRunner

from goqueue.cli.output import preview, printable, readable
from goqueue.cli.running import Misuse, run
from goqueue.errors import DiskFailed, UnknownFormat
from tests.cli.directories import flip, segments


async def fail(error: BaseException) -> None:
    raise error


def ended_by(error: BaseException) -> tuple[int, str]:
    @click.command()
    def command() -> None:
        run(lambda: fail(error))

    result = CliRunner().invoke(command)
    return result.exit_code, result.stderr


def test_what_was_expected_to_fail_ends_with_its_code_and_one_sentence() -> None:
    assert ended_by(UnknownFormat("not ours; give another")) == (2, "Error: not ours; give another\n")
    assert ended_by(Misuse("no such file; give another")) == (2, "Error: no such file; give another\n")
    assert ended_by(DiskFailed("the disk broke")) == (1, "Error: the disk broke\n")


def test_an_interrupted_command_does_not_look_like_damage() -> None:
    with pytest.raises(SystemExit) as ended:
        run(lambda: fail(KeyboardInterrupt()))
    assert ended.value.code == 130


def on_a_terminal(*arguments: str) -> str:
    """What the program writes to a terminal."""
    terminal, program_side = pty.openpty()
    command = [sys.executable, "-m", "goqueue", *arguments]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    run_program(command, stdout=program_side, stderr=program_side, env=environment, check=False)
    os.close(program_side)
    seen = os.read(terminal, 100_000).decode()
    os.close(terminal)
    return seen


def test_colours_and_progress_are_for_terminals(data: Path) -> None:
    flip(segments(data)[0], 150)
    seen = on_a_terminal("log", "verify", str(data))
    assert "\x1b[31m" in seen
    assert "━" in seen
    assert "\x1b[1m" in on_a_terminal("log", "dump", str(segments(data)[0]), "--limit", "1")


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"text", "text"),
        ("grüße".encode(), "grüße"),
        (b"", ""),
        (b"\x1b[0m\n", "\\x1b[0m\\n"),
        ("\u202e".encode(), "\\u202e"),
        (b"\xff", "0xff"),
        (b"x" * 40, "x" * 40),
        (b"x" * 41, "x" * 39 + "…"),
        (("ü" * 500).encode(), "ü" * 39 + "…"),
        (b"x" * 159 + "ü".encode() + b"x", "x" * 39 + "…"),
        (b"\xff" * 500, "0x" + "f" * 37 + "…"),
    ],
)
def test_bytes_are_shown_as_text_when_they_are_text_and_cut_at_a_width(data: bytes, shown: str) -> None:
    assert preview(data) == shown


def test_text_is_printable_whatever_it_was() -> None:
    assert printable("a\tb\udc80\u200b") == "a\\tb\\udc80\\u200b"


def test_times_are_readable_and_never_fail() -> None:
    assert readable(0) == "1970-01-01T00:00:00.000000Z"
    assert readable(2**64 - 1) == f"{2**64 - 1} µs"

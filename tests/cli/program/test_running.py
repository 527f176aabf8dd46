"""How commands end, and what a terminal sees that a pipe does not."""

import os
import pty
import sys
from pathlib import Path
from subprocess import PIPE
from subprocess import run as run_program

import click
import pytest
from click.testing import CliRunner

from goqueue.cli.program.output import preview, printable, readable
from goqueue.cli.program.running import Misuse, run
from goqueue.errors import DiskFailed, UnknownFormat
from tests.cli.directories import flip, segments

ROOT = Path(__file__).parents[3]
AT_HOME = {**os.environ, "PYTHONPATH": str(ROOT)}


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


ALL = [
    ["config", "show"],
    ["config", "show", "-o", "json"],
    ["topic", "--help"],
    ["log", "verify", "data"],
    ["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
]


def ended_with(arguments: list[str], folder: Path, redirections: str) -> tuple[int, str]:
    """The exit code, and what stderr heard, of a command to which a shell did this."""
    program = f'"{sys.executable}" -m goqueue "$@" {redirections}'
    ended = run_program(
        ["bash", "-c", program, "bash", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=60, env=AT_HOME
    )  # fmt: skip
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("arguments", ALL, ids=" ".join)
def test_a_closed_stdout_is_told_before_anything_is_done(data: Path, arguments: list[str]) -> None:
    code, said = ended_with(arguments, data.parent, ">&-")
    assert (code, said) == (2, "Error: stdout is closed; let it go somewhere, /dev/null if nobody reads it\n")
    assert not (data.parent / "goqueue-data").exists()


@pytest.mark.parametrize("arguments", ALL, ids=" ".join)
def test_a_pipe_that_nobody_reads_ends_a_command_quietly(data: Path, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-m", "goqueue", *arguments]
    ended = run_program(program, stdout=writer, stderr=PIPE, cwd=data.parent, env=AT_HOME, check=False, timeout=60)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", ALL, ids=" ".join)
def test_an_output_without_room_is_one_line_and_exit_code_1(data: Path, arguments: list[str]) -> None:
    code, said = ended_with(arguments, data.parent, "> /dev/full")
    assert (code, said.count("\n")) == (1, 1)
    assert "No space left on device" in said


@pytest.mark.parametrize("arguments", [["produce", "orders"], ["topic", "delete", "orders"]], ids=" ".join)
def test_a_closed_stdin_is_told_where_it_is_needed(tmp_path: Path, arguments: list[str]) -> None:
    code, said = ended_with(arguments, tmp_path, "<&-")
    assert (code, said.count("\n")) == (2, 1)


def test_a_closed_stdin_or_stderr_is_nothing_to_those_who_do_not_need_it(tmp_path: Path) -> None:
    assert ended_with(["config", "show"], tmp_path, "<&-") == (0, "")
    assert ended_with(["config", "show"], tmp_path, "2>&-") == (0, "")
    assert ended_with(["config", "show", "--listen", "nowhere"], tmp_path, "<&- 2>&-") == (2, "")


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

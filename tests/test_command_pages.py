"""The pages on the command line and on settings: examples run, tables are what the code has."""

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from goqueue.actors.statistics.statistics import COUNTERS
from goqueue.cli import main
from goqueue.cli.config import shown as as_people_see_it
from goqueue.cli.topic import topic
from goqueue.core.settingstable import UNLIMITED
from goqueue.core.topics.config import SETTINGS
from goqueue.settings import PREFIX, Settings, flag_of
from tests.warmprogram import warm_program

ROOT = Path(__file__).parents[1]
COMMAND_LINE, CONFIGURATION = ROOT / "docs/command-line.md", ROOT / "docs/configuration.md"
OPERATIONS = ROOT / "docs/operations.md"
ON_SPARK = sorted((ROOT / "docs").glob("spark-*.md"))
"""Their examples run with Spark's tests."""
PLACEHOLDERS = ("DIR", "FILE", "./dev", "pip install")
"""Words of blocks that do not run: they stand for something else, or need the network."""
SECONDS_MAX = 120


def shell_blocks(page: Path) -> list[str]:
    """Those that can run as they stand."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if not any(word in block for word in PLACEHOLDERS)]


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_program(tmp_path_factory.mktemp("program")) as folder:
        yield folder


def run_in_a_shell(script: str, folder: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    """Where `goqueue` is this one, any failure ends it, and what it started ends with it."""
    listen = free_address()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(PREFIX)},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "GOQUEUE_LISTEN": listen,
        "GOQUEUE_HTTP": free_address(),
        "GOQUEUE_URL": f"ws://{listen}",
        "GOQUEUE_TIMEOUT": "30",
        "GOQUEUE_LOG_LEVEL": "error",  # what a broker says is no failure; nor is that the machine is busy
    }
    guarded = f"set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n{script}"
    done = subprocess.run(
        ["bash", "-c", guarded],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    # How many messages were published is said on stderr, and is no complaint.
    done.stderr = re.sub(r"^[0-9]+ messages? published to .*\n", "", done.stderr, flags=re.MULTILINE)
    return done


def test_the_examples_of_the_command_line_run(tmp_path: Path, programs: Path) -> None:
    done = run_in_a_shell("\n".join(shell_blocks(COMMAND_LINE)), tmp_path, programs)
    assert (done.returncode, done.stderr) == (0, "")
    assert "hello" in (tmp_path / "backup.ndjson").read_text()


def test_the_shell_examples_of_the_readme_run(tmp_path: Path, programs: Path) -> None:
    [block] = shell_blocks(ROOT / "README.md")
    done = run_in_a_shell(f"goqueue serve > /dev/null &\n{block}", tmp_path, programs)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"value": "hello"' in done.stdout


def test_the_examples_on_running_a_broker_run(tmp_path: Path, programs: Path) -> None:
    done = run_in_a_shell("\n".join(shell_blocks(OPERATIONS)), tmp_path, programs)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "restored/meta.json").read_text() == (tmp_path / "orders-data/meta.json").read_text()


def test_an_example_that_fails_would_be_seen(tmp_path: Path, programs: Path) -> None:
    done = run_in_a_shell("goqueue config show --listen nowhere\necho reached", tmp_path, programs)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'nowhere' is not an address" in done.stderr


def test_the_page_has_every_counter_as_the_code_has_it() -> None:
    _, _, table = OPERATIONS.read_text().partition("| counter |")
    written = table.partition("\n\n")[0].splitlines()[2:]
    assert written == [f"| `{name}` | {meaning} |" for name, meaning in COUNTERS.items()]


def all_commands(group: Any, prefix: str = "goqueue") -> list[str]:
    found, context = [], click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inside = all_commands(command, f"{prefix} {name}") if hasattr(command, "commands") else []
        found += inside or [f"{prefix} {name}"]
    return found


@pytest.mark.parametrize("command", all_commands(main))
def test_every_command_has_an_example(command: str) -> None:
    pages = ON_SPARK if command.startswith("goqueue spark ") else [COMMAND_LINE]
    blocks = [block for page in pages for block in shell_blocks(page)]
    assert any(re.search(rf"\b{command}\b", block) for block in blocks), command


def test_commands_of_commands_are_looked_at_too() -> None:
    assert {f"goqueue topic {name}" for name in topic.commands} <= set(all_commands(main))


# Settings: what the page says, row by row


def shown(value: object) -> str:
    return f"`{UNLIMITED if value is None else as_people_see_it(value)}`"


def broker_rows() -> list[str]:
    return [
        f"| `{name}` | `{flag_of(name)}` | `{PREFIX}{name.upper()}` | {shown(each.default)} | {each.description} |"
        for name, each in Settings.model_fields.items()
    ]


def topic_rows() -> list[str]:
    return [
        f"| `{each.name}` | {shown(each.default)} | {each.kind.allowed} | {each.meaning} |" for each in SETTINGS
    ]


@pytest.mark.parametrize(
    ("title", "rows"), [("| setting | flag |", broker_rows()), ("| setting | default | allowed |", topic_rows())]
)
def test_a_table_has_every_setting_as_the_code_has_it(title: str, rows: list[str]) -> None:
    _, _, table = CONFIGURATION.read_text().partition(title)
    written = table.partition("\n\n")[0].splitlines()[2:]
    assert written == rows, "the page should have these rows:\n" + "\n".join(rows)

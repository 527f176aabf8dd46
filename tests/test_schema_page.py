"""The page on schemas: its shell examples print what it shows, and its examples with Confluent's client run."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import goqueue.testing
from tests.test_command_pages import run_in_a_shell, shell_blocks
from tests.test_docs import program
from tests.warmprogram import warm_program

PAGE = Path(__file__).parents[1] / "docs/schemas.md"
TEXTS = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
WITH_CONFLUENT, IMPORTING = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_program(tmp_path_factory.mktemp("program")) as folder:
        yield folder


def test_the_commands_print_what_the_page_shows(tmp_path: Path, programs: Path) -> None:
    blocks = "echo ======\n".join(shell_blocks(PAGE))
    done = run_in_a_shell(f"goqueue serve > /dev/null &\n{blocks}", tmp_path, programs)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("======\n") == TEXTS


def test_the_first_example_prints_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    first = program(PAGE).partition("from pydantic")[0]
    [said] = re.findall(r"print\(refused\)  # (.*)", first)
    with goqueue.testing.loopback_broker() as address:
        exec(first.replace("ws://127.0.0.1:7710", address), {})
    assert capsys.readouterr().out == f"{said}\n"


# Confluent's client


class Broker:
    def __init__(self, data: Path) -> None:
        options = ["--data", str(data), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "-o", "json"]
        command = [sys.executable, "-m", "goqueue", "serve", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        ports = json.loads(self.process.stdout.readline())
        self.websocket, self.http = ports["websocket"], ports["http"]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    """The second one stands for a registry from which schemas are moved."""
    pytest.importorskip("confluent_kafka.schema_registry.json_schema")
    both = Broker(tmp_path / "one"), Broker(tmp_path / "other")
    yield both
    for each in both:
        each.end()


def run(code: str, folder: Path, here: Broker, other: Broker) -> None:
    addresses = {
        "ws://127.0.0.1:7710": here.websocket,
        "http://127.0.0.1:7711": here.http,
        "http://127.0.0.1:8081": other.http,
    }
    for shown, real in addresses.items():
        code = code.replace(shown, real)
    script = folder / "example.py"
    script.write_text(f"import goqueue\n{code}")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_confluent_s_serializer_and_a_consumer_understand_each_other(
    brokers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    run(WITH_CONFLUENT, tmp_path, *brokers)


def test_schemas_are_moved_with_their_ids(brokers: tuple[Broker, Broker], tmp_path: Path) -> None:
    here, other = brokers
    with goqueue.blocking.connect(other.websocket) as client:
        client.register_schema("gone", {"title": "an id that is not used any more"})
        client.delete_schema("gone")
        client.register_schema("line", {"type": "string"})
        client.register_schema("lines-value", {"items": {"$ref": "line"}}, [("line", "line", 1)])
        client.register_schema("lines-value", {"title": "lines", "items": {"$ref": "line"}}, [("line", "line", 1)])
        moved = [client.schema("line"), *(client.schema("lines-value", version) for version in (1, 2))]
    run(IMPORTING, tmp_path, *brokers)
    with goqueue.blocking.connect(here.websocket) as client:
        assert client.subjects() == ["line", "lines-value"]
        assert [client.schema_by_id(each.id) for each in moved] == moved
        assert client.schema_mode() == "READWRITE"
        assert client.register_schema("other", True).id > max(each.id for each in moved)

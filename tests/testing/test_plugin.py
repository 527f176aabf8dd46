"""The pytest plugin, and the page about it, as a user's test run meets them: in a process of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.testing import AioMachine

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/testing.md"
LOOP_SCOPE = "asyncio_default_fixture_loop_scope = function\n"
"""What pytest-asyncio warns without."""


def pytest_in(folder: Path, tests: str, *plugins: str) -> str:
    """What pytest says about these tests. Only the named plugins are loaded, installed or not."""
    (folder / "test_it.py").write_text(tests)
    named = [option for plugin in plugins for option in ("-p", plugin)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *named, "test_it.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.stdout + done.stderr


def test_every_test_of_the_page_passes(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n")
    before, _, after = parts_of_page()
    tests = examples_of(before + after)
    said = pytest_in(tmp_path, tests, "pytest_trio.plugin", "goqueue_pytest")
    assert f"{tests.count('def test_')} passed" in said, said


def test_every_test_for_asyncio_passes_by_itself(tmp_path: Path) -> None:
    pytest.importorskip("pytest_asyncio", reason="it comes with goqueue[dev]")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{LOOP_SCOPE}")
    tests = examples_of(parts_of_page()[1])
    said = pytest_in(tmp_path, tests, "pytest_asyncio.plugin", "goqueue_pytest")
    assert f"{tests.count('def test_')} passed" in said, said


def parts_of_page() -> tuple[str, str, str]:
    """The section for asyncio, whose tests another plugin runs, between what is before and after it."""
    before, rest = PAGE.read_text().split("\n## On asyncio\n")
    section, after = rest.split("\n## ", 1)
    return before, section, "\n## " + after


def examples_of(page: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))


def test_the_page_names_every_fixture_and_every_fault() -> None:
    fixtures = re.findall(r"^(?:async )?def (goqueue_\w+)", (ROOT / "goqueue_pytest.py").read_text(), re.MULTILINE)
    faults = re.findall(r"^    (?:async )?def ([a-z]\w+)\(self[,)]", machine_source(), re.MULTILINE)
    page = PAGE.read_text()
    assert len(fixtures) >= 5
    for name in fixtures:
        assert f"| `{name}` |" in page
    for name in set(faults) - {"client", "running", "is_running"}:
        assert f"machine.{name}(" in page
        assert hasattr(AioMachine, name)


def machine_source() -> str:
    return (ROOT / "goqueue/testing/memory.py").read_text()


def test_fixtures_without_an_event_loop_need_no_other_plugin(tmp_path: Path) -> None:
    tests = """
import asyncio

def test_it(goqueue_blocking_client, goqueue_aio_client, goqueue_broker):
    goqueue_blocking_client.create_topic("orders")
    [topic] = asyncio.run(goqueue_aio_client.topics())
    assert topic.name == "orders"

def test_each_has_a_broker_of_its_own(goqueue_blocking_client):
    assert goqueue_blocking_client.topics() == []
"""
    said = pytest_in(tmp_path, tests, "goqueue_pytest")
    assert "2 passed" in said, said


def test_a_run_that_uses_no_fixture_does_not_import_goqueue(tmp_path: Path) -> None:
    """It would take half a second, and hide what is imported from the measurement of coverage."""
    tests = """
import sys

def test_it():
    assert "goqueue_pytest" in sys.modules
    assert not {"goqueue", "trio", "pytest_trio", "asyncio.events"} & set(sys.modules)
"""
    said = pytest_in(tmp_path, tests, "goqueue_pytest")
    assert "1 passed" in said, said


# Other plugins run the tests of asyncio

ON_ASYNCIO = """
import asyncio

import pytest

import goqueue

{marks}

@pytest.fixture
def jobs(goqueue_aio_client):
    return goqueue_aio_client

async def test_a_client(jobs):
    await jobs.create_topic("orders", partitions=1)
    async with jobs.consumer("orders", group="g") as consumer:
        await jobs.publish("orders", b"tea")
        [message] = await consumer.receive()
        await consumer.ack(message, wait=True)

async def test_a_machine(goqueue_aio_machine):
    async with goqueue.aio.connect(goqueue_aio_machine.url) as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"tea", delay=600)
        async with client.consumer("orders", group="g") as consumer:
            receiving = asyncio.create_task(consumer.receive(timeout=900))
            await goqueue_aio_machine.advance(599)
            assert not receiving.done()
            assert [message.value for message in await goqueue_aio_machine.advance_until(receiving)] == [b"tea"]

async def test_each_has_a_broker_of_its_own(goqueue_aio_client, goqueue_aio_machine):
    async with goqueue.aio.connect() as client:
        assert await goqueue_aio_client.topics() == await client.topics() == []
"""
WITH_ANYIO = """
pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


@pytest.mark.parametrize(
    ("plugin", "marks", "options"),
    [
        ("pytest_asyncio.plugin", "pytestmark = pytest.mark.asyncio", LOOP_SCOPE),
        ("pytest_asyncio.plugin", "pytestmark = pytest.mark.asyncio(loop_scope='module')", LOOP_SCOPE),
        ("pytest_asyncio.plugin", "", LOOP_SCOPE + "asyncio_mode = auto"),
        ("anyio.pytest_plugin", WITH_ANYIO, ""),
        ("anyio.pytest_plugin", WITH_ANYIO.split("\n\n", 1)[1], "anyio_mode = auto"),
    ],
    ids=["pytest-asyncio", "one loop for a module", "pytest-asyncio, auto", "anyio", "anyio, auto"],
)
def test_fixtures_for_asyncio_work_with_its_plugins(plugin: str, marks: str, options: str, tmp_path: Path) -> None:
    pytest.importorskip(plugin.partition(".")[0], reason="it comes with goqueue[dev]")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{options}\n")
    said = pytest_in(tmp_path, ON_ASYNCIO.format(marks=marks), plugin, "goqueue_pytest")
    assert "3 passed" in said, said


def test_a_client_for_trio_works_with_anyio(tmp_path: Path) -> None:
    pytest.importorskip("anyio", reason="it comes with goqueue[dev]")
    tests = """
import pytest

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_it(goqueue_client):
    assert await goqueue_client.topics() == []
"""
    said = pytest_in(tmp_path, tests, "anyio.pytest_plugin", "goqueue_pytest")
    assert "1 passed" in said, said

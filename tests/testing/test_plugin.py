"""The pytest plugin, and the page about it, as a user's test run meets them: in a process of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/testing.md"


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
    tests = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    said = pytest_in(tmp_path, tests, "pytest_trio.plugin", "goqueue_pytest")
    assert f"{tests.count('def test_')} passed" in said, said


def test_the_page_names_every_fixture_and_every_fault() -> None:
    fixtures = re.findall(r"^(?:async )?def (goqueue_\w+)", (ROOT / "goqueue_pytest.py").read_text(), re.MULTILINE)
    faults = re.findall(r"^    (?:async )?def ([a-z]\w+)\(self[,)]", machine_source(), re.MULTILINE)
    page = PAGE.read_text()
    assert len(fixtures) >= 5
    for name in fixtures:
        assert f"| `{name}` |" in page
    for name in set(faults) - {"client", "running", "is_running"}:
        assert f"machine.{name}(" in page


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

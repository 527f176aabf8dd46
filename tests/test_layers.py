"""The architecture, read from the imports: who may use whom, and who may reach the system."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import goqueue

ROOT = Path(goqueue.__file__).parent

LAYERS = {
    "types": 0,
    "errors": 0,
    "config": 0,
    "environment": 0,
    "nursery": 0,
    "tcp": 0,
    "settings": 0,
    "portal": 0,
    "core": 1,
    "storage": 2,
    "net": 2,
    "client": 3,
    "actors": 3,
    "testing": 4,
    "blocking": 4,
    "aio": 4,
    "spark": 4,
    "cli": 4,
    "http": 4,
}
USES_BESIDE = {"spark": {"blocking"}, "cli": {"spark"}}
"""Who stands on one beside it: Spark's tasks use the client without an event loop, and commands run Spark."""
SURFACE = {"__init__", "__main__"}
NOT_IN_CORE = {"trio", "os", "time", "random", "logging", "threading", "asyncio", "socket", "pathlib", "datetime"}
REACHES_THE_SYSTEM = {
    "ctypes",
    "fcntl",
    "os",
    "pathlib",
    "platform",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
}
# Into Trio's thread comes only who starts it, who knows of forks, and who waits for it outside of any event loop.
THREADS = {"portal/thread.py", "portal/waiting.py"}
MAY_REACH_THE_SYSTEM = {
    "storage/disk/disk.py",
    "storage/disk/kernelsync.py",
    "storage/disk/sparedescriptors.py",
    "storage/disk/threads.py",
    "environment.py",
    "tcp.py",
    *THREADS,
    "client/working/signals.py",  # knows of forks: their signals are their own
    "spark/checks.py",  # asks for Java, and names the Python of Spark's workers
}
LINES_MAX = 450

FILES = sorted(ROOT.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports name the whole path"
            assert node.module is not None
            yield node.module


def layer_of(module: str) -> int | None:
    package, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    return LAYERS[name] if package == "goqueue" and name else None


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_module_imports_only_its_own_layer_or_a_lower_one(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if own in SURFACE:
        return
    for module in imports_of(path):
        layer = layer_of(module)
        assert layer is None or layer <= LAYERS[own], f"{named(path)} must not import {module}"
        beside = layer == LAYERS[own] and LAYERS[own] in (2, 3, 4)
        allowed = {own} | USES_BESIDE.get(own, set())
        assert not beside or module.split(".")[1] in allowed, f"{named(path)} must not import {module} beside it"


@pytest.mark.parametrize("path", sorted((ROOT / "core").rglob("*.py")), ids=named)
def test_core_is_pure(path: Path) -> None:
    for module in imports_of(path):
        assert module.partition(".")[0] not in NOT_IN_CORE, f"{named(path)} must not import {module}"
        assert module != "goqueue.environment", f"{named(path)} must not see the machine"
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_only_the_disk_the_environment_and_the_command_line_reach_the_system(path: Path) -> None:
    if named(path) in MAY_REACH_THE_SYSTEM or path.relative_to(ROOT).parts[0] == "cli":
        return
    for module in imports_of(path):
        assert module.partition(".")[0] not in REACHES_THE_SYSTEM, f"{named(path)} must not import {module}"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_file_ends_at_450_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("path", FILES, ids=named)
def test_only_the_progress_bar_draws(path: Path) -> None:
    """rich takes megabytes and a tenth of a second: a broker, and commands without a bar, do without."""
    draws = any(module.partition(".")[0] == "rich" for module in imports_of(path))
    assert not draws or named(path) == "cli/program/progress.py"

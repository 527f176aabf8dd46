"""The two trees, each a folder with the packages goqueue and benchmarks, and the environments that they run in."""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.commandline import Size
from benchmarks.figures import Figure

RUN_SECONDS_MAX = 3_600.0
STOP_SECONDS_MAX = 60.0
ENVIRONMENTS_MAX = 3
"""So many environments stay for later runs, those used last."""
STAMP = "complete"
GOALS_MISSED = 1


class Failed(Exception):
    """A comparison that cannot be made; the text says why and what to do."""


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


# Trees


def copy_present(root: Path, folder: Path) -> Path:
    """A copy, so that edits during the comparison change nothing."""
    folder.mkdir()
    for package in ("goqueue", "benchmarks"):
        shutil.copytree(root / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "constraints.txt"):
        shutil.copy(root / file, folder)
    return folder


@contextmanager
def worktree(root: Path, commit: str, folder: Path) -> Iterator[Path]:
    git(root, "worktree", "add", "--detach", str(folder), commit)
    try:
        yield folder
    finally:
        git(root, "worktree", "remove", "--force", str(folder))


def take_benchmarks(source: Path, target: Path) -> None:
    """Both trees run the same benchmark program then; only the client and the broker differ."""
    shutil.rmtree(target / "benchmarks", ignore_errors=True)
    shutil.copytree(source / "benchmarks", target / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))


# Environments


def requirements(tree: Path, extras: Sequence[str]) -> list[str]:
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    optional = project.get("optional-dependencies", {})
    return [*project.get("dependencies", []), *(each for extra in extras for each in optional.get(extra, []))]


def fingerprint(tree: Path, extras: Sequence[str]) -> str:
    """Equal for two trees exactly when they have the same dependencies under the same Python."""
    parts = [sys.version, *requirements(tree, extras), (tree / "constraints.txt").read_text()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def environment(tree: Path, home: Path, extras: Sequence[str]) -> Path:
    """The Python of an environment with the tree's dependencies, without goqueue itself. Made once, then reused."""
    folder = home / fingerprint(tree, extras)
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / STAMP).exists():
            _make_environment(folder, tree, extras)
        (folder / STAMP).touch()
        _forget_old(home)
    return folder / "bin" / "python"


def _make_environment(folder: Path, tree: Path, extras: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", "constraints.txt"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*install, *requirements(tree, extras)]):
        done = subprocess.run(command, cwd=tree, stdout=sys.stderr, check=False)
        if done.returncode:
            raise Failed(f"no environment for {tree.name}: {command[2]} failed; its own lines above say why")
    (folder / STAMP).touch()


def _forget_old(home: Path) -> None:
    stamps = sorted(home.glob(f"*/{STAMP}"), key=lambda stamp: stamp.stat().st_mtime)
    for stamp in stamps[:-ENVIRONMENTS_MAX]:
        shutil.rmtree(stamp.parent)


# Runs


def run_benchmark(python: Path, tree: Path, name: str, size: Size) -> list[Figure]:
    """Missed goals are not asked about here: short sizes miss some."""
    flags = [] if size == "full" else [f"--{size}"]
    code, said, errors = _ended([str(python), "-m", f"benchmarks.{name}", "-o", "json", *flags], python, tree)
    if code not in (0, GOALS_MISSED):
        raise Failed(f"benchmarks.{name} fails in the {tree.name} tree:\n{errors.strip()[-2_000:]}")
    try:
        return [Figure(**each) for each in json.loads(said)]
    except (ValueError, TypeError) as error:
        raise Failed(f"benchmarks.{name} of the {tree.name} tree prints no list of figures: {error}") from error


def _ended(command: list[str], python: Path, tree: Path) -> tuple[int, str, str]:
    """In a session of its own: Ctrl-C reaches the benchmark once, through us, and it stops its broker in order."""
    environ = {**os.environ, "PYTHONPATH": str(tree), "PYSPARK_PYTHON": str(python)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles all of goqueue again
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=tree, env=environ, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    try:
        said, errors = process.communicate(timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        _stop(process)
        raise Failed(f"{' '.join(command[1:])} did not end within {RUN_SECONDS_MAX:,.0f} s") from error
    except BaseException:
        _stop(process)
        raise
    return process.returncode, said, errors


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()

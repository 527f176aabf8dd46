"""deploy/Dockerfile against the package. No engine runs here: what it names is looked up, and its probe is run."""

import json
import os
import re
import shlex
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from random import Random

import trio

from goqueue.cli import main
from goqueue.environment import Environment, SystemClock, TcpNetwork
from goqueue.http.ports import serving
from goqueue.http.routes import ROUTES
from goqueue.net.transport.origin import Address
from goqueue.settings import PREFIX, Settings
from goqueue.storage.disk.disk import RealDisk

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """Without comments, each on one line."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in joined.splitlines() if line.strip()]


def last(name: str) -> str:
    return [text for kind, text in instructions() if kind == name][-1]


def environment() -> dict[str, str]:
    return dict(each.split("=", 1) for each in shlex.split(last("ENV")))


def probe() -> list[str]:
    found: list[str] = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    return found


def is_sent(path: str) -> bool:
    """Whether the context of the build has it: the last pattern of .dockerignore that fits decides."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    fitting = [each for each in patterns if fnmatch(path.split("/", maxsplit=1)[0], each.removeprefix("!"))]
    return not fitting or fitting[-1].startswith("!")


def test_everything_that_is_copied_is_there_and_is_sent_to_the_engine() -> None:
    copied = [
        each
        for kind, text in instructions()
        if kind == "COPY" and "--from" not in text
        for each in text.split()[:-1]
    ]
    assert "pyproject.toml" in copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert is_sent(name), name
    assert not is_sent("tests")
    assert not is_sent("goqueue-data")


def test_the_installation_gets_all_that_the_project_names() -> None:
    copied = " ".join(text for kind, text in instructions() if kind == "COPY")
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())
    modules = [f"{name}.py" for name in built["tool"]["setuptools"]["py-modules"]]
    for name in [PROJECT["readme"], *modules, "goqueue", "constraints.txt"]:
        assert name in copied.split(), name


def test_it_runs_a_command_that_there_is_with_settings_that_there_are() -> None:
    [program], [command] = json.loads(last("ENTRYPOINT")), json.loads(last("CMD"))
    assert program in PROJECT["scripts"]
    assert command in main.list_commands(main.make_context("goqueue", ["--help"], resilient_parsing=True))
    given = {
        name.removeprefix(PREFIX).lower(): value for name, value in environment().items() if name.startswith(PREFIX)
    }
    assert set(given) <= set(Settings.model_fields)
    assert Settings.model_validate(given).data == last("VOLUME")


def test_it_runs_a_python_that_the_project_takes() -> None:
    images = {text.split()[0] for kind, text in instructions() if kind == "FROM"}
    assert images == {"python:" + PROJECT["requires-python"].removeprefix(">=") + "-slim"}


def test_it_is_not_root() -> None:
    assert int(last("USER")) >= 1000
    kinds = [kind for kind, _ in instructions()]
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")


def test_the_probe_asks_a_route_of_the_broker_at_its_address() -> None:
    address, path = re.search(r"http://([^/]+)(/\w+)", probe()[-1]).groups()  # type: ignore[union-attr]
    assert address == Settings.model_fields["http"].default
    assert ("GET", path) in {(route.method, route.path) for route in ROUTES if route.is_open}


async def test_the_probe_is_glad_of_a_broker_that_serves_and_of_no_other(tmp_path: Path) -> None:
    environment = Environment(RealDisk(), TcpNetwork(), SystemClock(), Random(0))
    anywhere = Address("127.0.0.1", 0)
    async with serving(environment, str(tmp_path / "data"), listen=anywhere, http=anywhere) as ports:
        port = ports.http.port
        assert await answered(port) == 0
        assert await answered(port, path="/readyz/no") != 0
    assert await answered(port) != 0


async def answered(port: int | None, path: str = "/readyz") -> int:
    program, *arguments = probe()
    assert program == "python"
    default = Settings.model_fields["http"].default
    arguments[-1] = arguments[-1].replace(default, f"127.0.0.1:{port}").replace("/readyz", path)
    command = [sys.executable, *arguments]
    without_proxies = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = await trio.run_process(command, check=False, capture_stderr=True, env=without_proxies)
    return done.returncode

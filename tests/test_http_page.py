"""docs/http-reference.md is what the table of routes says, and the examples of both pages about HTTP run."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.http.routes import ROUTES
from goqueue.http.routes.pages import curl
from goqueue.http.routing.route import Route
from tests.httppage import PAGE, page

GUIDE = PAGE.with_name("http.md")
FIRST = ("POST /topics", "POST /topics/{topic}/messages", "POST /groups/{group}/join")
"""The other examples ask for what these make."""
ADDRESS = "http://127.0.0.1:7711"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The HTTP address of a broker."""
    command = [sys.executable, "-m", "goqueue", "serve", "-o", "json"]
    options = ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["http"]
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def ask(command: str) -> tuple[int, str]:
    """By curl itself where there is one, else by a program that knows the options of the examples."""
    program, *arguments = shlex.split(command)
    assert program == "curl"
    tool = ["curl", "-sS"] if shutil.which("curl") else [sys.executable, "-m", "tests.http.curl"]
    done = subprocess.run(
        [*tool, "-w", "\n%{http_code}", *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    answer, _, status = done.stdout.rpartition("\n")
    return int(status), answer


def with_example() -> list[Route]:
    by_name = {f"{route.method} {route.path}": route for route in ROUTES if route.example is not None}
    return [by_name[each] for each in FIRST] + [route for name, route in by_name.items() if name not in FIRST]


def test_the_reference_is_what_the_table_of_routes_says() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m tests.httppage"


def with_a_dead_letter(address: str) -> None:
    """For those examples that decide about one."""
    kind = "-H 'Content-Type: application/json'"
    _, polled = ask(f"curl '{address}/groups/billing/poll?member_id=worker-1'")
    receipt = json.loads(polled)["messages"][0]["receipt"]
    body = json.dumps({"receipts": [receipt]})
    assert ask(f"curl {kind} -d '{body}' {address}/messages/reject")[0] == 200
    for _ in range(100):
        _, letters = ask(f"curl {address}/topics/orders/dead-letters")
        if json.loads(letters)["letters"]:
            return
    raise AssertionError("the dead letter does not come")


def test_every_example_of_the_reference_runs(address: str) -> None:
    for place, route in enumerate(with_example()):
        if place == len(FIRST):
            with_a_dead_letter(address)
        status, answer = ask(curl(route).replace("$URL", address))
        assert status == route.status, f"{curl(route)}: {status} {answer}"
        if status != 204 and route.answer is not None:
            json.loads(answer)


def test_the_examples_of_the_guide_run_one_after_the_other(address: str) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    commands = [each for block in blocks for each in block.replace("\\\n", " ").splitlines() if each]
    assert len(commands) > 4
    receipt = ""
    for command in commands:
        status, answer = ask(command.replace(ADDRESS, address).replace("RECEIPT", receipt))
        assert status < 300, f"{command}: {status} {answer}"
        if "/poll?" in command:
            receipt = json.loads(answer)["messages"][0]["receipt"]


def test_the_program_in_the_place_of_curl_does_what_curl_does(address: str) -> None:
    for route in with_example()[:3]:
        command = [*shlex.split(curl(route).replace("$URL", address))[1:], "-w", "\n%{http_code}"]
        done = subprocess.run(
            [sys.executable, "-m", "tests.http.curl", *command], capture_output=True, text=True, check=True
        )
        assert done.stdout.rpartition("\n")[2] == str(route.status), done

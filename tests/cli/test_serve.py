"""`goqueue serve` as a process: what it says, how it ends, and what it leaves behind."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from click.testing import CliRunner

import goqueue
from goqueue.cli import main
from goqueue.errors import DataDirectoryLocked
from goqueue.storage.disk.disk import RealDisk
from tests.cli.directories import everything_in
from tests.process.brokers import broker_on_loopback
from tests.process.children import ROOT, Child, child

SECONDS_MAX = 20


def arguments(data: Path, listen: str = "127.0.0.1:0", output: str = "json") -> list[str]:
    return ["serve", "--data", str(data), "--listen", listen, "--http", "127.0.0.1:0", "-o", output]


async def announced(process: Child) -> dict[str, str]:
    with trio.fail_after(SECONDS_MAX):
        await process.listen(1)
    line: dict[str, str] = json.loads(process.lines[0])
    return line


async def ended_by(process: Child, number: signal.Signals) -> int:
    process.process.send_signal(number)
    with trio.fail_after(SECONDS_MAX):
        return await process.end()


def check_not_locked(data: Path) -> None:
    RealDisk().lock(f"{data}/lock").release()


async def healthz(address: str) -> bytes:
    parts = urlsplit(address)
    assert parts.hostname is not None
    assert parts.port is not None
    with trio.fail_after(SECONDS_MAX):
        async with await trio.open_tcp_stream(parts.hostname, parts.port) as stream:
            await stream.send_all(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            return b"".join([bytes(chunk) async for chunk in stream])


async def test_it_says_one_line_serves_both_ports_and_ends_in_order(tmp_path: Path) -> None:
    """G15"""
    async with child("goqueue", *arguments(tmp_path / "data")) as process:
        ports = await announced(process)
        assert list(ports) == ["websocket", "http"]
        websocket, http = urlsplit(ports["websocket"]), urlsplit(ports["http"])
        assert ports["websocket"] == f"ws://127.0.0.1:{websocket.port}"
        assert ports["http"] == f"http://127.0.0.1:{http.port}"
        with pytest.raises(DataDirectoryLocked, match=str(process.process.pid)):
            check_not_locked(tmp_path / "data")
        assert (await healthz(ports["http"])).startswith(b"HTTP/1.1 200 OK\r\n")
        async with goqueue.connect(ports["websocket"]) as client:
            assert await client.topics() == []
        assert await ended_by(process, signal.SIGTERM) == 0
        assert len(process.lines) == 1
    check_not_locked(tmp_path / "data")


def pages_asked_for(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


async def test_buffers_for_reading_are_used_again(tmp_path: Path) -> None:
    """Pages that go back to the system with each buffer come anew with the next, at more than the reading costs."""
    values = [bytes(10_000)] * 800
    async with child("goqueue", *arguments(tmp_path / "data")) as process:
        ports = await announced(process)
        async with goqueue.connect(ports["websocket"]) as client:
            await client.create_topic("large", partitions=1)
            async with client.producer("large") as producer:
                await producer.send_many(values)
            counts = list[int]()
            for _ in range(3):
                before = pages_asked_for(process.process.pid)
                async with client.read("large", end="latest") as reader:
                    assert len([message async for message in reader]) == len(values)
                counts.append(pages_asked_for(process.process.pid) - before)
        assert await ended_by(process, signal.SIGTERM) == 0
    assert counts[-1] < 8_000_000 // 4096 // 2, "less than half of the pages that were read"


def test_a_second_broker_on_the_same_directory_is_told_who_has_it(tmp_path: Path) -> None:
    held = RealDisk().lock(f"{tmp_path}/lock")
    result = CliRunner().invoke(main, arguments(tmp_path))
    held.release()
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert str(os.getpid()) in result.stderr


@pytest.fixture
def taken() -> Iterator[str]:
    """A port that somebody else listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield f"127.0.0.1:{held.getsockname()[1]}"


def test_a_taken_port_fails_the_start_and_leaves_nothing_locked(tmp_path: Path, taken: str) -> None:
    result = CliRunner().invoke(main, arguments(tmp_path, listen=taken))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    port = taken.rpartition(":")[2]
    assert f"cannot listen on {taken}: address already in use" in result.stderr
    assert f"stop the program that has port {port}" in result.stderr
    assert "choose another port with --listen" in result.stderr
    check_not_locked(tmp_path)
    trio.run(_serve_once, tmp_path)


async def _serve_once(data: Path) -> None:
    async with broker_on_loopback(RealDisk(), str(data)) as url, goqueue.connect(url) as client:
        assert await client.topics() == []


async def test_a_killed_broker_starts_again_on_the_same_port_with_all_it_confirmed(tmp_path: Path) -> None:
    """G1"""
    async with child("goqueue", *arguments(tmp_path)) as process:
        url = (await announced(process))["websocket"]
        async with goqueue.connect(url) as client:
            await client.create_topic("orders", partitions=1)
            await client.publish("orders", b"confirmed")
            # The client is still connected: its side of the port lingers when the broker dies.
            assert await ended_by(process, signal.SIGKILL) == -signal.SIGKILL
    async with child("goqueue", *arguments(tmp_path, listen=url.removeprefix("ws://"), output="table")) as process:
        with trio.fail_after(SECONDS_MAX):
            await process.listen(1)
        assert process.lines[0].startswith(f"goqueue listens on {url} and http://127.0.0.1:")
        async with goqueue.connect(url) as client:
            assert [each.value async for each in client.read("orders", end="latest")] == [b"confirmed"]


@pytest.mark.parametrize("flag", ["--listen", "--http"])
def test_listening_beyond_loopback_is_refused_before_anything_is_made(tmp_path: Path, flag: str) -> None:
    result = CliRunner().invoke(main, ["serve", "--data", str(tmp_path / "data"), flag, "0.0.0.0:0"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{flag} cannot be used: 0.0.0.0 is beyond loopback" in result.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("flags", "environment"), [(["--node", "two"], {}), ([], {"GOQUEUE_NODE": "two"})])
def test_a_directory_of_another_node_is_refused_and_left_as_it_is(
    data: Path, flags: list[str], environment: dict[str, str]
) -> None:
    before = everything_in(data)
    command = [sys.executable, "-m", "goqueue", *arguments(data), *flags]
    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert f"{data} belongs to node one, not to two" in result.stderr
    assert "--data" in result.stderr
    assert everything_in(data) == before


@pytest.mark.parametrize("given", [[], ["--node", "one"]])
async def test_a_directory_keeps_the_name_of_its_node(data: Path, given: list[str]) -> None:
    async with child("goqueue", *arguments(data), *given) as process:
        assert await announced(process)
        assert await ended_by(process, signal.SIGTERM) == 0
    assert json.loads((data / "meta.json").read_text())["node"] == "one"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"node": ["two"]}', "[" * 50_000])
async def test_a_damaged_meta_file_is_the_broker_s_business_whatever_the_node(data: Path, content: str) -> None:
    """G13"""
    (data / "meta.json").write_text(content)
    async with child("goqueue", *arguments(data), "--node", "two") as process:
        assert await announced(process)
    assert any(path.endswith(".damaged") for path in everything_in(data))


async def publishes(url: str) -> bool:
    async with goqueue.connect(url) as client:
        await client.create_topic("orders", partitions=1)
        try:
            async with client.producer("orders", delivery_timeout=2) as producer:
                await producer.send(b"one")
        except goqueue.DeliveryTimeout:
            return False
        return True


@pytest.mark.parametrize(("least", "takes"), [("0", True), ("1000000000GiB", False)])
async def test_how_much_of_the_disk_stays_free_can_be_said(tmp_path: Path, least: str, takes: bool) -> None:
    async with child("goqueue", *arguments(tmp_path), "--disk-free-min", least) as process:
        assert await publishes((await announced(process))["websocket"]) == takes


# The log


def record_of(line: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(line)
    assert list(fields)[:4] == ["time", "level", "logger", "message"]
    return fields


def lines_of(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


async def one_run(data: Path, log: Path, *more: str, number: signal.Signals = signal.SIGTERM) -> list[str]:
    """Start a broker, make a topic if there is none, and end it; the lines of its log."""
    before = len(lines_of(log))
    async with child("goqueue", *arguments(data), *more, log=log) as process:
        async with goqueue.connect((await announced(process))["websocket"]) as client:
            if not await client.topics():
                await client.create_topic("orders", partitions=2)
            await client.publish("orders", b"one")
        assert await ended_by(process, number) == 0
        assert len(process.lines) == 1
    return lines_of(log)[before:]


async def test_the_log_begins_with_what_was_found_and_ends_with_why_it_ended(tmp_path: Path) -> None:
    first, new, *_, last = await one_run(tmp_path / "data", tmp_path / "log")
    assert f"goqueue {goqueue.__version__}, node node-1, data directory {tmp_path}/data (new), 0 topics" in first
    assert re.search(
        r" INFO    goqueue.serve .* ready after \d+\.\d{3} s: 0 segments, .* no torn tail; no damage$", first
    )
    assert "data is a new data directory" in new
    assert re.search(r"  stopped by SIGTERM after \d+\.\d{3} s; everything that was accepted is on disk$", last)
    first, *_, last = await one_run(tmp_path / "data", tmp_path / "log", number=signal.SIGINT)
    assert "(existing), 1 topic, 2 partitions, ready after" in first
    assert "stopped by SIGINT" in last


async def test_a_log_of_json_has_facts_and_the_audit(tmp_path: Path) -> None:
    lines = await one_run(tmp_path / "data", tmp_path / "log", "--log-format", "json")
    first, *others = map(record_of, lines)
    facts = {"node": "node-1", "data": f"{tmp_path}/data", "is_new": True, "topics": 0, "torn_tails": 0}
    assert first["facts"].items() >= facts.items()
    [audit] = [each["audit"] for each in others if each["logger"] == "goqueue.audit"]
    assert (audit["request"], audit["resource"], audit["outcome"]) == ("create_topic", "topic:orders", "done")
    assert others[-1]["facts"]["reason"] == "SIGTERM"


async def test_a_torn_tail_is_counted_in_the_first_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with child("goqueue", *arguments(data)) as process:
        async with goqueue.connect((await announced(process))["websocket"]) as client:
            await client.create_topic("orders", partitions=1)
            await client.publish("orders", b"one")
        assert await ended_by(process, signal.SIGKILL) == -signal.SIGKILL
    with (data / "logs/orders/0/00000000000000000000.log").open("ab") as file:
        file.write(b"half a batch")
    lines = await one_run(data, tmp_path / "log")
    [first] = [line for line in lines if "ready after" in line]
    assert "1 segment, " in first
    assert "1 torn tail cut off; no damage" in first


@pytest.mark.parametrize("level", ["warning", "error"])
async def test_a_higher_level_says_less(tmp_path: Path, level: str) -> None:
    said = await one_run(tmp_path / "data", tmp_path / "log", "--log-level", level)
    assert [line for line in said if "the event loop stood still" not in line] == []


async def test_sighup_ends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with child("goqueue", *arguments(tmp_path / "data"), log=log) as process:
        ports = await announced(process)
        process.process.send_signal(signal.SIGHUP)
        with trio.fail_after(SECONDS_MAX):
            while not any("SIGHUP: there is nothing to read again" in line for line in lines_of(log)):
                assert (await healthz(ports["http"])).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await ended_by(process, signal.SIGTERM) == 0


def test_a_directory_of_something_else_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("pass")
    for log_format in ("text", "json"):
        result = CliRunner().invoke(main, [*arguments(tmp_path), "--log-format", log_format])
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
        assert "name a new or an empty directory with --data" in result.stderr
    assert record_of(result.stderr)["level"] == "critical"
    assert [path.name for path in tmp_path.iterdir()] == ["shop.py"]

"""`goqueue top` against a broker on loopback, and as a program in a terminal."""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

import goqueue
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback
from tests.process.children import ROOT

SECONDS_MAX = 20


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        async with goqueue.connect(url) as client:
            await client.create_topic("orders", partitions=2)
            await client.publish("orders", b"one", partition=0)
            async with client.consumer("orders", group="billing") as consumer:
                assert len(await consumer.receive(max_messages=1)) == 1
        yield Shell(url)


async def test_one_look_for_people_and_for_programs(shell: Shell) -> None:
    page = (await shell("top", "--once")).stdout
    assert "messages/s  published 0" in page
    assert "\x1b" not in page
    [found] = await shell.json("top", "--once")
    assert found["seconds"] > 0.5
    assert found["rates"]["published"] == 0
    assert [(topic["name"], topic["partitions"], topic["end"]) for topic in found["topics"]] == [("orders", 2, 1)]
    assert [(group["name"], group["lag"]) for group in found["groups"]] == [("billing", 1)]
    assert found["status"] == "ready"


async def test_without_a_terminal_it_says_what_to_do(shell: Shell) -> None:
    refused = await shell("top")
    assert (refused.exit_code, "give --once" in refused.stderr) == (2, True)
    assert (await shell("top", "-o", "json")).exit_code == 2


@pytest.mark.parametrize(("way_out", "code"), [("q", 0), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_in_a_terminal_it_is_live_until_somebody_leaves(
    shell: Shell, way_out: str | signal.Signals, code: int
) -> None:
    person, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 15, 60, 0, 0))
    before = termios.tcgetattr(program)
    command = [sys.executable, "-m", "goqueue", "top", "--url", shell.url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    process = await trio.lowlevel.open_process(
        command, stdin=program, stdout=program, stderr=program, env=environment
    )
    try:
        with trio.fail_after(SECONDS_MAX):
            await seen(person, b"orders")
            if isinstance(way_out, str):
                os.write(person, way_out.encode())
            else:
                process.send_signal(way_out)
            await seen(person, b"\x1b[?1049l")
            assert await process.wait() == code
        assert termios.tcgetattr(program) == before
    finally:
        process.kill()
        await process.wait()
        os.close(person)
        os.close(program)


async def seen(person: int, wanted: bytes) -> None:
    shown = b""
    while wanted not in shown:
        await trio.lowlevel.wait_readable(person)
        shown += os.read(person, 65_536)

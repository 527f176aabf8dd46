"""`goqueue consume`, against a broker on loopback."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

import goqueue
from goqueue.cli import main
from goqueue.cli.messages.consume import WantedMessages, selected
from goqueue.cli.program.asking import BrokerAddress, ask
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback

LIFE_SECONDS_MAX = 20


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        async with goqueue.connect(url) as client:
            await client.create_topic("orders")
            await client.create_topic("lines", partitions=1)
            for number in range(5):
                await client.publish("lines", b"line %d" % number)
        yield Shell(url)


async def test_values_come_line_by_line_to_the_end_that_is_there(shell: Shell) -> None:
    result = await shell("consume", "lines")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "".join(f"line {number}\n" for number in range(5))


async def test_an_empty_topic_ends_at_once(shell: Shell) -> None:
    result = await shell("consume", "orders")
    assert (result.exit_code, result.output) == (0, "")


SELECTIONS: list[tuple[str, list[int]]] = [
    ("--from earliest --count 2", [0, 1]),
    ("--from 3", [3, 4]),
    ("--from 3 --partition 0 --count 1", [3]),
    ("--from 5", []),
    ("--from latest", []),
    ("--from -2", [3, 4]),
    ("--from -2 --count 1", [3]),
    ("--from -9", [0, 1, 2, 3, 4]),
    ("--from -0", []),
    ("--from -3 --partition 0", [2, 3, 4]),
    ("--from -2 --follow --count 2", [3, 4]),
    ("--from-time 1h", [0, 1, 2, 3, 4]),
    ("--to-time 1h", []),
    ("--from-time 1d --to-time 0s", [0, 1, 2, 3, 4]),
    ("--count 9", [0, 1, 2, 3, 4]),
    ("--follow --count 5", [0, 1, 2, 3, 4]),
    ("--from-time 2020-01-01 --count 1", [0]),
    ("--to-time 2020-01-01T00:00:00+02:00", []),
    ("--from-time 9000000000", []),
]


async def test_where_to_begin_and_to_end_can_be_said(shell: Shell) -> None:
    for options, numbers in SELECTIONS:
        result = await shell("consume", "lines", *options.split())
        assert result.exit_code == 0, (options, result.stderr)
        assert result.stdout.splitlines() == [f"line {number}" for number in numbers], options


async def test_a_span_of_time_has_its_begin_and_not_its_end(shell: Shell) -> None:
    times = [each["timestamp"] for each in await shell.json("consume", "lines")]
    assert len(set(times)) == 5
    found = await shell.json("consume", "lines", "--from-time", repr(times[1]), "--to-time", repr(times[3]))
    assert [each["offset"] for each in found] == [1, 2]


async def test_the_last_messages_of_all_partitions_are_the_newest_in_order_of_time(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        for number in range(9):
            await client.publish("orders", b"%d" % number, partition=0 if number < 5 else number % 3)
    result = await shell("consume", "orders", "--from", "-6")
    assert result.stdout.split() == ["3", "4", "5", "6", "7", "8"]


async def test_hidden_records_do_not_count_among_the_last(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        for _ in range(30):
            await client.publish("lines", b"later", delay=3_600)
    result = await shell("consume", "lines", "--from", "-3")
    assert result.stdout.splitlines() == ["line 2", "line 3", "line 4"]


async def test_behind_the_last_messages_come_the_next_ones(shell: Shell) -> None:
    wanted = WantedMessages(
        topic="orders", group=None, mode=None, lanes=None, assignor=None, rebalance=None, partition=None,
        start="last:1", from_time=None, to_time=None, count=None, follow=True, skip_damaged=False,
    )  # fmt: skip
    async with goqueue.connect(shell.url) as client, aclosing(selected(client, wanted)) as messages:
        await client.publish("orders", b"before", partition=1)
        values = [(await anext(messages)).value]
        for partition in range(3):
            await client.publish("orders", b"after", partition=partition)
        with trio.fail_after(LIFE_SECONDS_MAX):
            values += [(await anext(messages)).value for _ in range(3)]
    assert values == [b"before", b"after", b"after", b"after"]


async def test_an_object_has_all_that_a_message_has(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        headers = {"text": b"a", "bytes": b"\xff"}
        await client.publish("orders", b"\xff", key=b"k", headers=headers, priority="low", partition=1)
        await client.publish("orders", "grüße".encode(), partition=2)
    first, second = await shell.json("consume", "orders")
    assert isinstance(first.pop("timestamp"), float)
    assert first == {
        "topic": "orders",
        "partition": 1,
        "offset": 0,
        "key": "k",
        "value_base64": "/w==",
        "headers": {"text": "a", "bytes": {"base64": "/w=="}},
        "priority": "low",
    }
    assert (second["key"], second["value"], second["headers"], second["priority"]) == (None, "grüße", {}, "normal")


async def test_what_is_consumed_can_be_produced_again(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        await client.publish("orders", b"\x00\xff", key=b"\xfe", headers={"h": b"\xfd"}, priority=0)
    consumed = await shell("consume", "orders", "--format", "ndjson")
    assert (await shell("produce", "orders", "--format", "ndjson", stdin=consumed.stdout_bytes)).exit_code == 0
    first, again = await shell.json("consume", "orders")
    assert {**first, "offset": 1, "timestamp": again["timestamp"]} == again


async def test_what_the_broker_refuses_is_one_sentence_and_exit_code_1(shell: Shell) -> None:
    for arguments in (["nothing"], ["orders", "--partition", "3"]):
        result = await shell("consume", *arguments)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)


async def test_an_offset_of_several_partitions_says_nothing(shell: Shell) -> None:
    result = await shell("consume", "orders", "--from", "3")
    assert result.exit_code == 2
    assert "give --partition, 0 to 2" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--from", "soon"],
        ["--from", str(2**63)],
        ["--from-time", "yesterday"],
        ["--from-time", "1y"],
        ["--from-time", "-1h"],
        ["--from", "-"],
        ["--from", "-10001"],
        ["--from", "-2", "--to-time", "1h"],
        ["--from-time", "nan"],
        ["--from-time", "1e300"],
        ["--from", "1", "--from-time", "1"],
        ["--follow", "--to-time", "1"],
        ["--count", "0"],
    ],
)
def test_misuse_is_exit_code_2_before_anybody_is_asked(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["consume", "orders", *arguments, "--url", "ws://127.0.0.1:1"])
    assert (result.exit_code, result.stdout) == (2, "")


@asynccontextmanager
async def following(shell: Shell, *arguments: str) -> AsyncIterator[trio.Process]:
    command = [sys.executable, "-m", "goqueue", "consume", "lines", "--follow", "--url", shell.url, *arguments]
    # As people have it: with a buffer, which hides lines that nobody flushed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = await trio.lowlevel.open_process(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    try:
        with trio.fail_after(LIFE_SECONDS_MAX):
            yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def lines_from(process: trio.Process, count: int) -> list[bytes]:
    assert process.stdout is not None
    heard = b""
    while heard.count(b"\n") < count:
        chunk = await process.stdout.receive_some()
        assert chunk, f"it ended after {heard!r}"
        heard += chunk
    return heard.splitlines()


async def last_words(process: trio.Process) -> tuple[int, bytes]:
    assert process.stderr is not None
    said = b"".join([chunk async for chunk in process.stderr])
    return await process.wait(), said


async def test_following_shows_what_comes_until_ctrl_c_ends_it_quietly(shell: Shell) -> None:
    async with following(shell, "-o", "json") as process:
        assert len(await lines_from(process, 5)) == 5
        async with goqueue.connect(shell.url) as client:
            await client.publish("lines", b"news")
        [line] = await lines_from(process, 1)
        assert json.loads(line)["value"] == "news"
        process.send_signal(signal.SIGINT)
        assert await last_words(process) == (130, b"")


async def test_a_closed_pipe_ends_it_quietly(shell: Shell) -> None:
    async with following(shell) as process:
        await lines_from(process, 5)
        assert process.stdout is not None
        await process.stdout.aclose()
        async with goqueue.connect(shell.url) as client:
            await client.publish("lines", b"unheard")
        assert await last_words(process) == (141, b"")


async def test_ctrl_c_is_an_interruption_whatever_else_it_broke(shell: Shell) -> None:
    async def work(_: goqueue.Client) -> None:
        raise BaseExceptionGroup("two tasks", [KeyboardInterrupt(), ValueError()])

    with pytest.raises(SystemExit) as ended:
        await trio.to_thread.run_sync(ask, BrokerAddress(shell.url, 5.0), work)
    assert ended.value.code == 130

"""`goqueue topic`, against a broker on loopback."""

import json
import os
import pty
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

import goqueue
from goqueue.cli import main
from goqueue.cli.program.sizes import size_text
from goqueue.storage.disk.disk import RealDisk
from tests.process.brokers import broker_on_loopback


@dataclass(frozen=True)
class Shell:
    """Commands, typed where GOQUEUE_URL names a broker."""

    url: str

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Result:
        with trio.fail_after(20):
            return await trio.to_thread.run_sync(self._invoke, arguments, stdin)

    def _invoke(self, arguments: tuple[str, ...], stdin: bytes) -> Result:
        return CliRunner().invoke(main, arguments, input=stdin, env={"GOQUEUE_URL": self.url})

    async def json(self, *arguments: str, stdin: bytes = b"") -> list[Any]:
        """What it printed, line for line."""
        result = await self(*arguments, "-o", "json", stdin=stdin)
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        yield Shell(url)


async def test_a_topic_is_made_with_three_partitions_and_described(shell: Shell) -> None:
    result = await shell("topic", "create", "orders")
    assert (result.exit_code, result.stdout) == (0, "orders was created with 3 partitions\n")
    [described] = await shell.json("topic", "describe", "orders")
    empty = {"start": 0, "end": 0, "messages": 0, "size": 0}
    assert described["partitions"] == [{"partition": number, **empty} for number in range(3)]
    assert described["config"]["retention_hours"] == 168
    table = (await shell("topic", "describe", "orders")).stdout
    assert described["uuid"] in table
    assert "max_bytes           unlimited\n" in table


async def test_settings_are_numbers_where_numbers_are_wanted_and_default_resets(shell: Shell) -> None:
    settings = ["retention_hours=1.5", "segment_bytes=2048", "cleanup=compact", "max_bytes=unlimited"]
    given = [word for setting in settings for word in ("--config", setting)]
    [made] = await shell.json(
        "topic", "create", "orders", "--partitions", "1", *given, "--config", "overflow=default"
    )
    assert len(made["partitions"]) == 1
    assert [made["config"][setting.partition("=")[0]] for setting in settings] == [
        1.5,
        2048,
        "compact",
        "unlimited",
    ]
    [altered] = await shell.json("topic", "alter", "orders", "--config", "retention_hours=default")
    assert (altered["config"]["retention_hours"], altered["config"]["segment_bytes"]) == (168, 2048)


async def test_every_bad_setting_is_named_and_nothing_is_made(shell: Shell) -> None:
    bad = ["--config", "retention_hours=soon", "--config", f"max_bytes={10**30}", "--config", "colour=red"]
    result = await shell("topic", "create", "orders", *bad)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    for word in ("retention_hours is 'soon'", "max_bytes", "'colour' is not a setting"):
        assert word in result.stderr
    assert await shell.json("topic", "list") == []


async def test_partitions_are_added_beside_settings_and_never_taken_away(shell: Shell) -> None:
    await shell("topic", "create", "orders")
    [altered] = await shell.json("topic", "alter", "orders", "--partitions", "5", "--config", "cleanup=compact")
    assert (len(altered["partitions"]), altered["config"]["cleanup"]) == (5, "compact")
    result = await shell("topic", "alter", "orders", "--partitions", "2", "--config", "cleanup=delete")
    assert result.exit_code == 1
    assert "the settings were altered, the number of partitions was not" in result.stderr


async def test_topics_are_listed_by_name_with_what_they_hold(shell: Shell) -> None:
    for name in ("zebras", "apples"):
        await shell("topic", "create", name, "--partitions", "2")
    async with goqueue.connect(shell.url) as client:
        await client.publish("zebras", b"stripes")
    rows = [line.split() for line in (await shell("topic", "list")).stdout.splitlines()]
    assert [row[:4] for row in rows] == [
        ["TOPIC", "PARTITIONS", "OFFSETS", "MESSAGES"],
        ["apples", "2", "0", "0"],
        ["zebras", "2", "1", "1"],
    ]
    assert [each["name"] for each in await shell.json("topic", "list")] == ["apples", "zebras"]


async def test_a_description_says_who_holds_segments_that_acks_would_remove(shell: Shell) -> None:
    settings = ["--config", "retention=acked", "--config", "segment_bytes=1100"]
    await shell("topic", "create", "orders", "--partitions", "1", *settings)
    async with goqueue.connect(shell.url) as client:
        for _ in range(5):
            await client.publish("orders", bytes(400))
        text = (await shell("topic", "describe", "orders")).stdout
        assert "no group reads it" in text
        async with client.consumer("orders", group="billing") as consumer:
            await consumer.ack(await consumer.receive(max_messages=3))
    [described] = await shell.json("topic", "describe", "orders")
    [partition] = described["partitions"]
    size = partition["held"]["size"]
    assert partition["held"] == {
        "group": "billing",
        "committed": 3,
        "messages": 1,
        "first": 2,
        "last": 3,
        "segments": 1,
        "size": size,
    }
    lines = [line.split() for line in (await shell("topic", "describe", "orders")).stdout.splitlines()]
    assert ["0", "2-3", "billing", "1", "3", "1", size_text(size)] in lines


async def test_purging_empties_a_topic_and_deleting_removes_it(shell: Shell) -> None:
    await shell("topic", "create", "orders", "--partitions", "1")
    async with goqueue.connect(shell.url) as client:
        await client.publish("orders", b"one")
    assert await shell.json("topic", "purge", "orders", "--yes") == [{"topic": "orders", "purged": True}]
    [described] = await shell.json("topic", "describe", "orders")
    assert described["partitions"] == [{"partition": 0, "start": 1, "end": 1, "messages": 0, "size": 0}]
    assert await shell.json("topic", "delete", "orders", "--yes") == [{"topic": "orders", "deleted": True}]
    assert await shell.json("topic", "list") == []


async def test_nothing_is_deleted_when_nobody_can_be_asked(shell: Shell) -> None:
    await shell("topic", "create", "orders")
    for command in ("delete", "purge"):
        result = await shell("topic", command, "orders", stdin=b"y\n")
        assert result.exit_code == 2
        assert "--yes" in result.stderr
    assert len(await shell.json("topic", "list")) == 1


async def test_what_the_broker_refuses_is_one_sentence_and_exit_code_1(shell: Shell) -> None:
    await shell("topic", "create", "orders")
    refused = {
        ("create", "orders"): "orders",
        ("create", "no spaces"): "no spaces",
        ("describe", "nothing"): "there is no topic 'nothing'",
        ("alter", "nothing", "--partitions", "9"): "there is no topic 'nothing'",
        ("delete", "nothing", "--yes"): "there is no topic 'nothing'",
    }
    for arguments, words in refused.items():
        result = await shell("topic", *arguments)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1), arguments
        assert result.stderr.startswith("Error: ")
        assert words in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("create",),
        ("create", "orders", "--partitions", "0"),
        ("create", "orders", "--config", "retention_hours"),
        ("create", "orders", "--config", "cleanup=delete", "--config", "cleanup=compact"),
        ("alter", "orders"),
        ("list", "--url", "http://127.0.0.1:7710"),
        ("list", "--url", "ws://127.0.0.1:99999"),
        ("list", "--url", ""),
        ("list", "--timeout", "0"),
        ("list", "-o", "yaml"),
    ],
)
def test_misuse_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, ["topic", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_broker_that_is_not_there_is_told_soon(unused_port: int) -> None:
    began = time.monotonic()
    url = f"ws://127.0.0.1:{unused_port}"
    result = CliRunner().invoke(main, ["topic", "list", "--url", url, "--timeout", "0.2"])
    assert time.monotonic() - began < 5
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"no broker answers at {url} (tried for 0.2 s): connection refused; start one" in result.stderr


@pytest.fixture
def unused_port() -> Iterator[int]:
    """Held, but nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


async def test_somebody_at_a_terminal_is_asked_and_may_say_no(shell: Shell) -> None:
    await shell("topic", "create", "orders")
    keyboard, stdin = pty.openpty()
    os.write(keyboard, b"n\n")
    command = [sys.executable, "-m", "goqueue", "topic", "delete", "orders", "--url", shell.url]
    with trio.fail_after(20):
        ended = await trio.run_process(command, stdin=stdin, capture_stdout=True, capture_stderr=True, check=False)
    os.close(stdin)
    os.close(keyboard)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"Delete orders and all its messages?" in ended.stderr
    assert len(await shell.json("topic", "list")) == 1


async def test_a_topic_may_be_there_already_if_it_is_as_asked(shell: Shell) -> None:
    for _ in range(2):
        result = await shell("topic", "create", "orders", "--partitions", "2", "--if-not-exists")
        assert (result.exit_code, result.output) == (0, "orders is there with 2 partitions\n")
    result = await shell("topic", "create", "orders", "--if-not-exists")
    assert result.exit_code == 1
    assert "it has 2 partitions, not 3" in result.output


async def test_messages_and_bytes_on_disk_are_shown(shell: Shell) -> None:
    await shell("topic", "create", "orders", "--partitions", "2")
    async with goqueue.connect(shell.url) as client:
        async with client.producer("orders") as producer:
            await producer.send_many([bytes(1_000)] * 30, partition=1)
        first, second = (await client.topic("orders")).partitions
    assert (first.messages, first.size, second.messages) == (0, 0, 30)
    assert second.size is not None
    assert 30_000 < second.size < 40_000
    [described] = await shell.json("topic", "describe", "orders")
    assert described["partitions"][1] == {
        "partition": 1, "start": 0, "end": 30, "messages": 30, "size": second.size,
    }  # fmt: skip
    table = (await shell("topic", "describe", "orders")).stdout.splitlines()
    assert table[3].split() == ["0", "0", "0", "0", "0B"]
    assert table[4].split() == ["1", "0", "30", "30", size_text(second.size)]
    listed = (await shell("topic", "list")).stdout.splitlines()
    assert listed[1].split() == ["orders", "2", "30", "30", size_text(second.size)]


async def test_a_setting_in_bytes_takes_a_size_and_is_shown_as_one(shell: Shell) -> None:
    given = ["--config", "retention_bytes=1GiB", "--config", "segment_bytes=500MB"]
    [made] = await shell.json("topic", "create", "orders", *given)
    assert (made["config"]["retention_bytes"], made["config"]["segment_bytes"]) == (1024**3, 500_000_000)
    table = (await shell("topic", "describe", "orders")).stdout
    for name, text in (("retention_bytes", "1GiB"), ("segment_bytes", "500000000"), ("max_message_bytes", "16MiB")):
        assert [name, text] in [line.split() for line in table.splitlines()]
    refused = await shell("topic", "alter", "orders", "--config", "retention_bytes=1XiB")
    assert (refused.exit_code, "retention_bytes" in refused.stderr) == (2, True)

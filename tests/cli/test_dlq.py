"""`goqueue dlq`: dead letters as an inbox, against a broker on loopback."""

import json
import re
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import goqueue
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_group import reject_all
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback
from tests.promises import ROOT

TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        async with goqueue.connect(url) as client:
            await client.create_topic("lines", partitions=1)
            for number in range(5):
                await client.publish("lines", b"line %d" % number)
        yield Shell(url)


async def listed(shell: Shell) -> list[tuple[Any, ...]]:
    rows = await shell.json("dlq", "list")
    names = ("topic", "dead_letters", "remaining", "redriven", "dismissed")
    return [tuple(row[name] for name in names) for row in rows]


async def test_dead_letters_are_listed_and_shown_with_their_reason(shell: Shell) -> None:
    assert await shell.json("dlq", "list") == []
    assert await shell.json("dlq", "show", "lines") == []
    assert (await shell("dlq", "show", "nothing")).exit_code == 1
    await reject_all(shell)
    assert await listed(shell) == [("lines", 2, 2, 0, 0)]
    assert (await shell("dlq", "list")).stdout.splitlines()[1].split() == ["lines", "2", "2", "0", "0"]
    rows = await shell.json("dlq", "show", "lines", "--group", "billing")
    assert [(row["value"], row["headers"]["goqueue-dlq-reason"]) for row in rows] == [
        ("line 0", "no address"),
        ("line 1", "no address"),
    ]
    assert [(row["state"], row["decided_at"], row["reason"], row["attempts"]) for row in rows] == [
        ("waiting", None, "no address", 1)
    ] * 2
    assert rows[0]["last_delivery"] <= rows[0]["died_at"]
    assert await shell.json("dlq", "show", "lines", "--group", "shipping") == []
    one = await shell("dlq", "show", "lines", "--count", "1")
    assert (len(one.stdout.splitlines()), one.stderr) == (2, "there are more than 1; --count shows more\n")


async def test_dead_letters_are_sent_back(shell: Shell) -> None:
    nothing = await shell("dlq", "redrive", "lines")
    assert nothing.stdout == "0 dead letters sent back, 0 remain: there are no dead letters\n"
    assert nothing.exit_code == 0
    await reject_all(shell)
    dry = await shell("dlq", "redrive", "lines", "--dry-run")
    assert (dry.exit_code, dry.stdout) == (0, "2 dead letters would be sent back, 0 remain\n")
    [one] = await shell.json("dlq", "redrive", "lines", "--partition", "0", "--offset", "1", "--group", "billing")
    assert one == {
        "topic": "lines",
        "redriven": 1,
        "remaining": 1,
        "redriven_in_all": 1,
        "dismissed_in_all": 0,
        "why": "",
        "dry_run": False,
    }
    assert (await shell("consume", "lines", "--group", "billing")).stdout == "line 1\n"
    assert await listed(shell) == [("lines", 2, 1, 1, 0)]
    rest = await shell("dlq", "redrive", "lines", "--reason", "address", "--count", "5", "--rate", "100")
    assert rest.stdout == "1 dead letter sent back, 0 remain\n"
    assert (
        json.loads((await shell("consume", "lines", "--group", "billing", "-o", "json")).stdout)["value"]
        == "line 0"
    )
    none = (await shell("dlq", "redrive", "lines")).stdout
    said = r"0 dead letters sent back, 0 remain: no dead letter waits: 2 were sent back, last \d+\.\d s ago\n"
    assert re.fullmatch(said, none)
    again = await shell("dlq", "redrive", "lines", "--again", "--offset", "0")
    assert again.stdout == "1 dead letter sent back, 0 remain\n"


async def test_dead_letters_are_dismissed(shell: Shell) -> None:
    await reject_all(shell)
    dry = await shell("dlq", "dismiss", "lines", "--all", "--dry-run")
    assert dry.stdout == "2 dead letters would be dismissed, 0 remain\n"
    done = await shell("dlq", "dismiss", "lines", "--offset", "0", "--note", "a known bug")
    assert done.stdout == "1 dead letter dismissed, 1 remains\n"
    [row] = await shell.json("dlq", "show", "lines", "--state", "dismissed")
    assert (row["offset"], row["note"], row["sent_to"]) == (0, "a known bug", None)
    assert [row["offset"] for row in await shell.json("dlq", "show", "lines", "--remaining")] == [1]
    [none] = await shell.json("dlq", "dismiss", "lines", "--group", "shipping")
    assert none["dismissed"] == 0
    assert none["why"].startswith("1 dead letter was looked at: 1 belongs to another group (billing); others were")
    [decided] = await shell.json("dlq", "redrive", "lines", "--reason", "no such reason")
    assert re.search(r"1 does not match what was chosen; others were not: 1 was dismissed, last \d", decided["why"])
    assert (await shell("dlq", "redrive", "lines", "--all")).stdout == "1 dead letter sent back, 0 remain\n"
    assert await listed(shell) == [("lines", 2, 0, 1, 1)]


@pytest.mark.parametrize("command", [("show",), ("redrive",), ("dismiss", "--all")], ids=str)
async def test_a_dead_letter_topic_in_place_of_its_topic_is_told(shell: Shell, command: tuple[str, ...]) -> None:
    await reject_all(shell)
    refused = await shell("dlq", *command, "lines.dlq")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "lines.dlq holds dead letters, and has none itself; give the topic that they come from, lines" in (
        refused.stderr
    )


async def test_a_topic_that_is_named_like_the_letters_of_letters_does_not_end_the_list(shell: Shell) -> None:
    await reject_all(shell)
    assert (await shell("topic", "create", "lines.dlq.dlq")).exit_code == 0
    assert [name for name, *_ in await listed(shell)] == ["lines"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("dismiss", "lines"),
        ("dismiss", "lines", "--all", "--offset", "1"),
        ("redrive", "lines", "--all", "--group", "billing"),
        ("show", "lines", "--remaining", "--state", "redriven"),
    ],
    ids=" ".join,
)
async def test_a_choice_is_made_once(shell: Shell, arguments: tuple[str, ...]) -> None:
    refused = await shell("dlq", *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")


async def test_counts_are_exact_while_dead_letters_are_sent_back(shell: Shell) -> None:
    await shell("produce", "lines", stdin=b"more\n" * 60)
    async with goqueue.connect(shell.url) as client, client.consumer("lines", group="billing") as consumer:
        while (await client.group("billing")).lag:
            await consumer.reject(await consumer.receive(timeout=0.05), "no address")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(client.redrive, "lines", per_second=1))  # a minute
            assert await consumer.receive(1)
            [(_, total, waiting, redriven, dismissed)] = await listed(shell)
            assert (total, dismissed) == (65, 0)
            assert waiting + redriven == 65
            assert 1 <= redriven < 65
            nursery.cancel_scope.cancel()


async def test_letters_that_cannot_be_looked_at_do_not_hide_others(tmp_path: Path) -> None:
    """Counts of a topic that lost a partition are unknown, and so is a list of its letters."""
    data = str(tmp_path / "data")
    async with broker_on_loopback(RealDisk(), data) as url, goqueue.connect(url) as client:
        for topic in ("lines.dlq", "orders.dlq"):
            await client.create_topic(topic, partitions=1)
            await client.publish(topic, b"by hand")
    shutil.rmtree(tmp_path / "data/logs/lines.dlq/0")
    async with broker_on_loopback(RealDisk(), data) as url:
        shell = Shell(url)
        lost, orders = await shell.json("dlq", "list")
        assert (lost["topic"], lost["error"]["code"]) == ("lines", "partition_lost")
        assert (orders["topic"], orders["remaining"]) == ("orders", 1)
        table = await shell("dlq", "list")
        assert [line.split() for line in table.stdout.splitlines()[1:]] == [
            ["lines", "?", "?", "?", "?"],
            ["orders", "1", "1", "0", "0"],
        ]
        assert table.stderr.startswith("lines cannot be counted: ")
        refused = await shell("dlq", "show", "lines")
        assert (refused.exit_code, refused.stdout) == (1, "")
        [by_hand] = await shell.json("dlq", "show", "orders")
        assert (by_hand["group"], by_hand["attempts"], by_hand["state"]) == (None, 0, "waiting")


async def test_the_page_shows_what_is_printed(shell: Shell) -> None:
    """The sample of docs/groups.md, with other times."""
    async with goqueue.connect(shell.url) as client:
        await client.create_topic("orders", partitions=1)
        await client.create_topic("hospital")
        async with client.consumer("orders", group="billing") as consumer:
            for order, reason in ((b"1001", "no address"), (b"1002", "timeout"), (b"1003", "timeout")):
                await client.publish("orders", order)
                [message] = await consumer.receive()
                await message.reject(reason)
                while (await client.group("billing")).lag:
                    assert await consumer.receive(timeout=0.05) == []
    await shell("dlq", "redrive", "orders", "--offset", "1")
    await shell("dlq", "dismiss", "orders", "--offset", "0", "--note", "test order")
    page = (ROOT / "docs/groups.md").read_text()
    for command in ("dlq show orders", "dlq list"):
        sample = re.search(rf"^\$ goqueue {command}\n(.*?)(?=^\$|^```)", page, re.DOTALL | re.MULTILINE)
        assert sample
        printed = (await shell(*command.split())).stdout
        assert TIME.sub("TIME", printed) == TIME.sub("TIME", sample[1])

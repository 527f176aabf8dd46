"""`goqueue stats`, against a broker on loopback."""

import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.cli.program.watching import watching
from goqueue.cli.stats import groups_of
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback
from tests.process.children import child


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        yield Shell(url)


async def test_what_the_broker_counts_is_shown(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        await client.create_topic("orders", partitions=2)
        counted = dict(await client.stats())
    [shown] = await shell.json("stats")
    assert (shown["topics"], shown["partitions"]) == (1, 2)
    assert set(shown) == set(counted)
    rows = [line.split() for line in (await shell("stats")).stdout.splitlines()]
    assert rows[0] == ["COUNTER", "VALUE"]
    assert ["topics", "1"] in rows
    assert ["partitions", "2"] in rows


def test_counters_whose_names_begin_alike_stand_together() -> None:
    groups = groups_of({"a": 1, "b.c": 2, "a.d": 3, "b.e": 4.5})
    assert groups == [[["a", "1"], ["a.d", "3"]], [["b.c", "2"], ["b.e", "4.5"]]]


async def test_watching_looks_once_a_second_however_long_a_look_takes(autojump_clock: MockClock) -> None:
    began, times, shown = trio.current_time(), list[float](), list[Mapping[str, Any]]()

    async def look() -> Mapping[str, Any]:
        times.append(trio.current_time() - began)
        await trio.sleep(2.5 if len(times) == 2 else 0.4)
        return {"looks": len(times)}

    await watching(look, shown.append, 6)
    assert times == pytest.approx([0, 1, 3.5, 3.9, 4.3, 5])
    assert shown == [{"looks": number} for number in range(1, 7)]


async def test_watching_prints_an_object_a_line_or_a_table_each_time(shell: Shell) -> None:
    looks = await shell.json("stats", "--watch", "--count", "2")
    assert looks[1]["uptime_seconds"] > looks[0]["uptime_seconds"]
    table = (await shell("stats", "--watch", "--count", "1")).stdout
    assert table.splitlines()[0].split() == ["COUNTER", "VALUE"]
    assert "\x1b" not in table, "only a terminal is cleared"
    assert (await shell("stats", "--count", "1")).exit_code == 2


async def test_ctrl_c_ends_the_watching_as_other_commands(tmp_path: Path) -> None:
    async with (
        broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url,
        child("goqueue", "stats", "--watch", "-o", "json", "--url", url) as process,
    ):
        await process.listen(1)
        process.process.send_signal(signal.SIGINT)
        assert await process.end() == 130

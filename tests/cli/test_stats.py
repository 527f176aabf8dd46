"""`goqueue stats`, against a broker on loopback."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import goqueue
from goqueue.cli.stats import groups_of
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback


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

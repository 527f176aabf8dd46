"""Damaged files as the command line shows them: nothing is skipped silently (G5)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import goqueue
from goqueue.cli.messages import consumegroup
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback

LOG = "data/logs/lines/0/00000000000000000000.log"


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumegroup, "QUIET_SECONDS", 0.3)


@asynccontextmanager
async def shell_on(directory: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(directory / "data")) as url:
        yield Shell(url)


@pytest.fixture
async def damaged(tmp_path: Path) -> AsyncIterator[Shell]:
    """A topic of five lines; the one in the middle cannot be read."""
    async with shell_on(tmp_path) as shell:
        await publish_five(shell)
        flip(tmp_path)
        yield shell


async def publish_five(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        await client.create_topic("lines", partitions=1)
        for number in range(5):
            await client.publish("lines", b"line %d" % number)


def flip(directory: Path) -> None:
    """Twice is a repair."""
    path = directory / LOG
    data = bytearray(path.read_bytes())
    at = data.find(b"ine 2")
    data[at - 1] ^= 0x20
    with path.open("r+b") as file:
        file.write(data)


async def test_a_group_gets_the_rest_and_the_command_says_what_is_missing(damaged: Shell, tmp_path: Path) -> None:
    result = await damaged("consume", "lines", "--group", "billing")
    assert (result.exit_code, result.stdout) == (1, "line 0\nline 1\nline 3\nline 4\n")
    assert "1 messages of lines/0 are damaged, between offsets 2 and 2" in result.stderr
    assert "goqueue group skip billing lines/0 2-2" in result.stderr
    assert str(tmp_path / LOG) in result.stderr


async def test_damage_is_shown_wherever_an_operator_looks(damaged: Shell, tmp_path: Path) -> None:
    await damaged("consume", "lines", "--group", "billing")
    path = str(tmp_path / LOG)
    [group] = await damaged.json("group", "describe", "billing")
    [partition] = group["partitions"]
    assert (group["lag"], group["damaged"], partition["committed"], partition["damaged"]) == (0, 1, 2, 1)
    assert partition["damages"] == [{"first": 2, "last": 2, "path": path, "messages": 1}]
    assert path in (await damaged("group", "describe", "billing")).stdout
    [topic] = await damaged.json("topic", "describe", "lines")
    assert topic["partitions"][0]["damage"] == [{"first": 2, "last": 2, "path": path, "messages": 1}]
    assert path in (await damaged("topic", "describe", "lines")).stdout
    [stats] = await damaged.json("stats")
    assert (stats["damaged.ranges"], stats["damaged.lines/0"]) == (1, f"2-2 of {path}")
    async with goqueue.connect(damaged.url) as client, client.consumer("lines", group="billing") as consumer:
        assert await consumer.receive(timeout=0.1) == []
        why = (await damaged("why", "billing")).stdout
    assert "1 message of lines/0 is damaged, from offset 2 on" in why
    assert "goqueue group skip billing lines/0 FROM-TO" in why


async def test_damaged_messages_are_given_up_by_a_command_that_can_be_tried_first(damaged: Shell) -> None:
    await damaged("consume", "lines", "--group", "billing")
    tried = await damaged("group", "skip", "billing", "lines/0", "0-4", "--dry-run")
    assert (tried.exit_code, tried.stdout) == (
        0,
        "1 message would be given up; the committed offset goes from 2 to 5\n",
    )
    assert (await damaged("group", "skip", "billing", "lines/0", "0-4")).exit_code == 2, "nobody was asked"
    [done] = await damaged.json("group", "skip", "billing", "lines/0", "0-4", "--yes")
    assert done == {"messages": 1, "before": 2, "after": 5}
    [group] = await damaged.json("group", "describe", "billing")
    assert (group["damaged"], group["partitions"][0]["removed_unacked"]) == (0, 1)
    again = await damaged("group", "skip", "billing", "lines/0", "2-2", "--yes")
    assert (again.exit_code, "none of the offsets 2 to 2" in again.stderr) == (1, True)
    assert (await damaged("consume", "lines", "--group", "billing")).exit_code == 0


@pytest.mark.parametrize(
    "wrong", [["lines", "2-2"], ["lines/x", "2-2"], ["lines/0", "5-2"], ["lines/0", "two"]], ids=str
)
async def test_a_skip_that_is_not_understood_is_misuse(damaged: Shell, wrong: list[str]) -> None:
    assert (await damaged("group", "skip", "billing", *wrong, "--yes")).exit_code == 2


async def test_after_the_file_is_restored_and_the_broker_started_again_the_messages_come(tmp_path: Path) -> None:
    async with shell_on(tmp_path) as shell:
        await publish_five(shell)
        flip(tmp_path)
        await shell("consume", "lines", "--group", "billing")
    flip(tmp_path)
    async with shell_on(tmp_path) as shell:
        result = await shell("consume", "lines", "--group", "billing")
        assert (result.exit_code, result.stdout) == (0, "line 2\n")
        [group] = await shell.json("group", "describe", "billing")
        assert (group["damaged"], group["partitions"][0]["committed"]) == (0, 5)
        [stats] = await shell.json("stats")
        assert stats["damaged.ranges"] == 0


async def test_a_reader_stops_at_damage_and_says_where_to_go_on(damaged: Shell) -> None:
    result = await damaged("consume", "lines")
    assert (result.exit_code, result.stdout) == (1, "line 0\nline 1\n")
    assert "go on reading at offset 3" in result.stderr
    async with goqueue.connect(damaged.url) as client:
        with pytest.raises(goqueue.DamagedData) as caught:
            async for _ in client.read("lines", end="latest"):
                pass
        assert (caught.value.restart_at, caught.value.details["partition"]) == (3, 0)
        rest = [each.value async for each in client.read("lines", partition=0, start=3, end="latest")]
        assert rest == [b"line 3", b"line 4"]


async def test_a_reader_goes_on_behind_damage_when_it_is_told_to(damaged: Shell, tmp_path: Path) -> None:
    result = await damaged("consume", "lines", "--skip-damaged")
    assert (result.exit_code, result.stdout) == (0, "line 0\nline 1\nline 3\nline 4\n")
    assert result.stderr == f"skipped offsets 2 to 2 of lines/0, which are damaged in {tmp_path / LOG}\n"
    assert (await damaged("consume", "lines", "--group", "billing", "--skip-damaged")).exit_code == 2


async def test_a_stream_stops_and_is_moved_on_by_the_same_command(damaged: Shell) -> None:
    first = await damaged("consume", "lines", "--group", "audit", "--mode", "stream")
    assert (first.exit_code, first.stdout) == (1, "line 0\nline 1\n")
    assert "goqueue group skip audit lines/0 2-2" in first.stderr
    [group] = await damaged.json("group", "describe", "audit")
    assert (group["lag"], group["damaged"]) == (2, 1)
    too_far = await damaged("group", "skip", "audit", "lines/0", "3-4", "--yes")
    assert (too_far.exit_code, "has committed offset 2 of lines/0" in too_far.stderr) == (1, True)
    [done] = await damaged.json("group", "skip", "audit", "lines/0", "2-4", "--yes")
    assert done == {"messages": 1, "before": 2, "after": 3}
    second = await damaged("consume", "lines", "--group", "audit", "--mode", "stream", "--count", "2")
    assert (second.exit_code, second.stdout) == (0, "line 3\nline 4\n")

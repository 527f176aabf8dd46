"""`goqueue backup` and `goqueue restore`, against a broker on loopback."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import goqueue
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        async with goqueue.connect(url) as client:
            await client.create_topic("orders", partitions=2)
            await client.publish("orders", b"a", partition=0)
            await client.publish("orders", b"b", partition=0)
        yield Shell(url)


async def test_a_backup_says_what_is_in_it(shell: Shell, tmp_path: Path) -> None:
    [made] = await shell.json("backup", str(tmp_path / "backup"))
    shown = [(each["topic"], each["partition"], each["end"], each["records"]) for each in made["partitions"]]
    assert shown == [("orders", 0, 2, 2), ("orders", 1, 0, 0)]
    assert (made["node"], made["deleted"]) == ("node-1", [])
    verified = await shell("log", "verify", str(tmp_path / "backup"))
    assert (verified.exit_code, "sound: 4 partitions" in verified.stdout) == (0, True)


async def test_a_restore_makes_a_directory_that_a_broker_serves(shell: Shell, tmp_path: Path) -> None:
    assert (await shell("backup", str(tmp_path / "backup"))).exit_code == 0
    restored = await shell("restore", str(tmp_path / "backup"), str(tmp_path / "restored"))
    assert restored.exit_code == 0
    assert restored.stdout.splitlines()[1].split()[:5] == ["orders", "0", "0", "2", "2"]
    async with broker_on_loopback(RealDisk(), str(tmp_path / "restored")) as url:
        shown = await Shell(url)("consume", "orders")
    assert shown.stdout == "a\nb\n"


async def test_a_group_goes_on_from_a_restored_directory(shell: Shell, tmp_path: Path) -> None:
    first = await shell("consume", "orders", "--group", "billing", "--count", "1")
    [made] = await shell.json("backup", str(tmp_path / "backup"))
    assert [each["ledgers_crc32c"] is None for each in made["partitions"]] == [False, False]
    assert (await shell("restore", str(tmp_path / "backup"), str(tmp_path / "restored"))).exit_code == 0
    verified = await shell("log", "verify", str(tmp_path / "restored"))
    assert (verified.exit_code, "sound: 4 partitions" in verified.stdout) == (0, True)
    async with broker_on_loopback(RealDisk(), str(tmp_path / "restored")) as url:
        second = await Shell(url)("consume", "orders", "--group", "billing")
    assert (first.stdout, second.stdout) == ("a\n", "b\n")


async def test_a_directory_with_something_in_it_is_a_misuse(shell: Shell, tmp_path: Path) -> None:
    assert (await shell("backup", str(tmp_path / "backup"))).exit_code == 0
    for command in (
        ["backup", str(tmp_path / "data")],
        ["restore", str(tmp_path / "backup"), str(tmp_path / "data")],
        ["restore", str(tmp_path / "data"), str(tmp_path / "new")],
    ):
        refused = await shell(*command)
        assert refused.exit_code == 2, refused.output
        assert "choose" in refused.stderr or "give" in refused.stderr
    assert not (tmp_path / "new").exists()


async def test_a_backup_that_was_cut_short_is_refused(shell: Shell, tmp_path: Path) -> None:
    assert (await shell("backup", str(tmp_path / "backup"))).exit_code == 0
    (tmp_path / "backup/incomplete").write_text("")
    refused = await shell("restore", str(tmp_path / "backup"), str(tmp_path / "new"))
    assert (refused.exit_code, "cut short" in refused.stderr) == (1, True)
    assert not (tmp_path / "new").exists()


async def test_what_cannot_be_read_is_named_and_the_exit_code_says_so(shell: Shell, tmp_path: Path) -> None:
    [log] = (tmp_path / "data/logs/orders/0").glob("*.log")
    with log.open("r+b") as file:
        file.seek(120)
        file.write(b"!")
    made = await shell("backup", str(tmp_path / "backup"))
    assert made.exit_code == 1
    assert "offsets 0 to 0 of orders/0 could not be read" in made.stdout


async def test_without_a_broker_there_is_nothing_to_back_up(tmp_path: Path) -> None:
    refused = await Shell("ws://127.0.0.1:1")("backup", str(tmp_path / "backup"), "--timeout", "0.1")
    assert (refused.exit_code, (tmp_path / "backup").exists()) == (1, False)

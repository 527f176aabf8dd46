"""`goqueue recover topics` and `goqueue topic restore-partition`, on the real disk."""

import json
import shutil
from pathlib import Path

import pytest
import trio
from click.testing import Result

import goqueue as library
from goqueue.core.topics.loss import RESTART_GAP
from goqueue.errors import UnknownFormat
from goqueue.storage.disk.disk import RealDisk
from tests.cli.directories import goqueue
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback


async def command(*arguments: str | Path) -> Result:
    with trio.fail_after(20):
        return await trio.to_thread.run_sync(goqueue, *arguments)


async def test_a_lost_partition_is_shown_verified_and_restored(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    async with broker_on_loopback(RealDisk(), str(data)) as url, library.connect(url) as client:
        await client.create_topic("orders", partitions=2)
        for _ in range(3):
            await client.publish("orders", b"kept", partition=1)
        assert (await Shell(url)("backup", str(backup))).exit_code == 0
    shutil.rmtree(data / "logs/orders/1")
    verified = await command("log", "verify", data)
    assert verified.exit_code == 1
    assert "partition_lost" in verified.stdout
    async with broker_on_loopback(RealDisk(), str(data)) as url:
        shell = Shell(url)
        described = (await shell("topic", "describe", "orders")).stdout
        assert "lost: partition 1 of topic orders is lost: its folder is gone" in described
        [fields] = await shell.json("topic", "describe", "orders")
        assert fields["partitions"][1]["state"] == "lost"
        dry = await shell("topic", "restore-partition", "orders/1")
        assert dry.exit_code == 0
        assert "no offset of it is known" in dry.stdout
        assert "nothing was changed, give --accept-loss" in dry.stdout
        [plan] = await shell.json("topic", "restore-partition", "orders/1", "--backup", str(backup))
        assert (plan["is_restored"], plan["highest"]) == (False, 3)
        done = await shell("topic", "restore-partition", "orders/1", "--backup", str(backup), "--accept-loss")
        assert f"it restarts at offset {3 + RESTART_GAP}" in done.stdout
        assert (await shell("topic", "restore-partition", "orders/1", "--accept-loss")).stdout == (
            "orders/1 is not lost; nothing was changed\n"
        )
        for bad in ("orders", "/1", "orders/x"):
            assert (await shell("topic", "restore-partition", bad)).exit_code == 2
    assert (await command("log", "verify", data)).exit_code == 0


async def test_a_damaged_list_of_topics_is_rebuilt(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with broker_on_loopback(RealDisk(), str(data)) as url, library.connect(url) as client:
        await client.create_topic("orders", partitions=2)
        await client.publish("orders", b"kept", partition=1)
        refused = await command("recover", "topics", "--data", data)
        assert (refused.exit_code, "holds" in refused.stderr) == (1, True)
    [log] = (data / "logs/__metadata/0").glob("*.log")
    damaged = bytearray(log.read_bytes())
    damaged[damaged.index(b"orders")] ^= 1
    log.write_bytes(damaged)
    with pytest.raises(UnknownFormat, match=f"`goqueue recover topics --data {data}`"):
        async with broker_on_loopback(RealDisk(), str(data)):
            pytest.fail("it never started")
    dry = await command("recover", "topics", "--data", data)
    assert dry.exit_code == 0
    assert f"run `goqueue recover topics --data {data} --write`" in dry.stdout
    written = await command("recover", "topics", "--data", data, "--write", "-o", "json")
    fields = json.loads(written.stdout)
    assert (fields["is_written"], fields["set_aside"]) == (True, "stray/__metadata-1")
    assert (data / "stray/__metadata-1/0" / log.name).read_bytes() == damaged
    again = await command("recover", "topics", "--data", data)
    assert "the list of topics and groups is sound" in again.stdout
    async with broker_on_loopback(RealDisk(), str(data)) as url, library.connect(url) as client:
        assert [message.value async for message in client.read("orders", end="latest")] == [b"kept"]


async def test_a_damaged_schema_registry_is_recovered(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with broker_on_loopback(RealDisk(), str(data)) as url, library.connect(url) as client:
        for title in ("first", "second"):
            await client.register_schema("orders", f'{{"title":"{title}"}}')
    assert (await command("recover", "schemas", "--data", data)).stdout.endswith("sound; nothing was changed\n")
    log = data / "logs/__schemas/0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes().replace(b"second", b"secund", 1))
    with pytest.raises(UnknownFormat, match="goqueue recover schemas"):
        async with broker_on_loopback(RealDisk(), str(data)):
            pytest.fail("it never started")
    assert (await command("log", "verify", data)).exit_code == 1
    dry = await command("recover", "schemas", "--data", data)
    assert "orders   1            3" in dry.stdout
    assert "are damaged" in dry.stdout
    assert "nothing was changed; run `goqueue recover schemas --data" in dry.stdout
    done = await command("recover", "schemas", "--data", data, "--write", "--ids-above", "70", "-o", "json")
    fields = json.loads(done.stdout)
    assert fields["subjects"] == [{"name": "orders", "versions": [1], "next_version": 3}]
    assert (fields["next_id"], fields["is_written"], fields["softly_deleted"]) == (71, True, [])
    assert (data / fields["set_aside"]).is_dir()
    async with broker_on_loopback(RealDisk(), str(data)) as url, library.connect(url) as client:
        again = await client.register_schema("orders", '{"title":"second"}')
        assert (again.version, again.id) == (3, 71)

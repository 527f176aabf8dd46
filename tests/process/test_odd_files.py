"""Things in a data directory that are not what they should be: a start names them, and never hangs on them."""

import os
from pathlib import Path

import pytest
import trio

import goqueue
from goqueue.errors import GoQueueError
from goqueue.storage.disk.disk import RealDisk
from tests.process.brokers import broker_on_loopback


async def started(data: Path) -> str:
    """What the broker says: of its own start, or of partition 0."""
    try:
        with trio.fail_after(20):
            async with broker_on_loopback(RealDisk(), str(data)) as url, goqueue.connect(url) as client:
                view = (await client.topic("orders")).partitions[0]
                return view.error.message if view.error is not None else ""
    except GoQueueError as error:
        return error.message


async def test_a_fifo_in_place_of_any_file_is_named_and_hangs_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with broker_on_loopback(RealDisk(), str(data)) as url, goqueue.connect(url) as client:
        await client.create_topic("orders", partitions=1)
        async with client.consumer("orders", group="billing") as consumer:
            await client.publish("orders", b"kept")
            await consumer.ack(await consumer.receive(timeout=5))
    folder = data / "logs/orders/0"
    for path in (
        *sorted(folder.iterdir()),
        data / "meta.json",
        *sorted((data / "logs/__metadata/0").iterdir()),
        data / "lock",
    ):
        kept = path.rename(tmp_path / "kept")
        os.mkfifo(path)
        said = await started(data)
        assert said == "" or f"{path} is a fifo, where a file is expected" in said, path
        if not path.is_fifo():
            continue  # it could do without, and made it anew
        path.unlink()
        kept.rename(path)
    assert await started(data) == ""


@pytest.mark.parametrize("name", ["", "logs", "logs/orders/0", "groups", "offsets"])
async def test_a_file_in_place_of_a_directory_is_named(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    async with broker_on_loopback(RealDisk(), str(data)) as url, goqueue.connect(url) as client:
        await client.create_topic("orders", partitions=1)
    path = data / name if name else data
    if path.exists():
        path.rename(tmp_path / "kept")
    path.touch()
    said = await started(data)
    if name in ("groups", "offsets"):
        assert said == "", "no group needs it"
    else:
        assert f"{path} is a file, where a directory is expected" in said

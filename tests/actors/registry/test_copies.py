"""The files that show the schemas to people: behind every change, put right at a start, needed by nobody."""

from random import Random

import pytest
from trio.testing import MockClock

from goqueue.testing.disk import SimulatedDisk
from tests.actors.registry.stage import registry_on

STRING, OTHER = '{"type" : "string"}', '{"type":"string","title":"é"}'


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def files(disk: SimulatedDisk) -> dict[str, str]:
    root, found = "/data/schemas", dict[str, str]()
    for folder in disk.list(root) if disk.exists(root) else []:
        for name in disk.list(f"{root}/{folder}"):
            path = f"{root}/{folder}/{name}"
            found[f"{folder}/{name}"] = bytes(await disk.open(path).read(0, disk.size(path))).decode()
    return found


async def test_each_version_has_a_file_until_it_is_deleted(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with registry_on(disk) as stage:
        await stage.register("orders", STRING)
        await stage.register("orders-value", OTHER)
        await stage.register("../An order: a/b", STRING)
    assert await files(disk) == {
        "orders/v1.json": STRING,
        "orders/v2.json": OTHER,
        "%2E.%2FAn%20order%3A%20a%2Fb/v1.json": STRING,
    }
    async with registry_on(disk) as stage:
        await stage.delete("orders", 1)
        await stage.delete("../An order: a/b")
    assert await files(disk) == {"orders/v2.json": OTHER}


async def test_a_subject_that_was_made_anew_has_one_folder(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with registry_on(disk) as stage:
        await stage.register("orders", STRING)
        await stage.delete("orders")
        await stage.delete("orders", permanent=True)
        await stage.register("orders-value", STRING)
    assert await files(disk) == {"orders-value/v2.json": STRING}


async def test_a_start_puts_the_files_right(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with registry_on(disk) as stage:
        for text in (STRING, OTHER):
            await stage.register("orders", text)
    disk.open("/data/schemas/orders/v1.json").write(0, [b"x"])
    disk.remove("/data/schemas/orders/v2.json")
    for path in ("gone/v1.json", "orders/v7.json", "orders/notes.txt"):
        disk.make_directory(f"/data/schemas/{path.split('/')[0]}")
        disk.open(f"/data/schemas/{path}", create=True).write(0, [b"left"])
    async with registry_on(disk):
        pass
    assert await files(disk) == {"orders/v1.json": STRING, "orders/v2.json": OTHER, "orders/notes.txt": "left"}


async def test_the_registry_goes_on_when_they_cannot_be_written(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    disk.make_directory("/data")
    disk.open("/data/schemas", create=True).write(0, [b"in the way"])
    async with registry_on(disk) as stage:
        await stage.register("orders", STRING)
        assert stage.versions("orders") == [(1, 1)]
    assert "the files of schemas cannot be kept up to date" in caplog.text

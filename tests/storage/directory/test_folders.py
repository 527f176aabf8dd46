"""The folders of topics: whose each is, also when the file that says so is damaged."""

import json
from uuid import UUID

import pytest
from trio.testing import MockClock

from goqueue.core.topics.metadata import Metadata
from goqueue.errors import UnknownFormat
from goqueue.storage.checkedjson import is_sound, pack
from goqueue.storage.directory.folders import TopicFolders
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk

DATA = "/data"
ORDERS = UUID(int=0xABCDEF, version=4)
IDENTITY = f"{DATA}/logs/orders/{{}}/topic.json"


class Shelf:
    def __init__(self, volume: Volume) -> None:
        self.metadata = Metadata()
        self.reports: list[str] = []
        self.folders = TopicFolders(volume, DATA, self.reports.append)
        self.metadata.apply(self.metadata.create_topic("orders", 2, {}, ORDERS))

    async def sign(self) -> None:
        for number in range(2):
            await self.folders.sign(self.metadata.topic("orders"), number)


def overwrite(disk: SimulatedDisk, path: str, data: bytes) -> None:
    disk.cut(path, 0)
    disk.open(path).write(0, [data])


@pytest.fixture
async def shelf(volume: Volume, autojump_clock: MockClock) -> Shelf:
    shelf = Shelf(volume)
    await shelf.sign()
    return shelf


@pytest.mark.parametrize("position", range(0, 106, 3))
async def test_a_flipped_bit_leaves_the_folder_with_its_topic_and_is_told(
    shelf: Shelf, disk: SimulatedDisk, position: int
) -> None:
    """G13, G3: it was moved away once, and the topic began anew at offset 0."""
    disk.flip_bit(IDENTITY.format(0), position, 0)
    await shelf.folders.clear(shelf.metadata)
    await shelf.sign()
    assert disk.list(f"{DATA}/logs/orders") == ["0", "1"]
    assert not disk.exists(f"{DATA}/stray")
    assert all("is damaged" in report for report in shelf.reports)
    name = range(signature().index(b"crc32c"), signature().index(b"crc32c") + 6)
    assert shelf.reports or position in name


def signature() -> bytes:
    return pack({"topic": "orders", "uuid": str(ORDERS), "partition": 0})


async def test_a_sound_signature_of_another_topic_is_refused_and_nothing_is_moved(
    shelf: Shelf, disk: SimulatedDisk
) -> None:
    """G13: whoever put it there, the offsets of the topic that is known are not given out again."""
    overwrite(disk, IDENTITY.format(0), pack({"topic": "orders", "uuid": str(UUID(int=1)), "partition": 0}))
    await shelf.folders.clear(shelf.metadata)
    with pytest.raises(UnknownFormat, match="names another topic"):
        await shelf.sign()
    assert disk.list(f"{DATA}/logs/orders") == ["0", "1"]


async def test_a_folder_of_no_topic_is_set_aside(shelf: Shelf, disk: SimulatedDisk) -> None:
    await shelf.folders.clear(Metadata())
    assert disk.list(f"{DATA}/stray") == [f"orders-{ORDERS}"]


async def test_a_file_without_a_checksum_is_taken_as_it_is(shelf: Shelf, disk: SimulatedDisk) -> None:
    """As those are that an earlier goqueue wrote."""
    overwrite(disk, IDENTITY.format(0), json.dumps({"uuid": str(ORDERS)}).encode())
    await shelf.sign()
    assert shelf.reports == []


def test_a_checksum_is_of_every_field() -> None:
    fields = json.loads(pack({"a": 1, "b": "x"}))
    assert is_sound(fields)
    assert not is_sound({**fields, "a": 2})
    assert not is_sound({**fields, "c": 1})
    assert not is_sound({**fields, "crc32c": 5})

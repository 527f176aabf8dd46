"""What deleted topics left is removed in small steps; nothing else is."""

from random import Random
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from goqueue.errors import DiskFailed
from goqueue.storage.directory.disposal import STEP_BYTES_MAX, Disposal
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import mounted

TOPIC = str(UUID(int=7))


class Steps:
    """Counts the pauses, and sees how much went in each step."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self.free = [disk.space("/").free]

    async def pause(self) -> None:
        self.free.append(self._disk.space("/").free)
        await trio.lowlevel.checkpoint()

    @property
    def largest(self) -> int:
        return max(after - before for before, after in zip(self.free, self.free[1:], strict=False))


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    for folder in ("/data", "/data/stray", "/data/stray/orders", "/data/deleted"):
        disk.make_directory(folder)
    disk.open("/data/stray/orders/kept", create=True).write(0, [b"kept"])
    return disk


def leave(disk: SimulatedDisk, name: str, sizes: dict[str, int]) -> None:
    disk.make_directory(f"/data/deleted/{name}")
    disk.make_directory(f"/data/deleted/{name}/0")
    for file, size in sizes.items():
        disk.open(f"/data/deleted/{name}/0/{file}", create=True).truncate(size)


async def test_everything_of_a_deleted_topic_goes_and_nothing_else(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    leave(disk, TOPIC, {"a.log": 10, "b.log": 0})
    leave(disk, "notes", {"mine": 1})
    for folder in ("/data/deleted", "/data", "/"):
        await disk.sync_directory(folder)
    async with mounted(disk) as volume:
        assert await Disposal(volume, "/data", Steps(disk).pause).empty() == {}
    assert disk.list("/data/deleted") == ["notes"]
    assert disk.list("/data/stray/orders") == ["kept"]
    assert disk.crash().list("/data/deleted") == ["notes"], "its end is durable"


async def test_no_step_frees_more_than_its_share(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Freeing takes the file system its time, and everybody else waits meanwhile."""
    leave(disk, TOPIC, {"large.log": 3 * STEP_BYTES_MAX + 1, "small.log": 1_000})
    steps = Steps(disk)
    async with mounted(disk) as volume:
        await Disposal(volume, "/data", steps.pause).empty()
    assert disk.list("/data/deleted") == []
    assert 0 < steps.largest <= STEP_BYTES_MAX


async def test_a_power_cut_at_any_step_is_healed_by_the_next_round(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    leave(disk, TOPIC, {f"{number}.log": 10 for number in range(5)})
    for folder in (f"/data/deleted/{TOPIC}/0", f"/data/deleted/{TOPIC}", "/data/deleted", "/data", "/"):
        await disk.sync_directory(folder)
    images: list[SimulatedDisk] = []

    async def cut() -> None:
        images.append(disk.crash())

    async with mounted(disk) as volume:
        await Disposal(volume, "/data", cut).empty()
    for image in images:
        async with mounted(image) as volume:
            await Disposal(volume, "/data", Steps(image).pause).empty()
        assert image.list("/data/deleted") == []
    assert len(images) == 7


async def test_what_cannot_be_removed_is_named_once_and_does_not_keep_the_rest(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    other = str(UUID(int=8))
    for name in (TOPIC, other):
        leave(disk, name, {"a.log": 1})
    async with mounted(Stuck(disk, f"/data/deleted/{TOPIC}/0")) as volume:  # type: ignore[arg-type]
        disposal = Disposal(volume, "/data", Steps(disk).pause)
        assert list(await disposal.empty()) == [TOPIC]
        assert await disposal.empty() == {}
    assert disk.list("/data/deleted") == [TOPIC]


async def test_without_deleted_topics_there_is_nothing_to_do(volume: Volume, autojump_clock: MockClock) -> None:
    assert await Disposal(volume, "/data", trio.lowlevel.checkpoint).empty() == {}


class Stuck:
    """A disk with a folder that the system does not let go, as one that is a link to another place."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    def remove_directory(self, path: str) -> None:
        if path == self._path:
            raise DiskFailed(f"{path}: not a directory", path=path)
        self._disk.remove_directory(path)

"""Short words for the tests of the journal."""

from collections.abc import Iterator

from goqueue.storage.journals.claim import SUFFIX
from goqueue.storage.journals.file import HEAD_SIZE, Replay, pack_entries
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from tests.storage.logs import mounted

DIRECTORY, NAME = "/data/state", "journal"
PATH = f"{DIRECTORY}/{NAME}"
CRASHES = 30


async def open_journal(volume: Volume) -> Journal:
    journal, _ = await Journal.open(volume, DIRECTORY, NAME)
    return journal


async def filled(volume: Volume, *entries: bytes) -> Journal:
    """An open journal with these entries, each committed on its own."""
    journal = await open_journal(volume)
    for entry in entries:
        journal.append([entry])
        await journal.commit()
    return journal


async def found_on(disk: SimulatedDisk) -> Replay:
    """What the next process finds."""
    async with mounted(disk) as volume:
        return (await Journal.open(volume, DIRECTORY, NAME))[1]


def crashes_of(disk: SimulatedDisk) -> Iterator[SimulatedDisk]:
    """The same power loss with many outcomes."""
    return (disk.crash() for _ in range(CRASHES))


def leave_room(disk: SimulatedDisk, size: int) -> None:
    """From now on there is room for so many bytes more."""
    disk.capacity = CAPACITY
    disk.capacity -= disk.space("/").free - min(size, disk.space("/").free)


def files(disk: SimulatedDisk, suffix: str = "") -> list[str]:
    """But for the claim, which comes with the first commit."""
    return [name for name in disk.list(DIRECTORY) if name.endswith(suffix) and name != NAME + SUFFIX]


async def contents(disk: SimulatedDisk, name: str = NAME) -> bytes:
    path = f"{DIRECTORY}/{name}"
    return await disk.open(path).read(0, disk.size(path))


def frame_size(*entries: bytes) -> int:
    return HEAD_SIZE + len(pack_entries(entries))

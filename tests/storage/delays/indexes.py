"""Short words for the tests of the delay index."""

from collections.abc import Sequence

from goqueue.core.delays.pending import DelayChange, DelayState
from goqueue.core.offsetset import OffsetSet
from goqueue.storage.delays.index import NAME, DelayIndex, LoadedIndex
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from tests.storage.logs import mounted

DIRECTORY = "/data/logs/orders/0"
PATH = f"{DIRECTORY}/{NAME}"
END = 1_000
ENDINGS = (DelayState.DELIVERED, DelayState.CANCELLED, DelayState.EXPIRED)
CRASHES = 30


def pending(offset: int, due: int, at: int | None = None) -> DelayChange:
    return DelayChange(DelayState.PENDING, offset, due, offset if at is None else at)


def ended(state: DelayState, offset: int, at: int) -> DelayChange:
    return DelayChange(state, offset, 7_000 + at, at)


async def opened(volume: Volume, log_start: int = 0, log_end: int = END) -> tuple[DelayIndex, LoadedIndex]:
    await volume.make_directories(DIRECTORY)
    return await DelayIndex.open(volume, DIRECTORY, log_start, log_end)


async def found_on(disk: SimulatedDisk, log_end: int = END, log_start: int = 0) -> LoadedIndex:
    """What the next process finds."""
    async with mounted(disk) as volume:
        return (await opened(volume, log_start, log_end))[1]


def dues_of(loaded: LoadedIndex) -> dict[int, int]:
    return dict(zip(loaded.offsets, loaded.dues, strict=True))


async def compact(
    index: DelayIndex,
    offsets: Sequence[int],
    dues: Sequence[int],
    finished: Sequence[DelayChange],
    applied_to: int,
    hidden: OffsetSet | None = None,
) -> None:
    """With due times as they are at this moment."""
    due_at = dict(zip(offsets, dues, strict=True))
    await index.compact(offsets, due_at.get, hidden or OffsetSet(), finished, applied_to)


def leave_room(disk: SimulatedDisk, size: int) -> None:
    disk.capacity = CAPACITY
    disk.capacity -= disk.space("/").free - min(size, disk.space("/").free)

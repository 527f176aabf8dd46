"""A process that appends to a log, says what is confirmed, and can be killed at any time.

    python -m tests.process.appender DIRECTORY [BATCHES]

It says `started` once it holds the directory, `confirmed N` whenever everything below offset N is durable, and
`closed N` at the end of an orderly life: after so many batches, or when it is asked to stop (SIGTERM). When another
process holds the directory it says `locked by PID`. It dies with whoever listens to it.
"""

import signal
import sys
from itertools import count
from random import Random

import trio

from goqueue.config import LogConfig
from goqueue.core.records.batch import Batch
from goqueue.environment import SystemClock
from goqueue.errors import DataDirectoryLocked
from goqueue.storage.directory.datadirectory import DataDirectory
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from tests.storage.logs import batch

CONFIG = LogConfig(segment_bytes=64 * 1024)
WRITERS = 4
RECORDS_MAX = 20
BATCHES_PER_CHECKPOINT = 15
LOCKED = 3


def value_of(offset: int) -> bytes:
    """What must be found at this offset, whoever wrote it."""
    return b"%d," % offset * (1 + offset % 40)


def batch_at(offset: int) -> Batch:
    size = 1 + offset * 7 % RECORDS_MAX
    return batch(*map(value_of, range(offset, offset + size)), zstd=offset % 3 == 0)


def say(*words: object) -> None:
    print(*words, flush=True)


async def write(log: Log, batches_max: int | None) -> None:
    """One of several that append and wait, so that a commit serves many."""
    for number in count(1):
        log.append([batch_at(log.end_offset)], SystemClock().now())
        end = log.end_offset
        await log.commit()
        say("confirmed", end)
        if number % BATCHES_PER_CHECKPOINT == 0:
            await log.checkpoint()
        if number == batches_max:
            break


async def write_until_told(log: Log, batches_max: int | None) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_at_signal, nursery.cancel_scope)
        async with trio.open_nursery() as writers:
            for _ in range(WRITERS):
                writers.start_soon(write, log, batches_max)
        nursery.cancel_scope.cancel()


async def cancel_at_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


async def live(path: str, batches_max: int | None) -> int:
    async with trio.open_nursery() as nursery:
        volume = Volume(RealDisk())
        await nursery.start(volume.run)
        try:
            directory = await DataDirectory.open(volume, path, node="one", random=Random(0))
        except DataDirectoryLocked as error:
            say("locked by", error.details["pid"])
            nursery.cancel_scope.cancel()
            return LOCKED
        say("started")
        log = await Log.open(volume, directory.log_directory("orders", 0), CONFIG)
        await write_until_told(log, batches_max)
        await log.close()
        directory.release()
        say("closed", log.end_offset)
        nursery.cancel_scope.cancel()
    return 0


if __name__ == "__main__":
    sys.exit(trio.run(live, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None))

"""Data directories on the real disk, and the command line called on them."""

from pathlib import Path
from random import Random

import trio
from click.testing import CliRunner, Result

from goqueue.cli import main
from goqueue.config import LogConfig
from goqueue.core.records.batch import Batch, Producer, accept
from goqueue.core.records.record import DELAY_BIT, encode_record
from goqueue.storage.directory.datadirectory import DataDirectory
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume

NOW = 1_700_000_000_000_000
CONFIG = LogConfig(segment_bytes=3_000)
BATCHES = 12
RECORDS_PER_BATCH = 4


def goqueue(*arguments: str | Path) -> Result:
    """Run the command line in this process; a traceback fails the test."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def batch_of_all_kinds(number: int) -> Batch:
    """A record with everything, one that is no text, one that is delayed, one that would colour a terminal."""
    records = [
        encode_record(0, NOW, b"hello", key=b"greeting", headers={"trace": b"\1"}, priority=1),
        encode_record(1, NOW + 1, b"\xff\xfe" * 40),
        encode_record(2, NOW + 2, b"later", due=DELAY_BIT | 5_000_000),
        encode_record(3, NOW + 3, b"\x1b[31mred", key=b"\x80"),
    ]
    producer = Producer(7, 1, number * RECORDS_PER_BATCH)
    return accept(b"".join(records), len(records), producer=producer)


async def _build(path: str) -> None:
    async with trio.open_nursery() as nursery:
        volume = Volume(RealDisk())
        await nursery.start(volume.run)
        directory = await DataDirectory.open(volume, path, node="one", random=Random(0))
        log = await Log.open(volume, directory.log_directory("orders", 0), CONFIG)
        for number in range(BATCHES):
            log.append([batch_of_all_kinds(number)], NOW + number)
            await log.commit()
        await log.close()
        journal, _ = await Journal.open(volume, f"{path}/groups", "progress")
        journal.append([b"first", b"second"])
        await journal.close()
        directory.release()
        nursery.cancel_scope.cancel()


def build(path: Path) -> Path:
    """A data directory with one log of several segments and one journal, left in good order."""
    trio.run(_build, str(path))
    return path


def segments(data: Path) -> list[Path]:
    return sorted((data / "logs/orders/0").glob("*.log"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def everything_in(data: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder with its time of change, and what it holds."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [data, *sorted(data.rglob("*"))]
    }

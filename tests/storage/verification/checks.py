"""Short words for the tests of verification: a log to damage, and what verification says of it."""

from goqueue.config import LogConfig
from goqueue.core.records.batch import Envelope, parse_envelope
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import Finding, FindingKind, Report
from goqueue.storage.verification.verify import verify
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import DIRECTORY, SMALL, batch, file_names, open_log, path_of, publish

BIG = LogConfig()
DATA = "/data"
POINT = f"{DIRECTORY}/recovery-point"
JOURNAL = f"{DATA}/groups/progress"
PACKED = b"a value that can be packed " * 20


async def closed_log(volume: Volume, count: int = 30, config: LogConfig = SMALL) -> None:
    """An orderly closed log of two records a batch, each third batch packed."""
    log = await open_log(volume, config)
    for number in range(count):
        await publish(log, batch(b"value %d" % number, PACKED, key=b"key", zstd=number % 3 == 0))
    await log.close()


async def closed_journal(volume: Volume) -> None:
    directory, _, name = JOURNAL.rpartition("/")
    journal, _ = await Journal.open(volume, directory, name)
    for number in range(5):
        journal.append([b"entry %d" % number])
        await journal.commit()
    await journal.close()


async def checked(disk: SimulatedDisk, path: str = DIRECTORY) -> Report:
    """The report, after making sure that nothing was touched."""
    before, writes = contents(disk), disk.counts.writes
    report = await verify(disk, path)
    assert contents(disk) == before
    assert disk.counts.writes == writes
    return report


async def only_finding(disk: SimulatedDisk, path: str = DIRECTORY) -> Finding:
    [finding] = (await checked(disk, path)).findings()
    return finding


async def kinds(disk: SimulatedDisk, path: str = DIRECTORY) -> list[FindingKind]:
    return [finding.kind for finding in (await checked(disk, path)).findings()]


def contents(disk: SimulatedDisk, directory: str = "") -> dict[str, bytes]:
    """Every file below a folder."""
    found: dict[str, bytes] = {}
    for name in disk.list(directory or "/"):
        path = f"{directory}/{name}"
        if disk.is_directory(path):
            found |= contents(disk, path)
        else:
            found[path] = whole(disk, path)
    return found


def whole(disk: SimulatedDisk, path: str) -> bytes:
    return bytes(disk._names.find_file(path).view)


def overwrite(disk: SimulatedDisk, path: str, data: bytes) -> None:
    """Put other contents into a file, as somebody else on the machine would."""
    file = disk.open(path, create=True)
    file.write(0, [data])
    file.truncate(len(data))
    file.close()


def flip_byte(disk: SimulatedDisk, path: str, position: int, mask: int = 0xFF) -> None:
    for bit in range(8):
        if mask >> bit & 1:
            disk.flip_bit(path, position, bit)


def bases(disk: SimulatedDisk) -> list[int]:
    return [int(name.removesuffix(".log")) for name in file_names(disk, ".log")]


def places(disk: SimulatedDisk, base: int) -> list[tuple[int, Envelope]]:
    """Where the batches of a segment lie."""
    data, position, found = whole(disk, path_of(base)), 0, []
    while (envelope := parse_envelope(data, position)) is not None:
        found.append((position, envelope))
        position += envelope.size
    return found


def span(finding: Finding) -> tuple[int | None, int | None, int | None, int | None]:
    return finding.position, finding.end_position, finding.offset, finding.end_offset

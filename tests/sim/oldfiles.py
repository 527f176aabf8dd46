"""Files of groups as earlier versions wrote them, between two lives of the broker.

The next life imports them, and may end at any moment of that. What they say is what the newer
files said.
"""

from goqueue.storage.journals.claim import encode_claim
from goqueue.storage.journals.file import FrameKind, encode_frame, pack_entries
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import FOLDER, JOURNAL, is_snapshot
from goqueue.storage.snapshotlog.reading import read_records
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import mounted
from tests.storage.oldregister import as_before_the_import

LOGS = "/data/logs"


async def make_older(disk: SimulatedDisk) -> int:
    """Put journals in the place of the groups in the metadata, and of each companion log that is sound. Returns how
    many."""
    folders = [f"{LOGS}/{topic}/{number}" for topic in disk.list(LOGS) for number in disk.list(f"{LOGS}/{topic}")]
    async with mounted(disk) as volume:
        made = [await _make_older(volume, disk, each) for each in folders if disk.is_directory(f"{each}/{FOLDER}")]
    return sum(made) + await as_before_the_import(disk)


async def _make_older(volume: Volume, disk: SimulatedDisk, folder: str) -> bool:
    found = await read_records(volume, f"{folder}/{FOLDER}")
    values = [item for item in found.items if isinstance(item, bytes)]
    if not values or len(values) < len(found.items):
        return False
    last = max((number for number, value in enumerate(values) if is_snapshot(value)), default=-1)
    head = encode_frame(FrameKind.SNAPSHOT, 0, 0, values[last]) if last >= 0 else encode_frame(FrameKind.MARK, 0, 0)
    entries = values[last + 1 :]
    frames = [encode_frame(FrameKind.ENTRIES, n, n, pack_entries([each])) for n, each in enumerate(entries, 1)]
    await volume.replace(folder, JOURNAL, [head, *frames])
    await volume.replace(folder, f"{JOURNAL}.durable", [encode_claim(len(entries) + 1)])
    for name in disk.list(f"{folder}/{FOLDER}"):
        disk.remove(f"{folder}/{FOLDER}/{name}")
    disk.remove_directory(f"{folder}/{FOLDER}")
    await volume.sync(directories=[folder])
    return True

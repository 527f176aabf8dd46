"""Verification knows journals and the mark of the data directory, and names formats that it does not know."""

from random import Random
from typing import ClassVar
from uuid import UUID

import pytest
from crc32c import crc32c
from trio.testing import MockClock

from goqueue.core.records import batch as batches
from goqueue.core.records.batch import ENVELOPE_SIZE
from goqueue.errors import DiskFailed, UnknownFormat
from goqueue.storage.checkedjson import pack
from goqueue.storage.directory.datadirectory import INCOMPLETE, DataDirectory
from goqueue.storage.journals.file import FrameKind, encode_frame
from goqueue.storage.log.summary import HEAD_SIZE
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import FindingKind
from goqueue.storage.verification.verify import verify
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.file import SimulatedFile
from tests.storage.logs import DIRECTORY, file_names, mounted, open_log, path_of
from tests.storage.verification.checks import (
    BIG,
    DATA,
    JOURNAL,
    POINT,
    checked,
    closed_journal,
    closed_log,
    kinds,
    only_finding,
    overwrite,
    places,
    whole,
)

SECOND = 8
"""Where the second segment begins."""


# Journals


async def test_a_lost_journal_entry_is_named(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_journal(volume)
    await closed_log(volume, count=1)
    frame = len(encode_frame(FrameKind.MARK, 0, 0))
    disk.flip_bit(JOURNAL, frame + 20, 0)
    [finding] = (await checked(disk, DATA)).damage()
    assert (finding.kind, finding.path, finding.position) == (FindingKind.LOST_ENTRIES, JOURNAL, frame)
    assert "entries 1 to 1 are" in finding.text


async def test_a_journal_is_known_although_its_first_byte_is_damaged(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_journal(volume)
    await closed_log(volume, count=1)
    disk.flip_bit(JOURNAL, 0, 0)
    [finding] = (await checked(disk, DATA)).damage()
    assert (finding.kind, finding.path, finding.position) == (FindingKind.LOST_ENTRIES, JOURNAL, 0)


@pytest.mark.parametrize("path", [f"{DATA}/groups/registry", f"{DIRECTORY}/ledgers"])
@pytest.mark.parametrize("left", [b"", b"nothing of a journal's" * 10])
async def test_the_journals_of_groups_are_known_by_their_names_whatever_is_left_of_them(
    path: str, left: bytes, volume: Volume, disk: SimulatedDisk
) -> None:
    await closed_log(volume, count=1)
    await volume.make_directories(path.rpartition("/")[0])
    overwrite(disk, path, left)
    [finding] = (await checked(disk, DATA)).damage()
    assert (finding.kind, finding.path) == (FindingKind.LOST_ENTRIES, path)


@pytest.mark.parametrize("left", [b"", b"GQJ\1half", bytes(8)])
async def test_what_is_left_of_a_journal_that_has_no_name_yet_is_no_damage(
    left: bytes, volume: Volume, disk: SimulatedDisk
) -> None:
    await closed_log(volume, count=1)
    path = f"{DIRECTORY}/ledgers.new"
    overwrite(disk, path, left)
    report = await checked(disk, DATA)
    assert report.damage() == ()
    found = [finding.kind for finding in report.findings() if finding.path == path]
    assert found == ([FindingKind.TORN_TAIL] if left else [])


async def test_the_torn_tail_of_a_journal_is_a_warning(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_journal(volume)
    await closed_log(volume, count=1)
    size = disk.size(JOURNAL)
    disk.open(JOURNAL).write(size, [b"GQJ\1half"])
    report = await checked(disk, DATA)
    [finding] = [finding for finding in report.findings() if finding.path == JOURNAL]
    assert (finding.kind, finding.position, finding.end_position) == (FindingKind.TORN_TAIL, size, size + 8)
    assert report.damage() == ()


async def test_a_file_that_is_no_journal_is_left_alone(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume, count=1)
    overwrite(disk, f"{DIRECTORY}/notes", b"nothing of goqueue's" * 100)
    assert (await checked(disk)).findings() == ()


async def test_what_a_start_set_aside_is_mentioned(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume, count=1)
    disk.open(path_of(0)).write(disk.size(path_of(0)), [b"garbage"])
    await (await open_log(volume)).close()
    finding = await only_finding(disk)
    assert finding.kind is FindingKind.KEPT_ASIDE
    assert finding.path == f"{DIRECTORY}/{file_names(disk, '.torn')[0]}"


# Formats of tomorrow


def of_version(data: bytes, position: int, version: int) -> bytes:
    """The batch at this place, as a newer goqueue would have written it."""
    changed = bytearray(data)
    changed[position + 3] = version
    seed = crc32c(batches.MAGIC + bytes([version]))
    changed[position + 4 : position + 8] = crc32c(data[position + 8 : position + ENVELOPE_SIZE], seed).to_bytes(
        4, "big"
    )
    return bytes(changed)


async def test_a_batch_of_an_unknown_version_is_named_and_what_lies_before_it_is_read(
    volume: Volume, disk: SimulatedDisk
) -> None:
    await closed_log(volume, count=5, config=BIG)
    position, envelope = places(disk, 0)[3]
    overwrite(disk, path_of(0), of_version(whole(disk, path_of(0)), position, 2))
    report = await checked(disk)
    [finding] = report.damage()
    assert (finding.kind, finding.path, finding.position) == (FindingKind.UNKNOWN_FORMAT, path_of(0), position)
    assert "version 2" in finding.text
    assert report.partitions[0].segments[0].records == 6
    assert finding.offset == envelope.base_offset


def of_later_version(data: bytes, size: int) -> bytes:
    """A seal's head, or a whole recovery point, as a newer goqueue might write it."""
    changed = data[:3] + b"\7"
    return changed + crc32c(data[8:size], crc32c(changed)).to_bytes(4, "big") + data[8:]


@pytest.mark.parametrize(
    ("path", "word", "size"), [(path_of(0, ".seal"), "seal", HEAD_SIZE), (POINT, "recovery point", 10**9)]
)
async def test_a_seal_or_recovery_point_of_an_unknown_version_is_named(
    volume: Volume, disk: SimulatedDisk, path: str, word: str, size: int
) -> None:
    await closed_log(volume)
    overwrite(disk, path, of_later_version(whole(disk, path), size))
    [finding] = (await checked(disk)).damage()
    assert (finding.kind, finding.path) == (FindingKind.UNKNOWN_FORMAT, path)
    assert f"{word} version 7" in finding.text


@pytest.mark.parametrize("path", [path_of(0, ".seal"), POINT])
async def test_a_flipped_bit_in_a_version_is_no_newer_version(
    volume: Volume, disk: SimulatedDisk, path: str
) -> None:
    await closed_log(volume)
    disk.flip_bit(path, 3, 1)
    assert (await checked(disk)).damage() == ()


async def test_a_journal_of_an_unknown_version_is_named(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_journal(volume)
    await closed_log(volume, count=1)
    frame = bytearray(encode_frame(FrameKind.MARK, 0, 0))
    frame[3] = 2
    frame[4:8] = crc32c(frame[8:], crc32c(b"\2")).to_bytes(4, "big")
    overwrite(disk, JOURNAL, bytes(frame))
    [finding] = (await checked(disk, DATA)).damage()
    assert (finding.kind, finding.path) == (FindingKind.UNKNOWN_FORMAT, JOURNAL)


@pytest.mark.parametrize(
    ("meta", "kind"),
    [
        (
            b'{"format": 2, "cluster": "5a2f9a3e-0000-4000-8000-000000000000", "node": "n"}',
            FindingKind.UNKNOWN_FORMAT,
        ),
        (b'{"format": 1, "cluster": "5a2f9a3e', FindingKind.META_DAMAGED),
        (b'{"format": 1}', FindingKind.META_DAMAGED),
        (None, FindingKind.META_MISSING),
    ],
)
async def test_the_mark_of_the_data_directory_is_read(
    volume: Volume, disk: SimulatedDisk, meta: bytes | None, kind: FindingKind
) -> None:
    await closed_log(volume, count=1)
    if meta is not None:
        overwrite(disk, f"{DATA}/meta.json", meta)
    finding = await only_finding(disk, DATA)
    assert (finding.kind, finding.path) == (kind, f"{DATA}/meta.json")


@pytest.mark.parametrize("path", ["/nowhere", "/data", "/data/logs/orders/0/recovery-point"])
async def test_what_is_no_directory_of_goqueues_is_refused(volume: Volume, disk: SimulatedDisk, path: str) -> None:
    disk.make_directory("/data")
    with pytest.raises(UnknownFormat, match="give the"):
        await verify(disk, path)


# What the system will not read


class Unreadable(SimulatedDisk):
    """Has one file that cannot be opened any more."""

    broken: ClassVar[str] = ""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimulatedFile:
        if path == self.broken and not writable:
            raise DiskFailed(f"{path}: Input/output error; look at the system's log", path=path)
        return super().open(path, create=create, writable=writable)


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (path_of(SECOND), path_of(SECOND)),
        (path_of(SECOND, ".seal"), path_of(SECOND, ".seal")),
        (path_of(SECOND, ".index"), path_of(SECOND, ".index")),
        (POINT, DIRECTORY),
        (JOURNAL, JOURNAL),
        (f"{DATA}/meta.json", f"{DATA}/meta.json"),
    ],
)
async def test_a_file_that_cannot_be_read_is_named(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, broken: str, named: str
) -> None:
    disk = Unreadable(Random(0))
    async with mounted(disk) as volume:
        (await DataDirectory.open(volume, DATA, node="one", random=Random(0))).release()
        await closed_log(volume)
        await closed_journal(volume)
    monkeypatch.setattr(Unreadable, "broken", broken)
    finding = await only_finding(disk, DATA)
    assert (finding.kind, finding.path) == (FindingKind.UNREADABLE, named)
    assert "Input/output error" in finding.text


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"uuid": 5}', pack({"uuid": str(UUID(int=1))})[:-9] + b'0"}\n']
)
async def test_a_damaged_signature_of_a_partition_is_a_warning(
    volume: Volume, disk: SimulatedDisk, data: bytes
) -> None:
    await closed_log(volume)
    path = f"{DIRECTORY}/topic.json"
    disk.open(path, create=True).close()
    overwrite(disk, path, pack({"uuid": str(UUID(int=1))}))
    assert await kinds(disk) == []
    overwrite(disk, path, data)
    finding = await only_finding(disk)
    assert (finding.kind, finding.path, finding.is_damage) == (FindingKind.IDENTITY_DAMAGED, path, False)


async def test_a_copy_that_was_not_finished_is_damage(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    path = f"{DATA}/{INCOMPLETE}"
    disk.open(path, create=True).close()
    [finding] = (await checked(disk, DATA)).damage()
    assert (finding.kind, finding.path) == (FindingKind.INCOMPLETE, path)

"""A dump shows what is in a file, in order, with damage in its place, and streams."""

from contextlib import aclosing

import pytest
from crc32c import crc32c

from goqueue.config import LogConfig
from goqueue.core.records.batch import ENVELOPE_SIZE, seal_envelope
from goqueue.core.records.record import decode_records
from goqueue.errors import UnknownFormat
from goqueue.storage.journals.file import FrameKind
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.dump import (
    FileKind,
    FrameRow,
    PlaceRow,
    PointRow,
    Row,
    SealRow,
    TimeRow,
    dump,
    kind_of,
)
from goqueue.storage.verification.findings import Finding, FindingKind
from goqueue.storage.verification.segmentdump import EVERYTHING, BatchRow, RecordRow, Selection
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import DIRECTORY, NOW, batch, file_names, open_log, path_of
from tests.storage.verification.checks import (
    BIG,
    JOURNAL,
    POINT,
    closed_journal,
    closed_log,
    contents,
    overwrite,
    places,
    span,
    whole,
)

RECORDS = Selection(records=True)


async def dumped(
    disk: SimulatedDisk, path: str, selection: Selection = EVERYTHING, limit: int | None = None
) -> list[Row]:
    """The file's rows, after making sure that nothing was touched."""
    before = contents(disk)
    async with aclosing(dump(disk, path, await kind_of(disk, path), selection, limit)) as rows:
        found = [row async for row in rows]
    assert contents(disk) == before
    return found


async def test_each_batch_is_a_row(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume, count=5, config=BIG)
    expected = [BatchRow(position, envelope) for position, envelope in places(disk, 0)]
    assert await dumped(disk, path_of(0)) == expected
    assert len(expected) == 5


async def test_each_record_is_a_row_when_asked_for(volume: Volume, disk: SimulatedDisk) -> None:
    """Packed or not."""
    await closed_log(volume, count=5, config=BIG)
    rows = await dumped(disk, path_of(0), RECORDS)
    assert [row.record.offset for row in rows if isinstance(row, RecordRow)] == list(range(10))
    assert [row.batch_position for row in rows[::2] if isinstance(row, RecordRow)] == [
        position for position, _ in places(disk, 0)
    ]
    position, envelope = places(disk, 0)[1]
    body = whole(disk, path_of(0))[position + ENVELOPE_SIZE : position + envelope.size]
    records = list(decode_records(body, 2, 2))
    assert rows[2:4] == [RecordRow(position, 2, record) for record in records]


async def test_it_begins_at_an_offset_and_ends_after_some_rows(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume, count=10, config=BIG)
    rows = await dumped(disk, path_of(0), Selection(records=True, from_offset=5), limit=3)
    assert [row.record.offset for row in rows if isinstance(row, RecordRow)] == [5, 6, 7]
    batches = await dumped(disk, path_of(0), Selection(from_offset=5), limit=2)
    assert [row.envelope.base_offset for row in batches if isinstance(row, BatchRow)] == [4, 6]


@pytest.mark.parametrize("selection", [EVERYTHING, RECORDS])
async def test_damage_is_a_row_in_its_place(volume: Volume, disk: SimulatedDisk, selection: Selection) -> None:
    await closed_log(volume, count=5, config=BIG)
    position, envelope = places(disk, 0)[2]
    disk.flip_bit(path_of(0), position + 100, 0)
    rows = await dumped(disk, path_of(0), selection)
    [number] = [number for number, row in enumerate(rows) if isinstance(row, Finding)]
    assert number == (4 if selection.records else 2)
    finding = rows[number]
    assert isinstance(finding, Finding)
    assert (finding.kind, *span(finding)) == (
        *(FindingKind.DAMAGED_BATCHES, position),
        *(position + envelope.size, 4, 6),
    )


async def test_damage_counts_for_no_row_of_the_limit_and_is_skipped_before_the_offset(
    volume: Volume, disk: SimulatedDisk
) -> None:
    await closed_log(volume, count=5, config=BIG)
    disk.flip_bit(path_of(0), places(disk, 0)[1][0] + 100, 0)
    assert [type(row) for row in await dumped(disk, path_of(0), limit=2)] == [BatchRow, Finding, BatchRow]
    assert [type(row) for row in await dumped(disk, path_of(0), Selection(from_offset=4))] == [BatchRow] * 3


async def test_records_that_are_not_what_the_envelope_says_are_a_finding(
    volume: Volume, disk: SimulatedDisk
) -> None:
    await closed_log(volume, count=3, config=BIG)
    position, envelope = places(disk, 0)[1]
    disk.open(path_of(0)).write(position, [seal_envelope(envelope._replace(record_count=1))])
    batches = await dumped(disk, path_of(0))
    assert [type(row) for row in batches] == [BatchRow, Finding, BatchRow, BatchRow]
    records = await dumped(disk, path_of(0), RECORDS)
    assert [type(row) for row in records] == [RecordRow, RecordRow, Finding, RecordRow, RecordRow]


async def test_a_batch_of_an_unknown_version_ends_the_dump_by_name(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume, count=3, config=BIG)
    data, (position, _) = bytearray(whole(disk, path_of(0))), places(disk, 0)[1]
    data[position + 3] = 9
    crc = crc32c(data[position + 8 : position + ENVELOPE_SIZE], crc32c(b"GQB\x09"))
    data[position + 4 : position + 8] = crc.to_bytes(4, "big")
    overwrite(disk, path_of(0), bytes(data))
    first, finding = await dumped(disk, path_of(0))
    assert isinstance(first, BatchRow)
    assert isinstance(finding, Finding)
    assert (finding.kind, finding.position, finding.offset) == (FindingKind.UNKNOWN_FORMAT, position, 2)


async def test_a_piece_that_was_set_aside_is_read_by_its_first_batch(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, BIG)
    log.append([batch(b"sound")], NOW)
    size = disk.size(path_of(0))
    for value in (b"damaged", b"sound again"):
        log.append([batch(value)], NOW)
    data = whole(disk, path_of(0))
    overwrite(disk, f"{DIRECTORY}/piece.torn", data[size:])
    rows = await dumped(disk, f"{DIRECTORY}/piece.torn", RECORDS)
    assert [row.record.offset for row in rows if isinstance(row, RecordRow)] == [1, 2]


async def test_index_entries_are_rows(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume, count=50, config=LogConfig(segment_bytes=15_000))
    places_found = await dumped(disk, path_of(56, ".index"))
    begins = {(envelope.base_offset, position) for position, envelope in places(disk, 56)}
    assert [row.number for row in places_found if isinstance(row, PlaceRow)] == [0, 1]
    assert {(row.offset, row.position) for row in places_found if isinstance(row, PlaceRow)} <= begins
    times = await dumped(disk, path_of(0, ".timeindex"))
    assert times == [TimeRow(number, NOW) for number in range(4)]


async def test_what_is_wrong_with_an_index_is_a_row(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume, count=50, config=LogConfig(segment_bytes=15_000))
    data = whole(disk, path_of(0, ".index"))
    overwrite(disk, path_of(0, ".index"), data[8:16] + data[:8] + data[16:] + b"half")
    rows = await dumped(disk, path_of(0, ".index"))
    assert [type(row) for row in rows] == [PlaceRow, Finding, PlaceRow, PlaceRow, PlaceRow, Finding]
    assert [row.position for row in rows if isinstance(row, Finding)] == [8, 32]


async def test_a_seal_and_a_recovery_point_are_a_row_each(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    [seal] = await dumped(disk, path_of(0, ".seal"))
    assert isinstance(seal, SealRow)
    assert seal.seal.head.summary.size == disk.size(path_of(0))
    assert seal.seal.history.epochs == [(1, 0)]
    [point] = await dumped(disk, POINT)
    assert isinstance(point, PointRow)
    assert point.point.offset == 60
    assert point.growing is not None
    assert f"{point.growing.summary.base_offset:020d}.log" == file_names(disk, ".log")[-1]


@pytest.mark.parametrize(
    ("path", "kind"),
    [(path_of(0, ".seal"), FindingKind.SEAL_DAMAGED), (POINT, FindingKind.RECOVERY_POINT_DAMAGED)],
)
async def test_a_damaged_seal_or_recovery_point_is_a_finding(
    volume: Volume, disk: SimulatedDisk, path: str, kind: FindingKind
) -> None:
    await closed_log(volume)
    disk.flip_bit(path, 20, 0)
    [finding] = await dumped(disk, path)
    assert isinstance(finding, Finding)
    assert finding.kind is kind


async def test_a_journals_frames_are_rows_with_lost_ones_in_their_place(
    volume: Volume, disk: SimulatedDisk
) -> None:
    await closed_journal(volume)
    rows = await dumped(disk, JOURNAL)
    frames = [row.frame.kind for row in rows if isinstance(row, FrameRow)]
    assert frames == [FrameKind.MARK, *[FrameKind.ENTRIES] * 5, FrameKind.MARK]
    third = rows[2]
    assert isinstance(third, FrameRow)
    disk.flip_bit(JOURNAL, third.position + 33, 0)
    disk.open(JOURNAL).write(disk.size(JOURNAL), [b"torn"])
    damaged = await dumped(disk, JOURNAL)
    assert damaged[:2] == rows[:2]
    assert damaged[3:-1] == rows[3:]
    lost, torn = damaged[2], damaged[-1]
    assert isinstance(lost, Finding)
    assert isinstance(torn, Finding)
    assert (lost.kind, lost.position) == (FindingKind.LOST_ENTRIES, third.position)
    assert (torn.kind, torn.end_position) == (FindingKind.TORN_TAIL, disk.size(JOURNAL))


async def test_a_journal_of_an_unknown_version_is_shown_up_to_there(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_journal(volume)
    third = (await dumped(disk, JOURNAL))[2]
    assert isinstance(third, FrameRow)
    data, end = bytearray(whole(disk, JOURNAL)), third.position + third.frame.size
    data[third.position + 3] = 2
    crc = crc32c(data[third.position + 8 : end], crc32c(b"\2"))
    data[third.position + 4 : third.position + 8] = crc.to_bytes(4, "big")
    overwrite(disk, JOURNAL, bytes(data))
    rows = await dumped(disk, JOURNAL)
    assert [type(row) for row in rows] == [FrameRow, FrameRow, Finding]
    unknown = rows[2]
    assert isinstance(unknown, Finding)
    assert (unknown.kind, unknown.position) == (FindingKind.UNKNOWN_FORMAT, third.position)


async def test_a_file_is_known_by_its_name_or_by_how_it_begins(volume: Volume, disk: SimulatedDisk) -> None:
    await closed_log(volume)
    await closed_journal(volume)
    expected = {
        path_of(0): FileKind.SEGMENT,
        path_of(0, ".index"): FileKind.OFFSET_INDEX,
        path_of(0, ".timeindex"): FileKind.TIME_INDEX,
        path_of(0, ".seal"): FileKind.SEAL,
        POINT: FileKind.RECOVERY_POINT,
        JOURNAL: FileKind.JOURNAL,
    }
    assert {path: await kind_of(disk, path) for path in expected} == expected
    for path in (path_of(0), path_of(0, ".seal")):
        overwrite(disk, f"{DIRECTORY}/copy", whole(disk, path))
        assert await kind_of(disk, f"{DIRECTORY}/copy") is expected[path]
    disk.flip_bit(JOURNAL, 0, 0)
    assert await kind_of(disk, JOURNAL) is FileKind.JOURNAL
    overwrite(disk, f"{DIRECTORY}/copy", b"something else")
    with pytest.raises(UnknownFormat, match="no file of goqueue's"):
        await kind_of(disk, f"{DIRECTORY}/copy")

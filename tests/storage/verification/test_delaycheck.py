"""The delay index under verification and in a dump: every flipped byte is noticed, and none of it is damage."""

from contextlib import aclosing

import pytest

from goqueue.core.delays.pending import DelayChange, DelayState
from goqueue.storage.delays import entries as delayentries
from goqueue.storage.delays.entries import ENTRY_SIZE, HEADER_SIZE, encode_entries, encode_header
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.delaycheck import DelayRow
from goqueue.storage.verification.dump import FileKind, Row, dump, kind_of
from goqueue.storage.verification.findings import Finding, FindingKind
from goqueue.testing.disk import SimulatedDisk
from tests.storage.delays.indexes import PATH, compact, ended, opened, pending
from tests.storage.verification.checks import checked, closed_log, flip_byte, kinds, only_finding, overwrite, whole

ENTRIES = [pending(3, 9_000), pending(5, 8_000), ended(DelayState.CANCELLED, 5, 9), pending(3, 9_500, 10)]
PLACES = [HEADER_SIZE + number * ENTRY_SIZE for number in range(4)]


async def with_index(volume: Volume) -> None:
    """Beside a sound log, an index of some entries."""
    await closed_log(volume)
    index, _ = await opened(volume)
    index.append(ENTRIES)
    await index.close()


async def dumped(disk: SimulatedDisk, limit: int | None = None) -> list[Row]:
    kind = await kind_of(disk, PATH)
    assert kind is FileKind.DELAY_INDEX
    async with aclosing(dump(disk, PATH, kind, limit=limit)) as rows:
        return [row async for row in rows]


async def test_a_sound_index_is_not_mentioned_and_its_entries_are_rows(volume: Volume, disk: SimulatedDisk) -> None:
    await with_index(volume)
    assert await kinds(disk) == []
    expected = [DelayRow(place, entry, False) for place, entry in zip(PLACES, ENTRIES, strict=True)]
    assert await dumped(disk) == expected
    assert await dumped(disk, limit=2) == expected[:2]
    index, _ = await opened(volume)
    await compact(index, [3], [9_500], [ENTRIES[2]], 12)
    await index.close()
    assert await kinds(disk) == []
    assert await dumped(disk) == [
        DelayRow(PLACES[0], pending(3, 9_500), True),
        DelayRow(PLACES[1], ENTRIES[2], True),
        DelayRow(PLACES[2], DelayChange(DelayState.MARK, 0, 0, 12), False),
    ]


async def test_every_flipped_byte_is_named_by_its_place(volume: Volume, disk: SimulatedDisk) -> None:
    await with_index(volume)
    for position in range(disk.size(PATH)):
        harmed = disk.kill()
        flip_byte(harmed, PATH, position, 1 << position % 8)
        finding = await only_finding(harmed)
        assert (finding.kind, finding.path, finding.is_damage) == (FindingKind.INDEX_DAMAGED, PATH, False)
        begin = max((place for place in PLACES if place <= position), default=0)
        assert (finding.position, finding.end_position) == (begin, disk.size(PATH))
        rows = await dumped(harmed)
        assert rows[-1] == finding
        assert [row.entry for row in rows[:-1] if isinstance(row, DelayRow)] == ENTRIES[: len(rows) - 1]
        assert len(rows) - 1 == PLACES.index(begin) if begin else len(rows) == 1


async def test_every_cut_is_named_but_one_between_entries(volume: Volume, disk: SimulatedDisk) -> None:
    await with_index(volume)
    for size in range(disk.size(PATH)):
        harmed = disk.kill()
        harmed.cut(PATH, size)
        assert await kinds(harmed) == ([] if size in PLACES[1:] else [FindingKind.INDEX_DAMAGED])


@pytest.mark.parametrize("what", ["version", "state"])
async def test_what_a_newer_goqueue_wrote_is_named_as_such(volume: Volume, disk: SimulatedDisk, what: str) -> None:
    await closed_log(volume)
    header, state = encode_header(), DelayState.PENDING
    if what == "version":
        with pytest.MonkeyPatch.context() as newer:
            newer.setattr(delayentries, "VERSION", 2)
            header = encode_header()
    else:
        state = 9  # type: ignore[assignment]
    overwrite(disk, PATH, header + encode_entries([DelayChange(state, 1, 2, 3)]))
    [finding] = (await checked(disk)).damage()
    assert (finding.kind, finding.path) == (FindingKind.UNKNOWN_FORMAT, PATH)
    assert [row for row in await dumped(disk) if isinstance(row, Finding)] == [finding]


async def test_entries_that_belong_to_an_older_file_are_not_believed(volume: Volume, disk: SimulatedDisk) -> None:
    """A start cuts them off."""
    await with_index(volume)
    overwrite(disk, PATH, whole(disk, PATH) + encode_entries([pending(1, 5)]))
    finding = await only_finding(disk)
    assert (finding.kind, finding.position) == (FindingKind.INDEX_DAMAGED, PLACES[-1] + ENTRY_SIZE)

"""A start knows the message ids of the last two minutes again, and reads no more than it must for that."""

from random import Random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.config import LogConfig
from goqueue.core.delays.events import cancel_batch, move_batch
from goqueue.core.log.messageids import REMEMBERED_FOR, MessageIds
from goqueue.core.records.batch import Attribute
from goqueue.core.records.record import Flag
from goqueue.environment import File
from goqueue.errors import DiskFailed
from goqueue.storage.compaction.bykey import compact_by_key
from goqueue.storage.log.idrecall import recall_ids
from goqueue.storage.log.index import SparseIndex
from goqueue.storage.log.log import Log
from goqueue.storage.log.segment import Segment, read_head
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import (
    NOW,
    SMALL,
    batch,
    envelopes_in,
    file_names,
    mounted,
    open_log,
    path_of,
    publish,
    values_in,
)

SECOND = 1_000_000
LARGE = LogConfig(segment_bytes=64 * 1024 * 1024)
LATER = NOW + 3_600 * SECOND


async def recalled(log: Log) -> dict[bytes, int]:
    return {note.message_id: note.offset for note in await recall_ids(log)}


async def test_ids_of_all_kinds_of_batches_are_known_again(volume: Volume, disk: SimulatedDisk) -> None:
    """Compressed, among messages without ids, in sealed segments and in the one that grows."""
    log = await open_log(volume)
    await publish(log, batch(bytes(900), b"", ids=[None, b"a"]))
    await publish(log, batch(bytes(900), b"", ids=[b"b", b"c"], zstd=True))
    await publish(log, batch(bytes(900)))
    await publish(log, batch(bytes(900), b"", ids=[b"d", None], due=NOW))
    assert len(file_names(disk, ".log")) > 1
    async with mounted(disk.crash()) as later:
        assert await recalled(await open_log(later)) == {b"a": 1, b"b": 2, b"c": 3, b"d": 5}


async def test_the_two_minutes_end_with_the_last_append_whatever_the_clock_says(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"", ids=[b"old"]), now=NOW)
    await publish(log, batch(b"", ids=[b"edge"]), now=NOW + 1)
    await publish(log, batch(b"last"), now=NOW + REMEMBERED_FOR)
    ids = await recall_ids(log)
    assert [ids.find(each, log.append_time) for each in (b"old", b"edge")] == [None, 1]


async def test_a_seal_says_whether_its_segment_holds_ids(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    for number in range(6):
        await publish(log, batch(bytes(1_200), ids=[b"id"] if number == 2 else None))
    await log.checkpoint()
    bases = [int(name.removesuffix(".seal")) for name in file_names(disk, ".seal")]
    heads = [await read_head(volume, path_of(base, ".seal")) for base in bases]
    assert [head is not None and head.summary.holds_ids for head in heads] == [base == 2 for base in bases]
    assert 2 in bases


async def test_segments_without_ids_and_old_ones_are_not_read(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume)
    await publish(log, batch(bytes(1_200), ids=[b"old"]), now=NOW)
    for number in range(20):
        await publish(log, batch(bytes(1_200)), now=NOW + REMEMBERED_FOR + 1 + number)
    await log.close()
    async with mounted(disk) as later:
        log = await open_log(later)
        before = disk.counts.reads
        assert await recalled(log) == {}
        assert disk.counts.reads == before


async def test_of_a_large_segment_only_the_last_two_minutes_are_read(volume: Volume, disk: SimulatedDisk) -> None:
    """A start must not take longer the more a segment has grown."""
    log = await open_log(volume, LARGE)
    for number in range(800):
        log.append([batch(bytes(5_000), ids=[b"%d" % number])], NOW + number * SECOND)
    await log.close()
    async with mounted(disk) as later:
        log = await open_log(later, LARGE)
        before = disk.counts.bytes_read
        found = await recalled(log)
        assert disk.counts.bytes_read - before < 1_000_000 < log.size / 4
    assert found == {b"%d" % number: number for number in range(680, 800)}


async def test_damage_costs_the_ids_in_it_and_no_others(volume: Volume, disk: SimulatedDisk) -> None:
    log = await open_log(volume, LARGE)
    for number in range(200):
        await publish(log, batch(bytes(5_000), ids=[b"%d" % number]), now=NOW + number)
    await log.close()
    batch_size = log.size // 200
    for damaged in (50, 100):
        disk.flip_bit(path_of(0), damaged * batch_size + 10, 3)
    async with mounted(disk) as later:
        log = await open_log(later, LARGE)
        found = await recalled(log)
    assert found == {b"%d" % number: number for number in range(200) if number not in (50, 100)}


async def test_a_disk_that_cannot_be_read_does_not_hold_up_the_start(
    volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log(volume)
    await publish(log, batch(bytes(1_500), ids=[b"lost"]))
    await publish(log, batch(bytes(1_500), ids=[b"found"]))
    [first, _] = log.segments_since(0)

    index = Segment.index

    async def unreadable(segment: Segment, file: File) -> SparseIndex:
        if segment is first:
            raise DiskFailed("input/output error")
        return await index(segment, file)

    monkeypatch.setattr(Segment, "index", unreadable)
    assert await recalled(log) == {b"found": 1}


async def test_what_the_broker_moved_is_no_message_of_a_client(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(b"", ids=[b"fired"], flags=Flag.FIRED))
    assert await recalled(log) == {}


async def test_compaction_leaves_alone_what_a_start_must_know(volume: Volume, disk: SimulatedDisk) -> None:
    """Else a repeat of a superseded message would be written again, and be the newest of its key."""
    log = await open_log(volume)
    for number in range(4):
        await publish(log, batch(b"%d" % number * 1_200, key=b"key", ids=[b"%d" % number]), now=NOW)
    assert not await compact_by_key(log, NOW + REMEMBERED_FOR - 1, keys_max=1)
    async with mounted(disk.crash()) as later:
        assert await recalled(await open_log(later)) == {b"%d" % number: number for number in range(4)}
    assert not await compact_by_key(log, NOW + REMEMBERED_FOR)
    assert len(await values_in(log)) == 1


async def test_a_segment_that_lost_its_ids_to_compaction_says_so(volume: Volume) -> None:
    log = await open_log(volume)
    await publish(log, batch(bytes(1_200), key=b"key", ids=[b"id"]))
    await publish(log, batch(bytes(1_200), key=b"key"), now=NOW + REMEMBERED_FOR)
    await publish(log, batch(bytes(1_200), key=b"key"), now=NOW + REMEMBERED_FOR)
    await compact_by_key(log, NOW + REMEMBERED_FOR)
    assert not any(segment.summary.holds_ids for segment in log.segments_since(0))
    [(envelope, _)] = envelopes_in((await log.read(0, 1)).data)
    assert not envelope.attributes & Attribute.HOLDS_IDS


@pytest.mark.parametrize("filler", [0, 1_500], ids=["the same segment", "another segment"])
async def test_a_start_knows_that_a_cancel_has_freed_an_id(volume: Volume, filler: int) -> None:
    """The segment with the cancel holds no ids itself."""
    log = await open_log(volume)
    await publish(log, batch(bytes(400), bytes(filler), ids=[b"cancelled", b"kept"], due=LATER))
    await publish(log, batch(bytes(filler)), cancel_batch(0, NOW), move_batch(1, LATER, NOW))
    await publish(log, batch(bytes(filler)))
    assert await recalled(log) == {b"kept": 1}
    await publish(log, batch(b"again", ids=[b"cancelled"], due=LATER))
    assert await recalled(log) == {b"kept": 1, b"cancelled": log.end_offset - 1}


steps = st.lists(
    st.tuples(
        st.integers(-SECOND, 50 * SECOND),
        st.lists(st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c", b"d", b"e"])), min_size=1, max_size=3),
        st.sampled_from([0, 50, 700]),
        st.booleans(),
        st.sampled_from(["", "", "checkpoint", "crash", "shut down"]),
    ),
    max_size=25,
)


@given(steps, st.integers(1, 4))
def test_a_start_recalls_what_was_known(
    steps: list[tuple[int, list[bytes | None], int, bool, str]], ids_max: int
) -> None:
    """Any batches at any times, the clock going back now and then; repeats are not written, as in a partition."""

    async def story() -> None:
        disk, now, live = SimulatedDisk(Random(0)), NOW, MessageIds(ids_max)
        async with mounted(disk) as volume:
            log = await open_log(volume, SMALL)
            for pause, offered, size, zstd, then in steps:
                now += pause
                ids = firsts(offered, live, max(now, log.append_time))
                [base] = await publish(log, batch(*[bytes(size)] * len(ids), ids=ids, zstd=zstd), now=now)
                for number, each in enumerate(ids):
                    if each is not None:
                        live.note(each, base + number, log.append_time)
                if then == "checkpoint":
                    await log.checkpoint()
                elif then == "shut down":
                    await log.close()
                    log = await open_log(volume, SMALL)
                elif then == "crash":
                    async with mounted(disk.crash()) as later:
                        await check(await open_log(later, SMALL), live)
            await check(log, live)

    def firsts(offered: list[bytes | None], live: MessageIds, now: int) -> list[bytes | None]:
        seen, ids = set[bytes](), list[bytes | None]()
        for each in offered:
            is_first = each is not None and each not in seen and live.find(each, now) is None
            ids.append(each if is_first else None)
            seen |= {each} if each is not None else set()
        return ids

    async def check(log: Log, live: MessageIds) -> None:
        found, now = await recall_ids(log, ids_max), log.append_time
        for each in (b"a", b"b", b"c", b"d", b"e"):
            assert found.find(each, now) == live.find(each, now)
        log.abandon()

    trio.run(story, clock=MockClock(autojump_threshold=0))

"""The delayed messages of a partition beside their index and timers: whatever happens between, nothing is lost."""

from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delays.pending import DelayedMessages
from goqueue.actors.delays.timers import Timers
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.root import running
from goqueue.actors.statistics.delays import DelayCounts
from goqueue.core.delays.events import cancel_batch, delay_events, move_batch
from goqueue.core.records.batch import Batch, accept
from goqueue.core.records.record import encode_record
from goqueue.storage.delays.index import DelayIndex
from goqueue.storage.delays.scan import read_originals
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import DIRECTORY, mounted, open_log

LATER = 2**50


class Nobody(Actor):
    """Hears nothing: timers of these tests are not taken."""


class Shelf:
    """A log with its delay book, as a partition has them."""

    def __init__(self, volume: Volume, log: Log, book: DelayedMessages) -> None:
        self.volume, self.log, self.book = volume, log, book

    async def write(self, *batches: Batch) -> None:
        for batch in batches:
            self.append(batch)
        await self.log.commit()
        self.show()

    def append(self, batch: Batch) -> None:
        [base] = self.log.append([batch], 1)
        self.book.note_appended(
            delay_events(batch.attributes, base, self.log.append_time, batch.record_count, batch.body)
        )

    def show(self) -> None:
        self.log.advance_high_watermark(self.log.durable_offset)
        self.book.show(self.log.high_watermark)

    async def dues(self) -> dict[int, int]:
        return {offset: self.book.delays.dues[offset] for offset in self.book.delays.pending_from(0, 1_000)}


def delayed(due: int) -> Batch:
    return accept(encode_record(0, 1, b"v", due=due), 1)


@asynccontextmanager
async def shelf(disk: SimulatedDisk) -> AsyncIterator[Shelf]:
    """What a process finds on this disk. At the end nothing is put in order: it is killed."""
    clock, counts = SimulatedClock(start=0), DelayCounts()
    timers, nobody = ChildSpec("timers", lambda: Timers(clock)), ChildSpec("nobody", Nobody)
    async with mounted(disk) as volume, running(timers), running(nobody):
        log = await open_log(volume)
        book = DelayedMessages(volume, clock, DIRECTORY, timers.ref, counts)
        await book.open(log, "orders/0", nobody.ref)
        yield Shelf(volume, log, book)
        book.abandon()
        log.abandon()


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def some_turns(count: int) -> None:
    """Others have so many turns: something has got so far."""
    for _ in range(count):
        await trio.lowlevel.checkpoint()


def index_of(on: Shelf) -> DelayIndex:
    assert on.book._index is not None
    return on.book._index


@pytest.mark.parametrize("turns", range(8))
async def test_what_is_applied_while_the_index_is_compacted_is_not_lost(
    disk: SimulatedDisk, autojump_clock: MockClock, turns: int
) -> None:
    async with shelf(disk) as on, trio.open_nursery() as nursery:
        await on.write(delayed(LATER), delayed(LATER + 1))
        await on.book.settle()
        for number in range(3):
            on.append(delayed(LATER + 2 + number))
        await on.log.commit()
        nursery.start_soon(on.book._compact, index_of(on))
        await some_turns(turns)
        on.show()  # the timers are just being asked for due times
        await trio.testing.wait_all_tasks_blocked()
        await on.book.settle()
        await index_of(on).sync()
        expected = await on.dues()
        assert len(expected) == 5
    async with shelf(disk.crash()) as on:
        assert await on.dues() == expected


@pytest.mark.parametrize("turns", range(8))
async def test_one_that_is_moved_during_a_compaction_keeps_its_new_due_time(
    disk: SimulatedDisk, autojump_clock: MockClock, turns: int
) -> None:
    async with shelf(disk) as on, trio.open_nursery() as nursery:
        await on.write(delayed(LATER), delayed(LATER))
        await on.book.settle()
        on.append(move_batch(1, LATER + 7, 1))
        await on.log.commit()
        nursery.start_soon(on.book._compact, index_of(on))
        await some_turns(turns)
        on.show()
        await trio.testing.wait_all_tasks_blocked()
        await on.book.settle()
        await index_of(on).sync()
    async with shelf(disk.kill()) as on:
        assert await on.dues() == {0: LATER, 1: LATER + 7}


async def test_the_wheel_is_not_trusted(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G8: it may name what is cancelled, moved, or about to be, or name it twice; and what the clock, set back, has
    not reached."""
    async with shelf(disk) as on:
        await on.write(*[delayed(100)] * 5)
        await on.write(cancel_batch(0, 1), move_batch(1, 300, 1))
        on.append(cancel_batch(2, 1))
        on.append(move_batch(3, 50, 1))
        named = [(offset, 100) for offset in range(5)]
        assert on.book.still_due(named, 400) == [(4, 100)]
        assert on.book.still_due([*named, *named], 400) == [(4, 100)], "it was set twice"
        assert on.book.still_due([(1, 300), (7, 100)], 400) == [(1, 300)]
        assert on.book._unset == [*[(offset, 100) for offset in range(5)], (1, 300)]
        assert on.book.still_due(named, 99) == []
        assert on.book._unset[-1] == (4, 100), "it is set again"
        await on.log.commit()
        on.show()
        assert on.book.still_due([(3, 50), (2, 100)], 400) == [(3, 50)]


async def test_a_compaction_that_a_stop_overtakes_is_no_bug(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with shelf(disk) as on, trio.open_nursery() as nursery:
        await on.write(delayed(LATER))
        await on.book.settle()
        index_of(on).is_incomplete = True
        nursery.start_soon(on.book.keep)
        await trio.testing.wait_all_tasks_blocked()
        on.book._compacted_at = -1_000.0
        index_of(on).is_incomplete = True
        on.book.has_news.set()
        await trio.lowlevel.checkpoint()
        await on.book.close()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("end", ["kill", "crash"])
async def test_whatever_the_index_lacks_the_log_says(
    disk: SimulatedDisk, autojump_clock: MockClock, end: str
) -> None:
    async with shelf(disk) as on:
        await on.write(*[delayed(LATER + number) for number in range(6)])
        await on.book.settle()
        await index_of(on).sync()
        await on.write(cancel_batch(1, 1), move_batch(2, LATER + 99, 1))
        expected = await on.dues()
        assert expected.keys() == {0, 2, 3, 4, 5}
        assert expected[2] == LATER + 99
    async with shelf(getattr(disk, end)()) as on:
        assert await on.dues() == expected
        assert on.book.delays.was_cancelled(1)


async def test_before_records_go_from_the_log_the_index_knows_durably_what_they_said(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with shelf(disk) as on:
        await on.write(delayed(LATER), delayed(LATER), accept(encode_record(0, 1, b"plain"), 1))
        await on.write(cancel_batch(0, 1))
        await on.book.sync_index()
        await on.book._compact(index_of(on))  # which says no less
        await on.book.sync_index()
    async with mounted(disk.crash()) as volume:
        _, loaded = await DelayIndex.open(volume, DIRECTORY, 0, 4, thinned_to=4)
        assert (loaded.is_rebuilt, loaded.applied_to) == (False, 4)
        assert loaded.offsets == array("Q", [1])


async def test_a_purge_right_after_a_publish_is_noted_in_a_new_index(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with shelf(disk) as on:
        await on.write(delayed(LATER))
        await on.log.delete_before(1)
        on.book.remove_below(1)
        await on.book.settle()
        assert await on.dues() == {}
        await on.write(delayed(LATER))
        await on.book.settle()
        await index_of(on).sync()
    async with shelf(disk.crash()) as on:
        assert await on.dues() == {1: LATER}


@pytest.mark.parametrize("turns", range(8))
async def test_originals_that_are_purged_while_others_are_read_are_passed_over(
    disk: SimulatedDisk, autojump_clock: MockClock, turns: int
) -> None:
    async with shelf(disk) as on, trio.open_nursery() as nursery:
        for _ in range(3):
            await on.write(*[delayed(LATER)] * 400)
        disk.faults.cold_read_odds = 1.0
        found: list[int] = []

        async def read() -> None:
            records, _ = await read_originals(on.log, [0, 500, 1_100], 10**6)
            found.extend(records)

        nursery.start_soon(read)
        await some_turns(turns)
        await on.log.delete_before(1_000)
        await trio.testing.wait_all_tasks_blocked()
    assert set(found) <= {0, 500, 1_100}
    assert 1_100 in found

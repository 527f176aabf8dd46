"""What a partition says and does about its delayed messages, a bounded part of it at a time (G8)."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from goqueue.actors.delays import pending as delaybook
from goqueue.actors.delays.delays import COUNTED_AT_ONCE, FIRED_AT_ONCE
from goqueue.actors.delays.pending import LOADED_AT_ONCE, TOLD_AT_ONCE
from goqueue.actors.delays.requests import (
    CancelDelayed,
    CountDelayed,
    DelayedViews,
    ListDelayed,
    LoadTimers,
    MoveDelayed,
    SetTimers,
)
from goqueue.actors.delays.timers import FIRES_AT_ONCE, Timers
from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.requests import DeleteBefore, Fetch, Produce
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.handlers import answers
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.actors.statistics.delays import DelayCounts
from goqueue.config import LogConfig
from goqueue.core.delays import pending as delays
from goqueue.core.delays.events import DELAYED_FROM_HEADER
from goqueue.core.records.record import DELAY_BIT, EXPIRES_AT, EXPIRES_AT_HEADER, Flag, encode_record
from goqueue.storage.delays.index import NAME
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import DIRECTORY, mounted, records_in

LATER = 2**50
HOUR = 3_600_000_000
HIDDEN = Flag.DELAYED | Flag.CONTROL
MANY = 3 * COUNTED_AT_ONCE + 500
DELIVERED = delays.DelayState.DELIVERED


class Watched(Timers):
    """Notes how much it is asked and told at once."""

    def __init__(self, clock: SimulatedClock, counts: DelayCounts) -> None:
        super().__init__(clock)
        self.counts = counts
        self.told: list[int] = []
        self.loaded: list[int] = []

    @answers(SetTimers)
    async def set(self, message: SetTimers) -> None:
        self.told.append(len(message.timers))
        await super().set(message)

    @answers(LoadTimers)
    async def load(self, message: LoadTimers) -> None:
        self.loaded.append(len(message.offsets))
        await super().load(message)


class Stage:
    def __init__(self, ref: ActorRef, timers: Watched, partition: Partition, clock: SimulatedClock) -> None:
        self.ref, self.timers, self.partition, self.clock = ref, timers, partition, clock

    async def publish(self, dues: Sequence[int]) -> None:
        body = b"".join(encode_record(number, 1, b"v", due=due) for number, due in enumerate(dues))
        await self.ref.call(Produce(body, len(dues)))

    async def messages(self) -> list[bytes]:
        """What readers see."""
        found = await self.ref.call(Fetch(self.partition.log.log_start, 10**7))
        return [record.value for record in records_in(found.data) if not record.flags & HIDDEN]

    async def fired(self) -> list[int]:
        """The originals of what was delivered, in order."""
        found = await self.ref.call(Fetch(self.partition.log.log_start, 10**7))
        origins = [record.headers.get(DELAYED_FROM_HEADER) for record in records_in(found.data)]
        return [int(origin) for origin in origins if origin is not None]


@asynccontextmanager
async def stage(disk: SimulatedDisk, start: int = 0) -> AsyncIterator[Stage]:
    clock, counts = SimulatedClock(start=start), DelayCounts()
    timers = Watched(clock, counts)
    wheel = ChildSpec("timers", lambda: timers)
    async with mounted(disk) as volume, running(wheel):
        partition = Partition(
            volume, clock, DIRECTORY, LogConfig(), disk_free_min=0, timers=wheel.ref, delay_counts=counts
        )
        spec = ChildSpec("orders/0", lambda: partition)
        async with running(spec):
            yield Stage(spec.ref, timers, partition, clock)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_pending_messages_are_counted(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with stage(disk) as on:
        assert await on.ref.call(CountDelayed(())) == [0]
        await on.publish([LATER] * MANY)
        assert await on.ref.call(CountDelayed(())) == [MANY]
        assert await on.ref.call(CancelDelayed(3))
        assert await on.ref.call(CountDelayed(())) == [MANY - 1]


async def test_they_are_counted_by_due_time(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """One that is due at an edge is not due before it."""
    random, edges = Random(1), [LATER, LATER + 10, LATER + 10, LATER + 50]
    dues = [LATER - 5 + random.randrange(70) for _ in range(MANY)]
    async with stage(disk) as on:
        assert await on.ref.call(CountDelayed(edges)) == [0] * 5
        await on.publish(dues)
        assert await on.ref.call(CancelDelayed(3))
        del dues[3]
        stretches = pairwise([0, *edges, 2 * LATER])
        expected = [sum(begin <= due < end for due in dues) for begin, end in stretches]
        assert await on.ref.call(CountDelayed(edges)) == expected


async def test_what_becomes_durable_at_once_is_told_a_thousand_at_a_time(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with stage(disk) as on:
        await on.publish([LATER] * MANY)
        await trio.testing.wait_all_tasks_blocked()
        assert on.timers.counts.of.total().pending == MANY
        assert (max(on.timers.told), sum(on.timers.told)) == (TOLD_AT_ONCE, MANY)


async def test_a_start_loads_timers_some_at_a_time(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delaybook, "LOADED_AT_ONCE", LOADED_AT_ONCE // 10)
    dues = [LATER + number * 7_919 % 1_000 for number in range(MANY)]
    async with stage(disk) as on:
        await on.publish(dues)
        assert await on.ref.call(CancelDelayed(3))
    async with stage(disk) as on:
        assert on.timers.counts.of.total().pending == MANY - 1
        assert (max(on.timers.loaded), sum(on.timers.loaded)) == (LOADED_AT_ONCE // 10, MANY - 1)
        page = await on.ref.call(ListDelayed(0, 1_000, False))
        assert [view.due for view in page.views] == [*dues[:3], *dues[4:1_001]]


async def test_a_compaction_keeps_due_times(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    dues = [LATER + number * 7_919 % 1_000 for number in range(MANY)]
    async with stage(disk) as on:
        await on.publish(dues)
        book = on.partition.delayed
        await trio.testing.wait_all_tasks_blocked()
        assert book._index is not None
        await book._compact(book._index)
    async with stage(disk.kill()) as on:
        page = await on.ref.call(ListDelayed(0, 1_000, False))
        assert [view.due for view in page.views] == dues[:1_000]


async def test_what_falls_due_during_a_compaction_is_not_late_and_fires_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G8: the timers serve others between two pieces, and what has ended since follows in the index."""
    async with stage(disk) as on:
        await on.publish([LATER] * MANY)
        book, now = on.partition.delayed, on.partition._clock.now()
        await on.publish([now + 1_000] * 5)
        assert book._index is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(book._compact, book._index)
            await trio.lowlevel.checkpoint()
            on.partition._clock.step(2_000)  # type: ignore[attr-defined]
            assert await on.ref.call(CancelDelayed(MANY - 1))
        await trio.sleep(1)
        assert await on.messages() == [b"v"] * 5
    for end in ("kill", "crash"):
        async with stage(getattr(disk, end)()) as on:
            await trio.sleep(1)
            assert await on.messages() == [b"v"] * 5
            assert await on.ref.call(CountDelayed(())) == [MANY - 1]
            assert await on.ref.call(CancelDelayed(MANY - 1))


async def test_however_many_fall_due_at_once_each_fires_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G8: more than are taken at a time, more than may fire at once, and those of several tellings."""
    count = FIRES_AT_ONCE + 3 * FIRED_AT_ONCE + 7
    async with stage(disk) as on:
        now = on.partition._clock.now()
        await on.publish([now + 500_000 + number % 3 * 1_000_000 for number in range(count)])
        await trio.sleep(5)
        fired = await on.fired()
        assert fired == sorted(range(count), key=lambda number: number % 3)
        assert on.timers.counts.of.total().fired == on.timers.counts.lateness.count == count


async def test_a_message_that_was_due_before_it_was_published_is_not_late(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Nor is one that is given a time in the past: before that the broker could not have delivered it."""
    async with stage(disk) as on:
        await trio.sleep(7_200)
        now = on.partition._clock.now()
        await on.publish([now - HOUR, 0, LATER, now + 1_000_000])
        await trio.sleep(60)
        assert await on.ref.call(MoveDelayed(2, now - HOUR))
        await trio.sleep(1)
        assert await on.fired() == [1, 0, 3, 2]
        lateness = on.timers.counts.lateness
        assert (lateness.count, lateness.highest < 0.1) == (4, True)
        assert on.partition.delayed._asked_at == {}


async def test_what_fell_due_while_the_broker_was_down_is_late(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with stage(disk) as on:
        await on.publish([on.partition._clock.now() + 60_000_000])
    async with stage(disk, start=HOUR + 60_000_000) as on:
        await trio.sleep(1)
        assert await on.fired() == [0]
        assert 3_500 <= on.timers.counts.lateness.highest <= 3_700


async def test_nothing_is_kept_of_what_was_due_already_and_is_gone(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with stage(disk) as on:
        book = on.partition.delayed
        await on.publish([LATER, LATER])
        book._asked_at.update({0: 1, 1: 1})
        assert await on.ref.call(CancelDelayed(0))
        assert sorted(book._asked_at) == [1]
        await on.ref.call(DeleteBefore(None))
        assert book._asked_at == {}


async def test_a_purge_leaves_timers_of_which_none_fires(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the listing lose the newest of them, nor a start bring one back."""
    monkeypatch.setattr(delays, "FINISHED_MAX", 700)
    async with stage(disk) as on:
        now = on.partition._clock.now()
        await on.publish([now + 1_000_000] * MANY)
        await trio.testing.wait_all_tasks_blocked()
        on.timers.told.clear()
        await on.ref.call(DeleteBefore(None))
        await on.partition.delays.fire([(0, now + 1_000_000), (1, now)])  # some fell due before
        assert await on.ref.call(CountDelayed(())) == [0]
        await on.publish([LATER])
        await trio.sleep(2)
        assert sum(on.timers.told) == 1
        assert on.timers.counts.of.total().pending == 1
        assert on.timers.counts.of.total().expired == MANY
        assert await on.messages() == []
        listed = [view.offset for view in (await on.ref.call(ListDelayed(0, 1_000, True))).views]
        assert listed == list(range(MANY - 700, MANY))
    async with stage(disk) as on:
        await trio.sleep(2)
        assert await on.messages() == []
        assert await on.ref.call(CountDelayed(())) == [1]
        assert on.timers.counts.of.total().pending == 1
        assert [view.offset for view in (await on.ref.call(ListDelayed(0, 1_000, True))).views] == listed


async def test_timers_of_cancelled_messages_do_not_pile_up(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When they are more than those of pending messages, these are set anew; and all of these fire."""
    monkeypatch.setattr(delaybook, "STALE_MAX", 10)
    async with stage(disk) as on:
        due = on.partition._clock.now() + 60_000_000
        await on.publish([due] * 60)
        for offset in range(40):
            assert await on.ref.call(CancelDelayed(offset))
        await trio.testing.wait_all_tasks_blocked()
        [owner] = on.timers._owners
        assert 20 <= on.timers._wheel.count(owner) <= 20 + 20 + 10
        assert on.timers.counts.of.total().pending == 20
        await trio.sleep(61)
        assert await on.fired() == list(range(40, 60))
        assert on.timers.counts.of.total().pending == 0


@pytest.mark.parametrize("turns", range(0, 24, 3))
async def test_a_listing_during_which_some_fire_and_some_are_cancelled_shows_the_others_as_they_are(
    disk: SimulatedDisk, autojump_clock: MockClock, turns: int
) -> None:
    """What is listed was pending with that due time; and nothing that stays pending is missing."""
    disk.faults.sync_seconds = (0.0, 0.0)
    async with stage(disk) as on:
        now = on.partition._clock.now()
        dues = [now if offset % 3 == 0 else LATER + offset for offset in range(60)]
        pages: list[DelayedViews] = []

        async def listing() -> None:
            for _ in range(40):
                pages.append(await on.ref.call(ListDelayed(0, 1_000, False)))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            await on.publish(dues)
            nursery.start_soon(listing)
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            for offset in range(1, 60, 3):
                nursery.start_soon(on.ref.call, CancelDelayed(offset))
        await trio.sleep(1)
        pages.append(await on.ref.call(ListDelayed(0, 1_000, False)))
        kept = set(range(2, 60, 3))
        for page in pages:
            listed = {view.offset: view.due for view in page.views}
            assert listed.keys() >= kept
            assert all(due == dues[offset] for offset, due in listed.items())
        assert {view.offset for view in pages[-1].views} == kept
        assert (pages[-1].pending, await on.messages()) == (20, [b"v"] * 20)


# A clock that was set back


def relative(seconds: float) -> int:
    return round(seconds * 1_000_000) | DELAY_BIT


async def setback(on: Stage) -> int:
    """A message is written, then the clock goes back two hours; the time that it shows from then on."""
    await on.publish([LATER])
    on.clock.step(-2 * HOUR)
    return on.clock.now()


async def test_a_delay_counts_from_the_clock_at_the_append_though_the_clock_was_set_back_before(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G8: neither early nor hours late. The append time itself never falls."""
    async with stage(disk, start=10 * HOUR) as on:
        now = await setback(on)
        await on.publish([relative(1), LATER, relative(3)])
        assert on.partition.log.append_time > now + HOUR
        page = await on.ref.call(ListDelayed(1, 10, False))
        assert [view.due for view in page.views] == [now + 1_000_000, LATER, now + 3_000_000]
        await trio.sleep(0.9)
        assert await on.fired() == []
        await trio.sleep(0.2)
        assert await on.fired() == [1]
        [view] = (await on.ref.call(ListDelayed(0, 10, True))).views
        assert view.finished == pytest.approx(now + 1_000_000, abs=100_000)


@pytest.mark.parametrize("is_index_lost", [False, True])
async def test_the_log_says_what_a_delay_counts_from(
    disk: SimulatedDisk, autojump_clock: MockClock, is_index_lost: bool
) -> None:
    """So a restart gives the same due time, also when the delay index is rebuilt."""
    async with stage(disk, start=10 * HOUR) as on:
        now = await setback(on)
        await on.publish([relative(60)])
    if is_index_lost:
        disk.remove(f"{DIRECTORY}/{NAME}")
    async with stage(disk, start=8 * HOUR) as on:
        page = await on.ref.call(ListDelayed(1, 10, False))
        assert [view.due for view in page.views] == [now + 60_000_000]


async def test_what_fires_before_it_expires_was_delivered_though_the_append_time_is_ahead(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Readers judge by the wall clock whether it has expired; so does the listing, also after a restart."""
    async with stage(disk, start=10 * HOUR) as on:
        now = await setback(on)
        expiry = {EXPIRES_AT_HEADER: EXPIRES_AT.pack(now + 60_000_000)}
        body = encode_record(0, 1, b"v", due=relative(1), headers=expiry)
        await on.ref.call(Produce(body, 1))
        await trio.sleep(2)
        assert [view.state for view in (await on.ref.call(ListDelayed(0, 10, True))).views] == [DELIVERED]
    disk.remove(f"{DIRECTORY}/{NAME}")
    async with stage(disk, start=8 * HOUR) as on:
        assert [view.state for view in (await on.ref.call(ListDelayed(0, 10, True))).views] == [DELIVERED]

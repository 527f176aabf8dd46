"""Priorities at a partition: lanes share by their weights, over the whole backlog, whatever happens in between."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delivery import view
from goqueue.actors.delivery.lanes import LaneFound
from goqueue.actors.delivery.requests import ResetLedger, Taken
from goqueue.actors.partition.requests import DeleteBefore, Maintain, Produce
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.ledger.shares import LANES, WEIGHTS
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Envelope, seal_envelope
from goqueue.core.records.record import encode_record
from goqueue.core.slices.lanestretch import OfLane
from goqueue.storage.log.log import Log
from goqueue.storage.log.views import LogSlice
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, Desk, desk, handed_out, offsets, run
from tests.storage.logs import DIRECTORY, SMALL

CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = LANES
STRICT = LedgerSettings(strict_lanes=True)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def published(there: Desk, *lanes: int) -> int:
    return await there.publish(*[b"%d" % lane for lane in lanes], lanes=lanes)


async def taken(there: Desk, count: int = 100) -> list[int]:
    return handed_out(await there.take(count, visibility=600.0))


async def test_a_higher_lane_is_handed_out_first_and_each_in_order_of_offset(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G4: offset order within partition and lane."""
    async with desk(disk) as there:
        await published(there, LOW, CRITICAL, NORMAL, CRITICAL, LOW, NORMAL)
        await published(there, BACKGROUND, CRITICAL)
        assert await taken(there) == [1, 3, 7, 2, 5, 0, 4, 6]
        assert await there.committed() == 0
        assert (await there.view()).lag == 8


async def test_a_critical_message_is_next_however_much_lies_before_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        for _ in range(60):
            await published(there, *[NORMAL] * 20)
        assert await taken(there, 3) == [0, 1, 2]
        at = await published(there, CRITICAL)
        assert await taken(there, 1) == [at]
        assert await taken(there, 2) == [3, 4]


async def test_shares_follow_the_weights_when_all_lanes_are_full(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G9"""
    dice, counts = Random(1), Counter[int]()
    async with desk(disk, SMALL) as there:
        lanes = [dice.randrange(5) for _ in range(3_000)]
        for begin in range(0, 3_000, 50):
            await published(there, *lanes[begin : begin + 50])
        for _ in range(10):
            counts.update(lanes[offset] for offset in await taken(there, 100))
    assert [counts[lane] / 10 for lane in LANES] == list(WEIGHTS)


async def test_what_a_lane_does_not_have_the_others_get(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Work-conserving: a batch is as full as the backlog allows."""
    async with desk(disk) as there:
        await published(there, *[CRITICAL] * 2, *[LOW] * 300, *[HIGH] * 5)
        found = await taken(there, 200)
        assert found == [0, 1, *range(302, 307), *range(2, 195)]


async def test_strict_gives_everything_to_the_highest_lane(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.attach(settings=STRICT)
        await published(there, *[LOW] * 10, *[HIGH] * 10)
        assert await taken(there, 12) == [*range(10, 20), 0, 1]


async def test_a_lane_that_waits_is_served_after_thirty_seconds_though_it_is_strict(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G9: no lane starves."""
    async with desk(disk) as there:
        await there.attach(settings=STRICT)
        await published(there, BACKGROUND, *[HIGH] * 100)
        assert await taken(there, 2) == [1, 2]
        await trio.sleep(29)
        assert await taken(there, 2) == [3, 4]
        await trio.sleep(1)
        assert await taken(there, 2) == [5, 0]


async def test_what_was_read_ahead_serves_many_small_deliveries(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = list[int](), Log.read

    async def counted(log: Log, offset: int, *bounds: int) -> LogSlice:
        reads.append(offset)
        return await read(log, offset, *bounds)

    monkeypatch.setattr(Log, "read", counted)
    async with desk(disk) as there:
        await published(there, *[CRITICAL, LOW] * 50)
        found = [offset for _ in range(20) for offset in await taken(there, 5)]
    assert found == [*range(0, 100, 2), *range(1, 100, 2)]
    assert len(reads) == 2, "one for each lane"


async def test_what_was_read_ahead_serves_other_groups_too(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G5: each group is at places of its own."""
    dice = Random(2)
    lanes = [dice.randrange(5) for _ in range(600)]
    async with desk(disk, SMALL) as there:
        await there.attach(group="audit")
        for begin in range(0, 600, 30):
            await published(there, *lanes[begin : begin + 30])
        found: dict[str, list[int]] = {GROUP: [], "audit": []}
        while min(map(len, found.values())) < 600:
            group = dice.choice([GROUP, "audit"])
            given = await there.take(dice.randrange(1, 40), group=group, visibility=600.0)
            found[group] += handed_out(given)
    for all_of_it in found.values():
        for lane in LANES:
            of_lane = [offset for offset in all_of_it if lanes[offset] == lane]
            assert of_lane == [offset for offset, each in enumerate(lanes) if each == lane]


async def test_what_was_read_ahead_and_deleted_since_is_not_handed_out(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await published(there, *[CRITICAL, LOW] * 50)
        assert await taken(there, 5) == [0, 2, 4, 6, 8]
        await there.ref.call(DeleteBefore(30))
        assert await taken(there, 5) == [30, 32, 34, 36, 38]


async def test_what_was_read_ahead_and_compacted_since_is_not_handed_out(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        for number in range(50):
            records = [encode_record(at, 1, b"v" * 50, key=b"k%d" % at, priority=at) for at in range(2)]
            await there.ref.call(Produce(b"".join(records), 2))
            assert number or await taken(there, 1) == [0]
        assert await taken(there, 1) == [2]
        await there.ref.call(Maintain(compact=True))
        found = await taken(there, 200)
        assert len(found) < 50
        assert {98, 99} <= set(found), "the newest of each key"


async def test_each_lane_goes_on_where_it_was_after_a_kill(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """One cursor over all lanes would skip lower ones, or hand out higher ones twice."""
    async with desk(disk) as there:
        await published(there, *[NORMAL, CRITICAL] * 20)
        first = await there.take(25, visibility=600.0)
        disk = disk.kill()
    assert handed_out(first) == [*range(1, 40, 2), *range(0, 10, 2)]
    async with desk(disk) as there:
        assert await taken(there, 100) == list(range(10, 40, 2))
        await there.settle(first)
        assert await there.committed() == 10


async def test_what_comes_again_keeps_its_lane(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """A returned critical message goes before fresh ones of lower lanes, a returned low one behind higher ones."""
    async with desk(disk) as there:
        await published(there, CRITICAL, LOW, *[NORMAL] * 4)
        first = await there.take(2)
        assert handed_out(first) == [0, 2]
        await there.settle(first, Action.RELEASE)
        assert await taken(there) == [0, 2, 3, 4, 5, 1]


def batch_at(base: int) -> bytes:
    return seal_envelope(Envelope(0, 0, base, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("are_together", [False, True])
def test_redeliveries_stay_whose_batch_lies_between_those_of_new_messages(are_together: bool) -> None:
    """G5: a delivery names them, so it must hold them. Those in a batch that travels whole travel with it."""
    found = LaneFound(lane=2, scanned_to=10, apart=[batch_at(14), batch_at(18)])
    fresh = [memoryview(batch_at(10)), memoryview(batch_at(18))]
    parts = [memoryview(b"".join(fresh))] if are_together else fresh
    found.add(OfLane(OffsetSet([(10, 10), (18, 18)]), 19, [*parts]))
    assert (found.apart, found.parts) == ([batch_at(14)], parts)


async def test_a_nacked_message_waits_in_its_lane(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await published(there, *[CRITICAL] * 2, *[NORMAL] * 3)
        first = await there.take(2)
        await there.settle(first, Action.NACK, [run(0)], delay=5.0)
        assert handed_out(await there.take(1)) == [2]
        await trio.sleep(5)
        assert await taken(there) == [0, 3, 4]


async def test_keys_keep_their_order_within_a_lane_only(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """O6 is per key and lane: a critical message of a key does not wait for a normal one."""
    async with desk(disk) as there:
        await there.attach(settings=LedgerSettings(key_order=True))
        lanes = (NORMAL, NORMAL, CRITICAL, CRITICAL, LOW)
        await there.publish(*[b"v"] * 5, keys=[b"k"] * 5, lanes=lanes)
        first = await there.take()
        assert handed_out(first) == [2, 0, 4]
        await there.settle(first, runs=[run(2)])
        second = await there.take()
        assert handed_out(second) == [3]
        await there.settle(first, runs=[run(0)])
        assert await taken(there) == [1]


async def test_a_group_that_has_passed_everything_does_not_ask_again_and_again(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Lanes without work come to the end of the log, too: else who waits would be woken at once for nothing."""
    async with desk(disk) as there:
        await published(there, CRITICAL, LOW)
        await there.settle(await there.take())
        assert await there.committed() == 2
        assert await there.wait(7.0) == pytest.approx(7.0)


async def test_a_reset_takes_all_lanes_back(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await published(there, *[NORMAL, CRITICAL] * 5)
        await there.settle(await there.take(7))
        await there.ref.call(ResetLedger(GROUP, "offset:4"))
        assert await taken(there) == [5, 7, 9, 4, 6, 8]


async def test_bytes_bound_what_is_taken_of_all_lanes_together(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        for _ in range(20):
            await there.publish(b"x" * 1_000, b"y" * 1_000, lanes=[CRITICAL, LOW])
        seen = list[int]()
        while len(seen) < 40:
            given = await there.take(100, bytes_max=3_000)
            assert 0 < len(given.data) <= 4_500
            seen += handed_out(given)
        assert sorted(seen) == list(range(40))


async def test_a_delivery_alone_moves_no_lane(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """It brings nothing fresh: of a lane that is behind, nothing may be taken for seen (G5)."""
    async with desk(disk) as there:
        await there.attach(settings=LedgerSettings(max_deliveries=2))
        await published(there, *[LOW] * 20, *[BACKGROUND] * 2)
        first = await there.take(10, visibility=1.0)
        assert handed_out(first) == [*range(8), 20, 21]
        await published(there, BACKGROUND)
        await trio.sleep(1)
        for offset in (*range(8), 20, 21):
            alone = await there.take(4)
            assert (handed_out(alone), alone.is_alone) == ([offset], True)
            await there.settle(alone)
        assert await taken(there) == [*range(8, 20), 22]


async def test_each_lane_is_seen_by_itself(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Served, ready, in flight and oldest age; and `why` says which of them waits."""
    clock = SimulatedClock()
    async with desk(disk, clock=clock) as there:
        await published(there, *[LOW] * 4)
        clock.step(5_000_000)
        await published(there, CRITICAL)
        await taken(there, 2)
        lanes = (await there.view()).lanes
        assert [(each.served, each.in_flight) for each in lanes] == [(1, 1), (0, 0), (0, 0), (1, 1), (0, 0)]
        assert [each.ready for each in lanes] == [0, 0, 0, 3, 0]
        assert [each.oldest_ms is None for each in lanes] == [False, True, True, False, True]
        ages = [each.oldest_ms for each in lanes if each.oldest_ms is not None]
        assert ages[1] - ages[0] >= 5_000
        await trio.sleep(3)
        facts = await there.facts()
        assert facts.partition.lane_wait is None, "nothing else has work"
        await published(there, *[CRITICAL] * 100)
        await taken(there, 20)
        await trio.sleep(3)
        facts = await there.facts()
        assert facts.partition.lane_wait is not None
        assert facts.partition.lane_wait.priority == "low"


async def test_a_lane_alone_knows_how_many_are_ready(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await published(there, *[HIGH] * 7)
        await taken(there, 3)
        high = (await there.view()).lanes[HIGH]
        assert (high.ready, high.in_flight, high.served) == (4, 3, 3)


async def ready(there: Desk) -> list[int | None]:
    return [each.ready for each in (await there.view()).lanes]


async def test_of_lanes_that_are_far_back_one_has_what_is_not_of_the_others_and_two_are_not_counted(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "NEAR_MAX", 25)
    async with desk(disk, SMALL) as there:
        await published(there, *[NORMAL] * 30, *[HIGH] * 4, *[CRITICAL] * 3)
        assert await ready(there) == [None, None, None, 0, 0], "all begin at the first message"
        await taken(there, 3)
        assert await ready(there) == [0, None, None, 0, 0]
        await taken(there, 5)
        assert await ready(there) == [0, 0, 29, 0, 0]
        await published(there, *[LOW] * 2, *[HIGH] * 6)
        assert await ready(there) == [0, 6, 29, 2, 0]


async def test_what_cannot_be_read_is_not_counted(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        for _ in range(3):
            await published(there, HIGH, LOW, LOW)
        path = f"{DIRECTORY}/{0:020d}.log"
        disk.flip_bit(path, disk.size(path) // 2, 3)
        assert await ready(there) == [0, 2, 0, 4, 0]


async def test_what_is_removed_while_it_is_counted_is_not_counted(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Log.read

    async def removed_before(self: Log, offset: int, bytes_max: int, *limit: int) -> LogSlice:
        if bytes_max == view.READ_BYTES and offset == 0:
            await there.ref.call(DeleteBefore(3))
        return await read(self, offset, bytes_max, *limit)

    async with desk(disk) as there:
        for _ in range(3):
            await published(there, HIGH, LOW, LOW)
        monkeypatch.setattr(Log, "read", removed_before)
        assert await ready(there) == [0, 2, 0, 4, 0]


# Everything at once


@dataclass
class Life:
    """What was published and handed out so far, through kills, retention apart."""

    dice: Random
    lanes: list[int] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    """For the first time, in order."""
    out: list[Taken] = field(default_factory=list)
    done: set[int] = field(default_factory=set)

    async def step(self, there: Desk) -> None:
        match self.dice.choice(("publish", "publish one", "take", "take", "take", "settle", "settle", "wait")):
            case "publish":
                palette = self.dice.choice(((2,), (0, 2), (0, 1, 2, 3, 4)))
                await self.publish(there, [self.dice.choice(palette) for _ in range(self.dice.randint(1, 40))])
            case "publish one":
                await self.publish(there, [self.dice.randrange(5)])
            case "take":
                await self.take(there)
            case "settle" if self.out:
                await self.settle(there)
            case "wait":
                await trio.sleep(self.dice.choice((0.1, 1.0, 40.0)))

    async def publish(self, there: Desk, lanes: list[int]) -> None:
        await published(there, *lanes)
        self.lanes += lanes

    async def take(self, there: Desk) -> None:
        count = self.dice.choice((1, 3, 20, 500))
        given = await there.take(count, visibility=1e6)
        names = handed_out(given)
        fresh = [offset for offset in names if offset not in self.given]
        at_least = min(count, 20, self.available())  # of more, a request may not come so far
        assert at_least <= len(names) <= count, "nobody waits while there is work"
        order = [(self.lanes[offset], offset) for offset in names]
        assert order == sorted(order)
        assert not set(names) & self.in_flight(), "a message is at one consumer at a time (G7)"
        self.given += fresh
        if names:
            self.out.append(given)

    def in_flight(self) -> set[int]:
        return {offset for each in self.out for offset in offsets(each)} - self.done

    def available(self) -> int:
        return len(self.lanes) - len(self.in_flight()) - len(self.done)

    async def settle(self, there: Desk) -> None:
        given = self.out.pop(self.dice.randrange(len(self.out)))
        action = self.dice.choice((Action.ACK, Action.ACK, Action.RELEASE))
        assert await there.settle(given, action) == ()
        if action is Action.ACK:
            self.done.update(offsets(given))

    async def check(self, there: Desk) -> None:
        """G4, G5"""
        for lane in LANES:
            of_lane = [offset for offset in self.given if self.lanes[offset] == lane]
            expected = [offset for offset, each in enumerate(self.lanes) if each == lane]
            assert of_lane == expected[: len(of_lane)], "first deliveries follow the order of their lane"
        undone = [offset for offset in range(len(self.lanes)) if offset not in self.done]
        view = await there.view()
        assert view.progress.committed == min(undone, default=len(self.lanes))
        assert view.lag == len(undone)


@pytest.mark.parametrize("seed", range(12))
async def test_a_life_with_priorities_and_kills(seed: int, autojump_clock: MockClock) -> None:
    """G4, G5, G7 with lanes, as often as the partition is killed and whatever it had in flight."""
    life, disk = Life(Random(seed)), SimulatedDisk(Random(seed))
    for _ in range(4):
        async with desk(disk, SMALL) as there:
            for _ in range(25):
                await life.step(there)
                await life.check(there)
            disk = disk.kill()
    async with desk(disk, SMALL) as there:
        for given in life.out[:]:
            await there.settle(given)
            life.done.update(offsets(given))
        life.out.clear()
        while life.available():
            await life.take(there)
        await life.check(there)

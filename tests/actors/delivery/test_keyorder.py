"""A group that keeps the order of keys, at its partition: the next of a key waits for the one before."""

from random import Random

import pytest
from trio.testing import MockClock

from goqueue.actors.delivery.requests import AssignPartition, Taken
from goqueue.actors.partition.requests import Maintain
from goqueue.core.ledger.keys import LOOK_AHEAD_MAX
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.storage.log.log import Log
from goqueue.storage.log.views import LogSlice
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, Desk, offsets, run
from tests.actors.delivery.delivering import desk as at_desk
from tests.storage.logs import SMALL

IN_ORDER = LedgerSettings(key_order=True)
A, B, C = b"a", b"b", b"c"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def attached(desk: Desk, *keys: bytes, is_shared: bool = False) -> None:
    await desk.attach(settings=IN_ORDER, is_shared=is_shared)
    if keys:
        await desk.publish(*[b"v"] * len(keys), keys=keys)


async def test_a_key_s_next_message_waits_for_the_ack_of_the_one_before(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """O6"""
    async with at_desk(disk) as desk:
        await attached(desk, A, B, A, b"", B, C)
        first = await desk.take()
        assert offsets(first) == [0, 1, 3, 5]
        assert offsets(await desk.take()) == []
        await desk.settle(first, runs=[run(0)])
        second = await desk.take()
        assert offsets(second) == [2]
        await desk.settle(first, runs=[run(1), run(3), run(5)])
        assert offsets(await desk.take()) == [4]
        assert [each.attempt for each in second.runs] == [1]


async def test_who_waits_is_woken_by_the_ack(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with at_desk(disk) as desk:
        await attached(desk, A, A)
        first = await desk.take()
        assert await desk.wait(5.0) == pytest.approx(5.0)
        await desk.settle(first)
        assert await desk.wait(5.0) == 0
        assert offsets(await desk.take()) == [1]


@pytest.mark.parametrize("action", [Action.NACK, Action.RELEASE])
async def test_what_comes_again_comes_before_the_next_of_its_key(
    action: Action, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """O6"""
    async with at_desk(disk) as desk:
        await attached(desk, A, A)
        await desk.settle(await desk.take(), action, delay=3.0 if action is Action.NACK else None)
        assert await desk.wait(10.0) == pytest.approx(3.0 if action is Action.NACK else 0.0)
        again = await desk.take()
        assert offsets(again) == [0]
        await desk.settle(again)
        assert offsets(await desk.take()) == [1]


async def test_an_expired_message_comes_before_the_next_of_its_key(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """O6"""
    async with at_desk(disk) as desk:
        await attached(desk, A, A)
        await desk.take(visibility=2.0)
        assert await desk.wait(10.0) == pytest.approx(2.0)
        again = await desk.take()
        assert again.runs == (run(0, attempt=2),)


async def test_a_message_that_is_given_up_frees_its_key(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """O6"""
    async with at_desk(disk) as desk:
        await attached(desk, A, A)
        await desk.settle(await desk.take(), Action.REJECT)
        assert offsets(await desk.take()) == [1]


async def test_a_last_nack_frees_the_key(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with at_desk(disk) as desk:
        await desk.attach(settings=LedgerSettings(max_deliveries=1, key_order=True))
        await desk.publish(b"v", b"v", keys=[A, A])
        await desk.settle(await desk.take(), Action.NACK)
        assert offsets(await desk.take()) == [1]


async def test_it_holds_after_a_restart(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """O6"""
    async with at_desk(disk) as desk:
        await attached(desk, A, B, A, B, C)
        first = await desk.take()
        assert offsets(first) == [0, 1, 4]
        await desk.settle(first, runs=[run(1)])
    async with at_desk(disk.kill()) as desk:
        await attached(desk)
        second = await desk.take()
        assert offsets(second) == [3], "the other of its key was in flight, and is so still"
        await desk.settle(first, runs=[run(0)])
        assert offsets(await desk.take()) == [2]


async def test_the_next_owner_waits_for_what_the_one_before_holds(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """O6: leases stay with the partition when it moves."""
    async with at_desk(disk) as desk:
        await attached(desk, A, A, B, A)
        anns = await desk.take(1)
        await desk.ref.call(AssignPartition(GROUP, "bob", 2))
        assert offsets(await desk.take(member="bob", generation=2)) == [2]
        await desk.settle(anns, Action.NACK, delay=3.0)
        assert offsets(await desk.take(member="bob", generation=2)) == []
        assert await desk.wait(5.0, "bob") == pytest.approx(3.0)
        again = await desk.take(member="bob", generation=2)
        assert again.runs == (run(0, attempt=2),)
        await desk.settle(again)
        assert offsets(await desk.take(member="bob", generation=2)) == [1]


async def test_a_group_may_begin_and_cease_to_keep_order(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with at_desk(disk) as desk:
        await desk.attach()
        await desk.publish(b"v", b"v", b"v", b"v", keys=[A, A, A, A])
        first = await desk.take(2)
        await attached(desk)
        await desk.settle(first, runs=[run(0)])
        assert offsets(await desk.take()) == []
        await desk.settle(first, runs=[run(1)])
        assert offsets(await desk.take()) == [2]
        await desk.attach()
        assert offsets(await desk.take()) == [3]


async def test_members_of_a_shared_group_keep_the_order_among_them(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """O7"""
    async with at_desk(disk) as desk:
        await attached(desk, A, B, A, B, is_shared=True)
        anns = await desk.take(1, "ann")
        bobs = await desk.take(10, "bob")
        assert (offsets(anns), offsets(bobs)) == ([0], [1])
        await desk.settle(anns)
        assert offsets(await desk.take(10, "bob")) == [2]


async def test_one_at_a_time_passes_by_a_key_that_is_stuck(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with at_desk(disk) as desk:
        await attached(desk, *[A] * 2_000, B)
        assert offsets(await desk.take(1)) == [0]
        assert offsets(await desk.take(1)) == [2_000]


async def test_the_look_ahead_ends(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with at_desk(disk) as desk:
        await attached(desk)
        for _ in range(LOOK_AHEAD_MAX // 1_000):
            await desk.publish(*[b"v"] * 1_000, keys=[A] * 1_000)
        await desk.publish(b"v", b"v", keys=[A, B])
        first = await desk.take()
        assert offsets(first) == [0]
        for _ in range(4):
            assert offsets(await desk.take()) == [], "the other key lies behind the look-ahead"
        known = await desk.facts()
        behind, beyond = known.partition.behind_keys, known.partition.not_looked_at
        assert (behind + beyond, behind >= LOOK_AHEAD_MAX, beyond > 0) == (LOOK_AHEAD_MAX + 1, True, True)
        await desk.settle(first)
        assert offsets(await desk.take()) == [1]
        assert offsets(await desk.take()) == [LOOK_AHEAD_MAX + 1]


async def settle_somehow(desk: Desk, taken: Taken, random: Random) -> list[int]:
    """The offsets that are done."""
    done = []
    for each in taken.runs:
        for offset in range(each.first, each.last + 1):
            action = random.choice((Action.ACK, Action.ACK, Action.ACK, Action.NACK, Action.RELEASE))
            await desk.settle(taken, action, [run(offset, attempt=each.attempt)], delay=0.5)
            done += [offset] if action is Action.ACK else []
    return done


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_each_key_is_done_in_order(
    seed: int, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5, O6: the order of keys, through nacks, releases, expiries and kills."""
    random, done = Random(seed), list[int]()
    keys = [random.choice((A, B, C, b"")) for _ in range(60)]
    settings = LedgerSettings(max_deliveries=0, key_order=True)
    while len(done) < len(keys):
        async with at_desk(disk) as desk:
            await desk.attach(settings=settings)
            if not done and (await desk.view()).end == 0:
                await desk.publish(*[b"v"] * len(keys), keys=keys)
            for _ in range(random.randint(1, 20)):
                await desk.wait(40.0)
                taken = await desk.take(random.randint(1, 9), visibility=random.choice((0.2, 30.0)))
                if random.random() < 0.8:
                    done += await settle_somehow(desk, taken, random)
        disk = disk.kill()
    assert sorted(done) == list(range(len(keys)))
    for key in (A, B, C):
        of_key = [offset for offset in done if keys[offset] == key]
        assert of_key == sorted(of_key)


async def test_a_batch_that_leaves_in_many_parts_is_read_once(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = list[int](), Log.read

    async def counted(log: Log, offset: int, *bounds: int) -> LogSlice:
        reads.append(offset)
        return await read(log, offset, *bounds)

    monkeypatch.setattr(Log, "read", counted)
    async with at_desk(disk) as desk:
        await attached(desk, *[b"%d" % (number % 70) for number in range(700)])
        given, found = await desk.take(50), list[int]()
        while offsets(given):
            found += offsets(given)
            await desk.settle(given)
            given = await desk.take(50)
    assert sorted(found) == list(range(700))
    assert len(reads) == 1


async def test_what_was_held_back_and_compacted_since_is_not_handed_out(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """What was read before is not what the log says now."""
    async with at_desk(disk, SMALL) as desk:
        await attached(desk)
        for _ in range(20):
            await desk.publish(*[b"v" * 50] * 12, keys=[A, B] * 6)
        given, found = await desk.take(), list[int]()
        await desk.ref.call(Maintain(compact=True))
        while await desk.committed() < 240:
            found += offsets(given)
            await desk.settle(given)
            given = await desk.take()
    assert found == sorted(found)
    assert found[:2] == [0, 1]
    assert found[-2:] == [238, 239], "the newest of each key"
    assert len(found) < 60

"""Members that tell which messages they have begun, and the writes of what a turn settles."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delivery.requests import ReplaceMember, SettleRuns, Taken
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.batch import parse_envelope
from goqueue.errors import DiskFull, StaleReceipt, UnknownGroup
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, LEDGERS, OTHER, Desk, desk, run
from tests.storage.journals.crashes import leave_room


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def begin(there: Desk, taken: Taken, *runs: AttemptRun) -> tuple[AttemptRun, ...]:
    return await there.settle(taken, Action.BEGIN, runs)


async def test_what_was_not_begun_when_the_lease_ends_comes_again_uncounted(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 5)
        taken = await there.take(tells_begun=True)
        assert await begin(there, taken, run(1, 2)) == ()
        await there.settle(taken, Action.ACK, [run(2)])
        await trio.sleep(31)
        assert (await there.take()).runs == (run(0), run(1, attempt=2), run(3, 4))
        counts = there.counts.of[GROUP]
        assert (counts.expired, counts.settled[Action.RELEASE]) == (1, 3)


async def test_so_it_is_when_another_consumer_comes_in_the_place_of_the_member(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 3)
        await begin(there, await there.take(tells_begun=True, instance=1), run(0))
        await there.ref.call(ReplaceMember(GROUP, "ann", 2, 1))
        assert (await there.take(instance=2)).runs == (run(0, attempt=2), run(1, 2))


async def test_what_was_begun_counts_also_if_the_broker_is_killed_at_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 3)
        await begin(there, await there.take(tells_begun=True), run(1))
        killed = disk.kill()
    async with desk(killed) as after:
        assert (await after.facts()).partition.not_begun == 2
        await trio.sleep(31)
        assert (await after.take()).runs == (run(0), run(1, attempt=2), run(2))


# One write


async def writes(disk: SimulatedDisk) -> int:
    """Batches in the journal of the groups."""
    data, position, count = await disk.open(LEDGERS).read(0, disk.size(LEDGERS)), 0, 0
    while (envelope := parse_envelope(data, position)) is not None:
        position, count = position + envelope.size, count + 1
    return count


async def said_at_once(there: Desk, *words: SettleRuns) -> list[object]:
    """All of them reach the partition before its next turn."""
    replies = [there.ref.ask_at_once(each) for each in words]
    outcomes = list[object]()
    for reply in replies:
        assert reply is not None
        try:
            outcomes.append(await reply.wait())
        except (DiskFull, StaleReceipt, UnknownGroup) as error:
            outcomes.append(type(error))
    return outcomes


def word(taken: Taken, action: Action, *offsets: int, group: str = GROUP) -> SettleRuns:
    return SettleRuns(group, taken.nonce, action, tuple(run(offset) for offset in offsets))


async def test_what_workers_say_in_one_turn_is_one_write(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.attach(OTHER)
        await there.publish(*[b"x"] * 6)
        ours, others = await there.take(tells_begun=True), await there.take(group=OTHER)
        before = await writes(disk)
        words = [word(ours, action, offset) for offset in range(5) for action in (Action.BEGIN, Action.ACK)]
        words += [word(others, Action.ACK, 0, 1, group=OTHER), word(ours, Action.BEGIN, 5)]
        assert await said_at_once(there, *words) == [()] * 12
        assert await writes(disk) == before + 1
        assert (await there.committed(), await there.committed(OTHER)) == (5, 2)
        killed = disk.kill()
    async with desk(killed) as after:
        await after.attach(OTHER)
        assert (await after.committed(), await after.committed(OTHER)) == (5, 2)


async def test_each_is_answered_for_itself(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G6: what was settled by one is stale for the next, and a refusal of one is no other's."""
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 4)
        taken = await there.take()
        assert await said_at_once(
            there,
            word(taken, Action.ACK, 0),
            word(taken, Action.ACK, 1, group="nobody"),
            word(taken, Action.NACK, 0, 1),
            word(taken, Action.ACK, 0),
            SettleRuns(GROUP, taken.nonce, Action.ACK, (), whole=4),
            word(taken, Action.BEGIN, 1, 2),
        ) == [(), UnknownGroup, (run(0),), (), StaleReceipt, (run(1),)]
        assert (await there.view()).progress.waiting == 1


async def test_on_a_full_disk_all_that_would_change_something_is_refused(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 4)
        taken = await there.take(tells_begun=True)
        await there.settle(taken, Action.ACK, [run(0)])
        await trio.sleep(2)
        leave_room(disk, 0)
        words = (word(taken, Action.ACK, 0), word(taken, Action.BEGIN, 1), word(taken, Action.ACK, 1, 2))
        assert await said_at_once(there, *words) == [(), DiskFull, DiskFull]
        assert ((await there.view()).progress.in_flight, (await there.facts()).partition.not_begun) == (3, 3)
        leave_room(disk, 1_000_000)
        await trio.sleep(2)
        assert await said_at_once(there, *words) == [()] * 3
        assert await there.committed() == 3


async def test_a_settlement_is_done_before_what_is_asked_behind_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        taken = await there.take()
        released = there.ref.ask_at_once(word(taken, Action.RELEASE, 0, 1))
        assert released is not None
        assert (await there.take(member="ann")).runs == (run(0, 1),)
        assert await released.wait() == ()

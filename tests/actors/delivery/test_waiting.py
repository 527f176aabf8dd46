"""Members that wait for more, and what has to be fetched from the disk for them (G7)."""

from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import AssignPartition, ForgetGroup, ReleaseMember, ResetLedger, Take
from goqueue.core.ledger.settlements import Action
from goqueue.errors import StaleGeneration, UnknownGroup
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.actors.delivery.delivering import GROUP, OTHER, Desk, desk, offsets, run
from tests.actors.runtime.troupe import unsettled
from tests.storage.logs import SMALL

SYNC_SECONDS = 1 / 128


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    disk.faults.sync_seconds = (SYNC_SECONDS, SYNC_SECONDS)
    return disk


async def test_a_member_waits_until_something_is_published(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there, trio.open_nursery() as nursery:
        waited: list[float] = []

        async def wait() -> None:
            waited.append(await there.wait())

        nursery.start_soon(wait)
        await trio.sleep(7)
        assert waited == []
        await there.publish(b"a")
        await wait_all_tasks_blocked()
        assert waited == [pytest.approx(7 + SYNC_SECONDS)]


async def test_a_member_that_waits_has_what_is_written_made_durable_at_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await trio.sleep(2)  # by now it is durable where the group begins
        await there.publish(b"before", acks=Acks.LEADER)
        assert await there.wait() == pytest.approx(SYNC_SECONDS)
        await there.settle(await there.take())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(there.wait)
            await trio.sleep(3)
            begin = trio.current_time()
            await there.publish(b"later", acks=Acks.LEADER)
        assert trio.current_time() - begin == pytest.approx(SYNC_SECONDS)


async def test_a_wait_ends_at_its_deadline(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        assert await there.wait(12.5) == pytest.approx(12.5)
        assert await there.wait(0) == 0


async def test_a_member_does_not_wait_when_something_is_there(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        assert await there.wait() == 0


@pytest.mark.parametrize("what", ["release", "nack", "assign", "forget", "reset", "member left"])
async def test_a_member_is_woken_by_what_brings_messages_back(
    what: str, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        taken = await there.take()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(there.wait, 25)
            await trio.sleep(1)
            begin = trio.current_time()
            match what:
                case "release":
                    await there.settle(taken, Action.RELEASE)
                case "nack":
                    await there.settle(taken, Action.NACK, delay=0.0)
                case "assign":
                    await there.ref.call(AssignPartition(GROUP, "bob", 2))
                case "forget":
                    await there.ref.call(ForgetGroup(GROUP, 7))
                case "reset":
                    await there.ref.call(ResetLedger(GROUP, "earliest"))
                case _:
                    await there.ref.call(ReleaseMember(GROUP, "ann"))
        assert trio.current_time() - begin < 0.1


async def test_an_ack_wakes_nobody_for_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        taken = await there.take()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(there.wait, 5)
            await wait_all_tasks_blocked()
            begin = trio.current_time()
            await there.settle(taken)
        assert trio.current_time() - begin == pytest.approx(5)


async def test_a_stop_does_not_wait_for_members(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G15"""
    begin = trio.current_time()
    async with trio.open_nursery() as nursery, desk(disk) as there:
        nursery.start_soon(there.wait)
        await wait_all_tasks_blocked()
    assert trio.current_time() - begin < 1


async def test_nothing_is_handed_to_a_caller_that_has_gone(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """A cancelled long poll must not take messages that nobody gets."""
    async with desk(disk, SMALL) as there:
        for number in range(60):
            await there.publish(b"%d" % number * 20)
        disk.faults.cold_read_odds, disk.faults.cold_read_seconds = 1.0, (5.0, 5.0)
        with trio.move_on_after(1):
            await there.take(2)
        assert (await there.take(2)).runs == (run(0, 1),)


async def test_what_nobody_heard_of_comes_again_when_its_lease_ends(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        reply = await there.ref.ask(Take(GROUP, "ann", 1, 10, 1_000, 10.0, False))
        await wait_all_tasks_blocked()
        assert reply.settled
        assert await there.wait() == pytest.approx(10.0)
        assert (await there.take()).runs == (run(0, attempt=2),)


# Older segments.


async def test_what_has_to_be_fetched_from_the_disk_holds_up_nobody_else(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        for number in range(60):
            await there.publish(b"%d" % number * 20)
        disk.faults.cold_read_odds, disk.faults.cold_read_seconds = 1.0, (5.0, 5.0)
        taken: list[list[int]] = []

        async def take(count: int) -> None:
            taken.append(offsets(await there.take(count)))

        async with trio.open_nursery() as nursery:
            for count in (1, 2, 3):
                nursery.start_soon(take, count)
                await wait_all_tasks_blocked()
            begin = trio.current_time()
            await there.attach(OTHER, start="latest")
            await there.publish(b"quick")
            assert trio.current_time() - begin < 1
            assert taken == []
        assert taken == [[0], [1, 2], [3, 4, 5]]


async def test_a_group_that_changes_while_it_is_read_for_is_handed_nothing_old(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        for number in range(60):
            await there.publish(b"%d" % number * 20)
        for change in (ResetLedger(GROUP, "offset:5"), AssignPartition(GROUP, "bob", 2), ForgetGroup(GROUP, 7)):
            disk.faults.cold_read_odds, disk.faults.cold_read_seconds = 1.0, (5.0, 5.0)
            outcome = await outcome_amid(there, change)
            if isinstance(change, ResetLedger):
                assert outcome == [5, 6]
            else:
                assert isinstance(outcome, StaleGeneration | UnknownGroup)
            disk.faults.cold_read_odds = 0.0
            await there.attach(generation=1)


async def outcome_amid(
    there: Desk, change: ResetLedger | AssignPartition | ForgetGroup
) -> list[int] | StaleGeneration | UnknownGroup:
    outcomes: list[list[int] | StaleGeneration | UnknownGroup] = []

    async def take() -> None:
        try:
            outcomes.append(offsets(await there.take(2)))
        except (StaleGeneration, UnknownGroup) as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.sleep(1)
        await there.ref.call(change)
    (outcome,) = outcomes
    return outcome


async def test_a_wait_that_its_caller_gave_up_leaves_nothing_behind(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A consumer waits at many partitions, and gives up at all of them but the one that answers."""
    async with desk(disk) as there:
        for _ in range(20):
            with trio.move_on_after(0.1):
                await there.wait(30)
        assert unsettled(there.ref) <= 1

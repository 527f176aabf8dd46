"""What a partition knows of its groups after a kill, a power loss, a full disk, a damaged journal, or a stop."""

import logging
from dataclasses import dataclass, field
from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.delivery.requests import (
    ConfirmDeadLetters,
    ForgetGroup,
    ReplaceMember,
    ResetLedger,
    TakeDeadLetters,
    Taken,
)
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.errors import DiskFull, UnknownGroup
from goqueue.storage.snapshotlog import snapshotlog
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.actors.delivery.delivering import COMPANION, GROUP, LEDGERS, OTHER, Desk, desk, offsets, run
from tests.storage.journals.crashes import leave_room
from tests.storage.logs import SMALL, path_of

LONG = 1_000_000.0


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


# A kill between any two steps.


@dataclass
class Story:
    """What was answered so far."""

    there: Desk
    random: Random
    published: int = 0
    acked: set[int] = field(default_factory=set)
    buried: set[int] = field(default_factory=set)
    out: dict[int, tuple[Taken, AttemptRun]] = field(default_factory=dict)

    async def go_on(self) -> None:
        often = (self.take, self.take, self.settle, self.settle)
        step = self.random.choice((self.publish, *often, self.begin, self.lose, self.bury, self.replace))
        await step()

    async def publish(self) -> None:
        count = self.random.randint(1, 5)
        await self.there.publish(*[b"x"] * count)
        self.published += count

    async def take(self) -> None:
        tells = self.random.random() < 0.5
        taken = await self.there.take(self.random.randint(1, 6), visibility=LONG, tells_begun=tells)
        for first, last, attempt in taken.runs:
            for offset in range(first, last + 1):
                assert offset not in self.out, "G7"
                assert offset not in self.acked | self.buried, "G6"
                self.out[offset] = taken, run(offset, attempt=attempt)

    async def lose(self) -> None:
        await self.there.take(self.random.randint(1, 3), visibility=0.5)
        await trio.sleep(0.6)

    async def replace(self) -> None:
        if self.random.random() < 0.3:
            await self.there.ref.call(ReplaceMember(GROUP, "ann", 0, 0))
            for taken, own in self.out.values():
                assert await self.there.settle(taken, Action.ACK, [own]) == (own,), "G6"
            self.out.clear()

    async def begin(self) -> None:
        if self.out:
            taken, own = self.out[self.random.choice(sorted(self.out))]
            assert await self.there.settle(taken, Action.BEGIN, [own]) == ()

    async def settle(self) -> None:
        if not self.out:
            return
        offset = self.random.choice(sorted(self.out))
        taken, own = self.out.pop(offset)
        action = self.random.choice((Action.ACK, Action.ACK, Action.NACK, Action.RELEASE, Action.REJECT))
        assert await self.there.settle(taken, action, [own], delay=0.0) == ()
        if action is Action.ACK:
            self.acked.add(offset)

    async def bury(self) -> None:
        letters = await self.there.ref.call(TakeDeadLetters(GROUP, 2, 1_000))
        if letters is not None:
            await self.there.ref.call(ConfirmDeadLetters(GROUP, letters.producer.base_sequence))
            self.buried |= {letter.offset for letter in letters.messages}

    async def check_after(self, disk: SimulatedDisk) -> None:
        """Every receipt is good, nothing that is done comes again, and everything else does."""
        async with desk(disk) as after:
            end = Story(after, self.random, self.published, set(self.acked), set(self.buried))
            for taken, own in self.out.values():
                assert await after.settle(taken, Action.ACK, [own]) == ()
                end.acked.add(own.first)
            await end.finish()
            assert end.acked | end.buried == set(range(self.published)), "G5"
            assert await after.committed() == self.published

    async def finish(self) -> None:
        """Ack whatever comes."""
        await self.take()
        while self.out:
            for offset, (taken, own) in self.out.items():
                assert await self.there.settle(taken, Action.ACK, [own]) == ()
                self.acked.add(offset)
            self.out.clear()
            await self.take()
        while (before := len(self.buried)) >= 0:
            await self.bury()
            if len(self.buried) == before:
                break


@pytest.mark.parametrize("seed", range(6))
async def test_a_kill_between_any_two_steps_undoes_nothing_that_was_answered(
    seed: int, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5, G6, G7"""
    async with desk(disk, SMALL) as there:
        story = Story(there, Random(seed))
        for _ in range(40):
            await story.go_on()
            await story.check_after(disk.kill())


@pytest.mark.parametrize("seed", range(4))
async def test_after_a_power_loss_some_come_again_and_none_is_missing(
    seed: int, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5"""
    async with desk(disk, SMALL) as there:
        story = Story(there, Random(seed))
        for _ in range(30):
            await story.go_on()
            if story.random.random() < 0.2:
                await trio.sleep(1.5)  # what was written is synced meanwhile
            async with desk(disk.crash(), attached=False) as after:
                await after.attach(generation=2)
                seen, buried = await everything_after_reset_of_leases(after)
                assert seen | buried | story.acked | story.buried == set(range(story.published))


async def everything_after_reset_of_leases(after: Desk) -> tuple[set[int], set[int]]:
    """All that a group gets once nobody holds anything, and what is given up."""
    committed = await after.committed()
    progress = (await after.view()).progress
    story = Story(after, Random(0))
    await story.bury()
    await after.ref.call(ResetLedger(GROUP, f"offset:{committed}"))
    seen: set[int] = set()
    while (taken := await after.take(generation=2)).runs:
        seen |= set(offsets(taken))
    assert progress.committed == committed
    return seen, story.buried


async def test_a_receipt_and_its_attempt_survive_a_kill_and_so_does_the_lease(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        await there.settle(await there.take(), Action.NACK, delay=0.0)
        taken = await there.take(1, visibility=60.0)
        await trio.sleep(20)
        async with desk(disk.kill()) as after:
            other = await after.take()
            assert other.runs == (run(1, attempt=2),)
            assert await after.settle(other) == await after.settle(taken) == ()
        async with desk(disk.kill()) as after:
            await after.settle(await after.take())
            assert await after.wait(90) == pytest.approx(40.0, abs=0.1)
            assert await after.settle(taken) == taken.runs


async def test_a_partition_that_did_not_stop_in_order_is_built_again_from_its_journal(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    with trio.CancelScope() as scope:
        async with desk(disk) as there:
            await there.publish(b"a", b"b")
            taken = await there.take()
            await there.settle(taken, runs=[run(1)])
            scope.cancel()
            await trio.sleep_forever()
    async with desk(disk) as after:
        assert (await after.take()).runs == ()
        assert await after.settle(taken) == ()
        assert await after.committed() == 2


async def test_a_retry_is_due_when_it_was_before_a_kill(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(b"a")
        await there.settle(await there.take(), Action.NACK, delay=50.0)
        await trio.sleep(20)
        async with desk(disk.kill()) as after:
            assert await after.wait(90) == pytest.approx(30.0, abs=0.1)


async def test_a_clock_that_jumped_back_does_not_prolong_a_lease(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    clock = SimulatedClock()
    async with desk(disk, clock=clock) as there:
        await there.publish(b"a")
        await there.take(visibility=60.0)
        async with desk(disk.kill(), clock=SimulatedClock(skew=-3_600_000_000)) as after:
            assert await after.wait(90) == pytest.approx(60.0, abs=0.1)


async def test_where_a_group_begins_is_durable_before_it_is_answered(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: else `latest` would be a later one after a power loss."""
    async with desk(disk, attached=False) as there:
        await there.publish(b"before")
        await there.attach(start="latest")
        await there.publish(b"after")
        for _ in range(20):
            async with desk(disk.crash(), attached=False) as after:
                await after.attach(start="latest")
                assert offsets(await after.take()) == [1]


async def test_where_a_group_begins_survives_a_power_loss_at_the_moment_of_the_answer(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: what is published afterwards is the group's, though it attaches again only later."""
    async with desk(disk, attached=False) as there:
        await there.publish(b"before")
        await there.attach(start="latest")
        images = [disk.crash() for _ in range(20)]
    for image in images:
        async with desk(image, attached=False) as after:
            await after.publish(b"after")
            await after.attach(start="latest")
            assert offsets(await after.take()) == [1]


async def test_a_group_of_the_earliest_need_not_be_durable_to_have_everything(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: it begins there again, and what it has acked comes once more at most."""
    async with desk(disk, attached=False) as there:
        await there.publish(b"a", b"b")
        await there.attach(OTHER)
        disk.faults.sync_seconds = (5.0, 5.0)
        begin = trio.current_time()
        await there.attach()
        assert trio.current_time() == begin, "nobody waits for a sync"
        images = [disk.crash() for _ in range(20)]
    for image in images:
        image.faults.sync_seconds = (0.0, 0.0)
        async with desk(image, attached=False) as after:
            await after.attach()
            assert offsets(await after.take()) == [0, 1]


async def test_a_reset_is_durable_before_it_is_answered(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 5)
        await there.ref.call(ResetLedger(GROUP, "offset:3"))
        for _ in range(20):
            async with desk(disk.crash()) as after:
                assert offsets(await after.take()) == [3, 4]


async def test_acks_are_durable_within_a_second_or_so(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        await there.settle(await there.take(1))
        await trio.sleep(1.1)
        for _ in range(20):
            async with desk(disk.crash()) as after:
                assert await after.committed() == 1


async def test_everything_is_durable_after_a_stop(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G15"""
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        taken = await there.take()
        await there.settle(taken, runs=[run(0)])
    for _ in range(20):
        async with desk(disk.crash()) as after:
            assert await after.committed() == 1
            assert await after.settle(taken) == ()


async def test_settings_survive_so_that_what_expires_before_the_group_is_back_is_treated_as_it_wished(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there:
        await there.attach(settings=LedgerSettings(max_deliveries=1))
        await there.attach(settings=LedgerSettings(max_deliveries=0))
        await there.publish(b"a")
        for _ in range(5):
            await there.take(visibility=1.0)
            await trio.sleep(1)
        await there.take(visibility=1.0)
        async with desk(disk.kill(), attached=False) as after:
            await trio.sleep(2)
            progress = (await after.view()).progress
            assert (progress.leaving, progress.ready_again) == (0, 1)


async def test_a_group_that_was_forgotten_stays_so(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.attach(OTHER)
        await there.ref.call(ForgetGroup(GROUP, 7))
        async with desk(disk.crash(), attached=False) as after:
            with pytest.raises(UnknownGroup):
                await after.take()
            await after.view(OTHER)


async def test_a_group_that_had_come_further_than_the_log_goes_is_cut_back(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        for _ in range(5):
            await there.publish(b"x" * 50)
        await there.settle(await there.take())
    disk.cut(path_of(0), 2 * 178)
    for name in disk.list("/data/logs/orders/0"):
        if not name.endswith((".log", "groups")):
            disk.remove(f"/data/logs/orders/0/{name}")
    async with desk(disk) as after:
        end = (await after.view()).end
        assert end < 5
        assert await after.committed() == end
        assert await after.publish(b"new") == end
        assert offsets(await after.take()) == [end]


# The companion log.


async def test_a_grown_log_is_replaced_by_a_snapshot_and_nothing_is_forgotten(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshotlog, "GROWN_BYTES", 2_000)
    async with desk(disk) as there:
        await there.attach(OTHER)
        await there.publish(*[b"x"] * 200)
        held = await there.take(2, visibility=LONG)
        sizes = set()
        for _ in range(90):
            await there.settle(await there.take(2))
            await trio.sleep(0.1)
            sizes.add(sum(disk.size(f"{COMPANION}/{name}") for name in disk.list(COMPANION)))
        assert max(sizes) < 10_000
        async with desk(disk.kill()) as after:
            assert await after.settle(held) == ()
            assert (await after.committed(), await after.committed(OTHER)) == (182, 0)


async def test_a_full_disk_refuses_and_changes_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(b"a", b"b")
        taken = await there.take(1, visibility=20.0)
        await trio.sleep(2)
        leave_room(disk, 0)
        with pytest.raises(DiskFull):
            await there.take()
        with pytest.raises(DiskFull):
            await there.settle(taken)
        with pytest.raises(DiskFull):
            await there.attach(OTHER)
        progress = (await there.view()).progress
        assert (progress.committed, progress.in_flight, progress.next_fresh) == (0, 1, 1)
        await trio.sleep(30)  # the lease ends, and there is no room to say so
        leave_room(disk, 1_000_000)
        await trio.sleep(2)  # it is tried each second
        assert (await there.take()).runs == (run(0, attempt=2), run(1))


async def test_a_damaged_log_repeats_messages_and_passes_none(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """G5: wherever the damage is, what was not acked comes, and the partition serves."""
    async with desk(disk) as there:
        await there.attach(OTHER, start="latest")
        await there.publish(*[b"x"] * 30)
        for _ in range(8):
            await there.settle(await there.take(3), runs=[])
            taken = await there.take(2)
            await there.settle(taken)
        unacked = set(range(30)) - {offset for n in range(8) for offset in (5 * n + 3, 5 * n + 4)}
    for position in range(0, disk.size(LEDGERS), 37):
        damaged = disk.kill()
        damaged.flip_bit(LEDGERS, position, 1)
        async with desk(damaged, attached=False) as after:
            await after.attach(start="latest")
            await after.attach(OTHER, start="latest")
            assert await after.committed() == 0
            seen: set[int] = set()
            await trio.sleep(31)
            while (taken := await after.take(1)).runs:
                seen |= set(offsets(taken))
                await after.settle(taken)
            assert seen >= unacked, position
            assert "lost entries" in caplog.text
            assert await after.committed() == 30
            caplog.clear()
        async with desk(damaged, attached=False) as again:
            assert await again.committed() == 30
            assert "lost entries" not in caplog.text


async def test_a_group_that_may_have_been_lost_begins_at_the_earliest(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 3)
    disk.flip_bit(LEDGERS, 40, 0)
    caplog.set_level(logging.WARNING)
    for _ in range(2):  # a restart does not make it any surer
        async with desk(disk, attached=False) as after:
            pass
    async with desk(disk, attached=False) as after:
        await after.attach(start="latest")
        assert offsets(await after.take()) == [0, 1, 2]
        assert "may have been here" in caplog.text


async def test_acks_that_nobody_waited_for_to_be_durable_cost_no_sync_each(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*[b"x"] * 200, acks=Acks.ALL)
        await trio.sleep(10)
        before = disk.counts.syncs
        for _ in range(100):
            await there.settle(await there.take(2))
        assert disk.counts.syncs == before
        await trio.sleep(3)
        assert disk.counts.syncs == before + 2, "the log, and the recovery point that claims it"

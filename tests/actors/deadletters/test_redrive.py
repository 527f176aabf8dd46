"""Dead letters on their way back: the right ones, to the right ones, each exactly once."""

from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.deadletters.requests import RedriveDeadLetters
from goqueue.actors.delivery.requests import SettleRuns
from goqueue.actors.groups.requests import FindGroup
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.requests import Produce
from goqueue.actors.topics.requests import DeleteTopic
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import Flag, encode_record
from goqueue.errors import GroupConflict, UnknownGroup, UnknownPartition, UnknownTopic
from goqueue.net.wire.letters import Redrive
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import WatchedDisk, broker
from tests.actors.groups.groupstage import group_names
from tests.actors.groups.groupworld import Consumer, consumer, create, described, partition_of, patience, records
from tests.actors.partition.test_partition import publish
from tests.actors.runtime.troupe import start_call

LOG = "/data/logs/orders/0/00000000000000000000.log"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def redrive(running: Broker, topic: str = "orders", **wanted: Any) -> tuple[int, int]:
    done = await running.dead_letters.call(RedriveDeadLetters(*Redrive(topic, **wanted)))
    return done.decided, done.waiting


async def give_up(running: Broker, who: Consumer, *values: bytes, number: int = 0, reason: str = "poison") -> None:
    await (await partition_of(running, "orders", number)).call(publish(*values))
    await reject(who, number, reason)


async def reject(who: Consumer, number: int = 0, reason: str = "poison") -> None:
    await who.settle("orders", number, await who.take("orders", number), Action.REJECT, reason)
    await patience()


async def received(who: Consumer, number: int = 0) -> int:
    """So many messages are handed to it now."""
    return sum(run.size for run in (await who.take("orders", number)).runs)


async def values(running: Broker, topic: str, number: int = 0) -> list[bytes]:
    return [record.value for record in await records(running, topic, number)]


async def test_a_letter_goes_back_to_the_group_that_gave_it_up_and_others_pass_it_over(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders", 2)
        billing, audit = await consumer(running, "orders"), await consumer(running, "orders", group="audit")
        await give_up(running, billing, b"a", b"b", number=1)
        await audit.settle("orders", 1, await audit.take("orders", 1), Action.ACK)
        assert await redrive(running) == (2, 0)
        *_, copy = await records(running, "orders", 1)
        assert (copy.value, copy.offset, copy.flags & Flag.FOR_ONE_GROUP) == (b"b", 3, Flag.FOR_ONE_GROUP)
        assert dict(copy.headers) == {"goqueue-for-group": b"billing"}
        assert await received(billing, 1) == 2
        assert await received(audit, 1) == 0
        assert next(view.lag for view in (await described(running, "audit")).partitions if view.partition) == 0


async def test_letters_of_all_priorities_go_back(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Many of them come in no order, and are named by sets of offsets."""
    async with broker(disk) as running:
        await create(running, "orders")
        billing = await consumer(running, "orders")
        body = b"".join(encode_record(number, 1, b"%d" % number, priority=number % 5) for number in range(60))
        await (await partition_of(running, "orders")).call(Produce(body, 60))
        taken = await billing.take("orders")
        assert taken.size == 60
        assert not taken.runs
        stale = await (await partition_of(running, "orders")).call(
            SettleRuns("billing", taken.nonce, Action.REJECT, taken.all_runs, reason="poison")
        )
        assert stale == ()
        await patience()
        assert await redrive(running, messages_max=25) == (25, 35)
        assert await redrive(running) == (35, 0)
        assert sorted(map(int, (await values(running, "orders"))[60:])) == list(range(60))


async def test_with_all_groups_everybody_gets_it(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        billing, audit = await consumer(running, "orders"), await consumer(running, "orders", group="audit")
        await give_up(running, billing, b"a")
        await audit.settle("orders", 0, await audit.take("orders"), Action.ACK)
        assert await redrive(running, all_groups=True) == (1, 0)
        *_, copy = await records(running, "orders")
        assert (dict(copy.headers), copy.flags) == ({}, Flag(0))
        assert (await received(billing), await received(audit)) == (1, 1)


async def test_another_topic_can_be_named(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders", 3)
        await create(running, "hospital", 2)
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", number=2)
        await give_up(running, who, b"b", number=1)
        assert await redrive(running, to="hospital") == (2, 0)
        assert (await values(running, "hospital", 0), await values(running, "hospital", 1)) == ([b"a"], [b"b"])
        assert await received(who, 2) == 0


async def test_only_what_fits_all_that_is_given(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        billing, audit = await consumer(running, "orders"), await consumer(running, "orders", group="audit")
        await give_up(running, billing, b"a", reason="timeout of the bank")
        await give_up(running, billing, b"b", reason="no such customer")
        await give_up(running, billing, b"c", reason="timeout of the mail")
        await reject(audit, reason="timeout of the auditor")
        await create(running, "seen")
        assert await redrive(running, group="billing", reason="timeout", dry_run=True) == (2, 4)
        assert await redrive(running, group="nobody") == (0, 6)
        assert await redrive(running, offsets=(1,), to="seen") == (1, 5)
        assert await redrive(running, group="billing", reason="timeout", to="seen", messages_max=1) == (1, 4)
        assert await redrive(running, group="billing", reason="timeout", to="seen") == (1, 3)
        assert await redrive(running, group="billing", to="seen") == (0, 3)
        assert await values(running, "seen") == [b"b", b"a", b"c"]
        assert await redrive(running, to="seen") == (3, 0)


async def test_a_second_redrive_finds_nothing_and_a_letter_that_comes_again_is_a_new_one(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a")
        assert await redrive(running) == (1, 0)
        assert await redrive(running) == (0, 0)
        await reject(who, reason="again")
        *_, letter = await records(running, "orders.dlq")
        assert letter.headers["goqueue-dlq-reason"] == b"again"
        assert "goqueue-for-group" not in letter.headers
        assert await redrive(running) == (1, 0)


async def test_a_dry_run_changes_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b")
        assert await redrive(running, dry_run=True) == (2, 0)
        assert await values(running, "orders") == [b"a", b"b"]
        assert await redrive(running, dry_run=True, messages_max=1) == (1, 1)
        assert await redrive(running) == (2, 0)


async def test_what_comes_back_at_once_is_not_sent_again_and_again(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async def reject_for_ever(who: Consumer) -> None:
        while True:
            taken = await who.take("orders")
            if taken.runs:
                await who.settle("orders", 0, taken, Action.REJECT, "still no such customer")
            await trio.sleep(0.01)

    async with broker(disk) as running, trio.open_nursery() as nursery:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b")
        nursery.start_soon(reject_for_ever, who)
        with trio.fail_after(60):
            assert await redrive(running, per_second=1) == (2, 2)
        nursery.cancel_scope.cancel()


async def test_it_keeps_to_its_rate(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running, trio.open_nursery() as nursery:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, *(b"%d" % number for number in range(50)))
        begin = trio.current_time()
        asked = start_call(nursery, running.dead_letters, RedriveDeadLetters(*Redrive("orders", per_second=10)))
        await trio.sleep(2.5)
        assert 20 <= len(await values(running, "orders")) - 50 <= 30
        with pytest.raises(GroupConflict, match="under way"):
            await redrive(running)
        assert await group_names(running.groups) == ["billing"], "others are served meanwhile"
        await trio.sleep(begin + 7 - trio.current_time())
        assert asked.answer[:2] == (50, 0)


async def test_what_cannot_be_asked_for(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        with pytest.raises(UnknownTopic, match="there is no topic missing"):
            await redrive(running, topic="missing")
        await give_up(running, who, b"a")
        with pytest.raises(UnknownTopic):
            await redrive(running, to="missing")
        with pytest.raises(GroupConflict):
            await redrive(running, to="orders.dlq")
        with pytest.raises(UnknownPartition):
            await redrive(running, partition=1)
        with pytest.raises(UnknownGroup):
            await running.groups.call(FindGroup("__redrive"))
        assert await group_names(running.groups) == ["billing"]
        assert await redrive(running, partition=0) == (1, 0)


async def test_letters_that_nobody_is_there_to_get_stay(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """And what a program published to the dead-letter topic itself is no dead letter."""
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a")
        await (await partition_of(running, "orders.dlq")).call(publish(b"by hand"))
        await running.topics.call(DeleteTopic("orders"))
        assert await redrive(running) == (0, 2)
        await create(running, "orders")
        assert await redrive(running) == (1, 1)
        assert await values(running, "orders") == [b"a"]


@pytest.mark.parametrize("end", [SimulatedDisk.kill, SimulatedDisk.crash])
async def test_each_goes_back_once_whatever_step_a_crash_cuts_short(
    disk: SimulatedDisk, autojump_clock: MockClock, end: Any
) -> None:
    """Two origins, so that one transfer has two places to go to; and repeated until all have gone."""
    watched = WatchedDisk(disk, end)
    async with broker(watched) as running:
        await create(running, "orders", 2)
        await create(running, "orders.dlq", 1)
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b", number=0)
        await give_up(running, who, b"c", number=1)
        assert await values(running, "orders.dlq") == [b"a", b"b", b"c"]
        watched.images = []
        assert await redrive(running) == (3, 0)
        images, watched.images = watched.images, None
    assert len(images) > 10
    for image in images:
        async with broker(image) as after:
            await patience()
            await redrive(after)
            assert await values(after, "orders", 0) == [b"a", b"b", b"a", b"b"]
            assert await values(after, "orders", 1) == [b"c", b"c"]


async def test_what_was_chosen_goes_on_its_own_after_a_crash(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    watched = WatchedDisk(disk, SimulatedDisk.kill)
    async with broker(watched) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a")
        size = disk.size(LOG)
        watched.images = []
        await redrive(running)
        images, watched.images = watched.images, None
    resumed = 0
    for image in images:
        was_sent = image.size(LOG) > size
        async with broker(image) as after:
            await patience()
            resumed += len(await values(after, "orders")) == 2 and not was_sent
    assert resumed

"""Dead letters reach their topic exactly once, whatever is cut short (G5)."""

from random import Random

import msgpack
import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.groups.requests import FindGroup
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.requests import Produce
from goqueue.actors.topics.board import described_topics
from goqueue.actors.topics.requests import AddPartitions, DeleteTopic
from goqueue.core.ledger.entries import TransferDone
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.batch import ENVELOPE_SIZE, parse_envelope
from goqueue.core.records.record import encode_record
from goqueue.environment import Space
from goqueue.errors import ActorDied, DiskFull, UnknownTopic
from goqueue.storage.snapshotlog.snapshotlog import values_in
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Priority
from tests.actors.delivery.gatherers import WatchedDisk, broker
from tests.actors.groups.groupworld import Consumer, consumer, create, described, partition_of, patience, records
from tests.actors.partition.test_partition import publish
from tests.actors.runtime.troupe import background_tasks
from tests.storage.journals.crashes import leave_room

DEPARTED = TransferDone(0).to_plain()[0]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def give_up(broker: Broker, who: Consumer, *values: bytes, topic: str = "orders", number: int = 0) -> None:
    await (await partition_of(broker, topic, number)).call(publish(*values))
    await who.settle(topic, number, await who.take(topic, number), Action.REJECT, "poison")


async def test_a_rejected_message_is_found_in_the_dead_letter_topic_with_its_story(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders", 3)
        ref = await partition_of(running, "orders", 2)
        body = encode_record(0, 77, b"v", key=b"k", headers={"a": b"1"}, priority=Priority.HIGH)
        await ref.call(Produce(body, 1))
        who = await consumer(running, "orders")
        taken = await who.take("orders", 2)
        await who.settle("orders", 2, taken, Action.REJECT, "no such customer")
        await patience()
        assert await records(running, "orders.dlq", 0) == []
        [letter] = await records(running, "orders.dlq", 2)
        assert (letter.key, letter.value, letter.priority, letter.timestamp) == (b"k", b"v", Priority.HIGH, 77)
        headers = dict(letter.headers)
        assert headers.pop("goqueue-dlq-first-delivery") == headers.pop("goqueue-dlq-last-delivery")
        assert headers == {
            "a": b"1",
            "goqueue-dlq-topic": b"orders",
            "goqueue-dlq-partition": b"2",
            "goqueue-dlq-offset": b"0",
            "goqueue-dlq-group": b"billing",
            "goqueue-dlq-attempts": b"1",
            "goqueue-dlq-reason": b"no such customer",
        }
        [made] = await described_topics(running.topics, ("orders.dlq",))
        assert (len(made.partitions), made.config["retention_hours"]) == (3, "unlimited")


async def test_progress_passes_a_dead_letter_once_it_has_arrived(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A dead-lettered offset that blocked the committed prefix for ever."""
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b")
        await patience()
        [view] = (await described(running)).partitions
        assert (view.committed, view.lag, view.leaving, view.in_flight) == (2, 0, 0, 0)


async def test_many_transfers_arrive_in_order_and_once(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        values = [b"%d" % number for number in range(12)]
        for value in values:
            await give_up(running, who, value)
            await patience(0.3)
        await patience()
        assert [letter.value for letter in await records(running, "orders.dlq")] == values


async def test_a_message_that_is_never_settled_ends_as_a_dead_letter(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"poison"))
        who = await consumer(running, "orders", max_deliveries=2)
        for _ in range(2):
            assert (await who.take("orders", visibility=1.0)).runs
            await patience(2)
        await patience()
        [letter] = await records(running, "orders.dlq")
        assert (letter.value, letter.headers["goqueue-dlq-attempts"]) == (b"poison", b"2")


async def test_two_groups_give_up_the_same_message_each_for_itself(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        billing, audit = await consumer(running, "orders"), await consumer(running, "orders", group="audit")
        await give_up(running, billing, b"a")
        await audit.settle("orders", 0, await audit.take("orders"), Action.REJECT, "too odd")
        await patience()
        groups = {letter.headers["goqueue-dlq-group"] for letter in await records(running, "orders.dlq")}
        assert groups == {b"billing", b"audit"}


async def test_a_message_keeps_its_partition_modulo(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders", 2)
        who = await consumer(running, "orders")
        await give_up(running, who, b"first")
        await patience()
        await running.topics.call(AddPartitions("orders", 4))
        await patience()
        who = await consumer(running, "orders")
        await give_up(running, who, b"later", number=3)
        await patience()
        assert [letter.value for letter in await records(running, "orders.dlq", 1)] == [b"later"]


async def test_dead_letters_have_none_themselves_and_what_is_rejected_there_comes_again(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """SPEC §6. Neither a reject nor any number of failures makes a dead letter of one."""
    async with broker(disk) as running:
        await create(running, "orders.dlq")
        await (await partition_of(running, "orders.dlq")).call(publish(b"a", b"b"))
        who = await consumer(running, "orders.dlq", max_deliveries=1)
        taken = await who.take("orders.dlq", count=1)
        await who.settle("orders.dlq", 0, taken, Action.REJECT, "hopeless")
        await who.settle("orders.dlq", 0, await who.take("orders.dlq"), Action.ACK)
        await patience(59)
        assert not (await who.take("orders.dlq")).runs
        await patience(2)
        assert (await who.take("orders.dlq", visibility=1.0)).runs == ((0, 0, 2),)
        await patience(2)
        assert (await who.take("orders.dlq")).runs == ((0, 0, 3),)
        assert [topic.name for topic in await described_topics(running.topics)] == ["orders.dlq"]


async def test_the_dead_letter_topic_of_a_topic_with_the_longest_name(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    name = "x" * 196
    async with broker(disk) as running:
        await create(running, name)
        who = await consumer(running, name)
        await give_up(running, who, b"a", topic=name)
        await patience()
        assert len(await records(running, f"{name}.dlq")) == 1


async def test_a_dead_letter_topic_that_was_deleted_is_made_again(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        for value in (b"old", b"older"):
            await give_up(running, who, value)
            await patience()
        await running.topics.call(DeleteTopic("orders.dlq"))
        await give_up(running, who, b"new")
        await patience()
        assert [letter.value for letter in await records(running, "orders.dlq")] == [b"new"]


async def test_dead_letters_go_on_below_the_least_free_space(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"a"))
        taken = await who.take("orders")
        monkeypatch.setattr(disk, "space", lambda _path: Space(free=10_000_000, total=10**12))
        await patience()
        with pytest.raises(DiskFull):
            await (await partition_of(running, "orders")).call(publish(b"refused"))
        await who.settle("orders", 0, taken, Action.REJECT, "poison")
        await patience()
        assert [letter.value for letter in await records(running, "orders.dlq")] == [b"a"]


async def test_two_partitions_have_need_of_the_topic_at_the_same_time(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker(disk) as running:
        await create(running, "orders", 2)
        who = await consumer(running, "orders")
        for number in range(2):
            await give_up(running, who, b"%d" % number, number=number)
        await patience()
        for number in range(2):
            assert [letter.value for letter in await records(running, "orders.dlq", number)] == [b"%d" % number]
    assert not caplog.records


async def test_a_topic_made_again_has_dead_letters_again(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that carried those of the old topic may still be waiting for better times."""
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"old"))
        taken = await who.take("orders")
        monkeypatch.setattr(disk, "capacity", 0)
        with pytest.raises(DiskFull):
            await who.settle("orders", 0, taken, Action.REJECT, "poison")
        monkeypatch.undo()
        await patience(0.1)  # until the traces of the failed write are cut off
        await who.settle("orders", 0, taken, Action.REJECT, "poison")
        await running.topics.call(DeleteTopic("orders"))
        await create(running, "orders")
        await patience()
        who = await consumer(running, "orders")
        await give_up(running, who, b"new")
        await patience()
        assert (await records(running, "orders.dlq"))[-1].value == b"new"


async def test_the_topic_goes_while_its_dead_letters_wait(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        service = running.dead_letters
        tasks = background_tasks(service)
        await (await partition_of(running, "orders")).call(publish(b"a"))
        await who.settle("orders", 0, await who.take("orders"), Action.REJECT, "poison")
        leave_room(disk, 0)
        await patience(0.1)
        assert background_tasks(service) == tasks + 1, "somebody waits for better times"
        leave_room(disk, 10**9)
        await running.topics.call(DeleteTopic("orders"))
        await patience(60)
        with pytest.raises(UnknownTopic):
            await who.take("orders")
        assert (await described(running)).partitions == ()
        assert background_tasks(service) == tasks


async def test_dead_letters_that_wait_are_found_after_the_service_crashed(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"a"))
        await who.settle("orders", 0, await who.take("orders"), Action.REJECT, "poison")
        leave_room(disk, 0)
        await patience(0.1)
        with pytest.raises(ActorDied):
            await running.dead_letters.call(FindGroup("a message that it has no method for"))
        leave_room(disk, 10**9)
        await patience()
        assert [each.value for each in await records(running, "orders.dlq")] == [b"a"]


async def test_groups_that_give_up_at_the_same_time_are_all_heard(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Newer news of a partition replaces older: not if it is about another group."""
    async with broker(disk) as running:
        await create(running, "orders")
        groups = [await consumer(running, "orders", group=f"group-{number}") for number in range(5)]
        await (await partition_of(running, "orders")).call(publish(b"a"))
        taken = [await who.take("orders") for who in groups]
        async with trio.open_nursery() as nursery:
            for who, each in zip(groups, taken, strict=True):
                nursery.start_soon(who.settle, "orders", 0, each, Action.REJECT, "poison")
        await patience()
        found = [each.headers["goqueue-dlq-group"] for each in await records(running, "orders.dlq")]
        assert sorted(found) == [b"group-%d" % number for number in range(5)]


@pytest.mark.parametrize("end", [SimulatedDisk.kill, SimulatedDisk.crash])
async def test_a_dead_letter_arrives_once_whatever_step_a_crash_cuts_short(
    disk: SimulatedDisk, autojump_clock: MockClock, end: object
) -> None:
    """G5: before each write and each sync of the way, the process ends, or the power."""
    watched = WatchedDisk(disk, end)  # type: ignore[arg-type]
    async with broker(watched) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"before")
        await patience()
        await (await partition_of(running, "orders")).call(publish(b"a", b"b", b"c"))
        taken = await who.take("orders")
        watched.images = []
        await who.settle("orders", 0, taken, Action.REJECT, "poison")
        images = watched.images
        rejected_at = len(images)
        await patience()
        watched.images = None
    assert len(images) - rejected_at > 5
    for image in images[rejected_at:]:
        async with broker(image) as after:
            await patience()
            found = [letter.value for letter in await records(after, "orders.dlq")]
            if end is SimulatedDisk.kill or len(found) > 1:
                assert found == [b"before", b"a", b"b", b"c"]
                continue
            assert found == [b"before"], "power went before the rejection was durable: it comes again"
            again = await consumer(after, "orders")
            await patience(31)
            runs = (await again.take("orders")).runs
            assert sum(run.size for run in runs) == 3


async def test_stopping_in_the_middle_loses_and_doubles_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G15"""
    disk.faults.sync_seconds = (0.05, 0.05)
    values = []
    for number in range(8):
        async with broker(disk) as running:
            if not number:
                await create(running, "orders")
            who = await consumer(running, "orders")
            values.append(b"%d" % number)
            await give_up(running, who, values[-1])
            await patience(0.02 * number)
        disk = disk.crash()  # what a stop leaves is durable
        disk.faults.sync_seconds = (0.05, 0.05)
    async with broker(disk) as running:
        await patience()
        assert [letter.value for letter in await records(running, "orders.dlq")] == values


async def lose_the_first_end_of_a_transfer(disk: SimulatedDisk) -> None:
    """And with it all that was written of the group behind it."""
    path, position = f"/data/logs/orders/0/groups/{0:020d}.log", 0
    data = await disk.open(path).read(0, disk.size(path))
    while envelope := parse_envelope(data, position):
        for value in values_in(data[position : position + envelope.size], 0):
            if isinstance(msgpack.unpackb(value)[3], list) and msgpack.unpackb(value)[3][:1] == [DEPARTED]:
                disk.flip_bit(path, position + ENVELOPE_SIZE, 0)
                return
        position += envelope.size
    raise AssertionError("no transfer has ended")


@pytest.mark.parametrize("dead_letters", [1, 2, 8])
async def test_a_dead_letter_whose_arrival_was_forgotten_does_not_arrive_again(
    disk: SimulatedDisk, autojump_clock: MockClock, dead_letters: int
) -> None:
    """G5: also when the topic remembers no more where it wrote it. Those behind it are taken for none that left."""
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        for number in range(dead_letters):
            await give_up(running, who, b"%d" % number)
            await patience(0.3)
    before = [b"%d" % number for number in range(dead_letters)]
    await lose_the_first_end_of_a_transfer(disk)
    async with broker(disk) as running:
        who = await consumer(running, "orders")
        await patience()
        assert [letter.value for letter in await records(running, "orders.dlq")] == before
        await give_up(running, who, b"new")  # with those that were taken before, as far as nobody remembers it
        await patience()
        found = [letter.value for letter in await records(running, "orders.dlq")]
        assert found == [*before, *before[1:], b"new"]
        [view] = (await described(running)).partitions
        assert (view.committed, view.leaving) == (dead_letters + 1, 0)

"""Why nothing is delivered, read from a running broker: a group is brought into each state, and asked."""

from dataclasses import replace
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import AwaitDeliverable, ListLedgers
from goqueue.actors.groups.attachments import ANSWER_SECONDS_MAX
from goqueue.actors.groups.board import found_board, group_board
from goqueue.actors.groups.requests import Alter, AwaitMembership, FindGroup, Leave, MemberLost
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.requests import Produce
from goqueue.actors.topics.requests import DeleteTopic
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import DELAY_BIT, encode_record
from goqueue.core.why.rules import Explanation, explain
from goqueue.errors import UnknownMember
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.actors.delivery.gatherers import broker
from tests.actors.groups.groupstage import join, on_stage
from tests.actors.groups.groupworld import Consumer, consumer, create, partition_of, patience
from tests.actors.partition.test_partition import publish
from tests.actors.runtime.troupe import start_call

LOG = "/data/logs/orders/0/00000000000000000000.log"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def why(running: Broker, member: str | None = None, group: str = "billing") -> Explanation:
    return explain(await (await found_board(running.groups, group)).facts(member))


async def filled(running: Broker, *values: bytes, partitions: int = 1, topic: str = "orders") -> None:
    await create(running, topic, partitions)
    for number in range(partitions):
        if values:
            await (await partition_of(running, topic, number)).call(publish(*values))


async def tell(running: Broker, message: object) -> None:
    await (await running.groups.call(FindGroup("billing"))).call(message)  # type: ignore[arg-type]


async def test_a_group_without_members_says_how_many_wait(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running, b"a", b"b", partitions=3)
        await consumer(running, "orders")
        await tell(running, Leave("ann"))
        assert (await why(running)).text == "the group has no members: 6 messages wait on 3 partitions"
        with pytest.raises(UnknownMember, match="ann"):
            await why(running, "ann")


async def test_a_group_whose_topic_is_not_there_says_so(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await consumer(running, "orders-*")
        text = "there is no topic for any member to read: none is or fits orders-*"
        assert (await why(running)).text == text
        topic = await create(running, "orders-1")
        await patience()
        assert (await why(running)).reason == "nothing_left"
        await running.topics.call(DeleteTopic("orders-1", topic.uuid))
        await patience()
        assert (await why(running)).text == text


async def test_when_all_is_done_the_last_message_is_dated(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running, partitions=2)
        who = await consumer(running, "orders")
        assert (await why(running)).text == "nothing is left to deliver: nothing was ever published"
        await (await partition_of(running, "orders", 1)).call(publish(b"a"))
        await who.settle("orders", 1, await who.take("orders", 1), Action.ACK)
        await trio.sleep(50)
        found = await why(running, "ann")
        assert found.reason == "nothing_left"
        assert "the last message on its 2 partitions was published at 2026-01-01T00:00:0" in found.text
        assert found.text.endswith(", 50 s ago")


async def test_who_holds_everything_is_named(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running, b"a", b"b", b"c")
        who = await consumer(running, "orders")
        await who.take("orders", count=2, visibility=60.0)
        await trio.sleep(15)
        await who.take("orders")
        await trio.sleep(5)
        assert (await why(running)).text == (
            "everything that is there is in flight: 3 messages, the oldest lease held by ann for 20 s, ends in 40 s"
        )


async def test_messages_that_a_worker_holds_ahead_are_told_from_others(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await filled(running, *[b"x"] * 5)
        who = await consumer(running, "orders")
        taken = await who.take("orders", tells_begun=True)
        await who.settle("orders", 0, replace(taken, runs=(AttemptRun(0, 1, 1),)), Action.BEGIN)
        found = await why(running)
        assert found.text.startswith(
            "everything that is there is in flight: 5 messages, 3 of them held ahead and not begun, the oldest"
        )
        facts = await (await found_board(running.groups, "billing")).facts(None)
        assert (facts.figures()["in_flight"], facts.figures()["held_not_begun"]) == (5, 3)


async def test_retries_are_waited_for(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running, b"a", b"b")
        who = await consumer(running, "orders")
        await who.settle("orders", 0, await who.take("orders"), Action.NACK)
        await trio.sleep(0.25)
        found = await why(running)
        assert found.reason == "retries"
        assert found.text.startswith("2 messages wait for their retry, the next in 0.")


async def test_dead_letters_on_their_way_are_said(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """They leave at once, unless there is no room: here the group is not asked to send them before it is asked."""
    async with broker(disk) as running:
        await filled(running, b"a")
        who = await consumer(running, "orders")
        taken = await who.take("orders")
        await who.settle("orders", 0, taken, Action.REJECT)
        found = await why(running)
        assert (found.reason, found.text) == ("dead_letters", "1 message is on the way to the dead-letter topic")
        await patience()
        assert (await why(running)).reason == "nothing_left"


async def test_who_waits_for_messages_is_asking_and_who_works_is_busy(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running, trio.open_nursery() as nursery:
        await filled(running)
        who, ref = await consumer(running, "orders"), await partition_of(running, "orders")
        waiting = start_call(nursery, ref, AwaitDeliverable("billing", "ann", trio.current_time() + 100))
        await trio.sleep(40)
        found = await running.groups.call(FindGroup("billing"))
        [member] = (await (await group_board(found)).facts("ann")).members
        assert (member.asked_ago, member.holds) == (0.0, 0)
        await ref.call(publish(*[b"%d" % number for number in range(7)]))
        await wait_all_tasks_blocked()
        assert waiting.done
        await who.take("orders", count=4, visibility=600.0)
        assert (await why(running)).text == (
            "messages are being delivered: the last 0.0 s ago to ann, 4 in flight, lag 7"
        )
        await trio.sleep(45)
        assert (await why(running, "ann")).text == (
            "ann holds 4 messages unsettled and has not asked for more for 45 s (its credit is used up, or its "
            "program is busy): 3 messages wait for it"
        )


async def test_a_wait_that_is_over_counts_to_its_end(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running)
        await consumer(running, "orders")
        ref = await partition_of(running, "orders")
        await ref.call(AwaitDeliverable("billing", "ann", trio.current_time() + 10))
        await trio.sleep(3)
        await ref.call(publish(b"a"))
        found = await why(running)
        assert found.reason == "not_asking"
        assert found.text.startswith("ann has not asked for messages for 3.")


async def test_who_has_never_asked_is_named(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running, b"a")
        await consumer(running, "orders")
        await trio.sleep(30)
        assert (await why(running)).text == (
            "ann has not asked for messages since it joined 30 s ago: 1 message waits for it"
        )
        await tell(running, MemberLost("ann", 1))
        assert (await why(running)).text == (
            "the connection of ann is lost, and it was last heard of 30 s ago: 1 message waits for it"
        )


async def test_more_members_than_partitions(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running, b"a")
        await consumer(running, "orders")
        await consumer(running, "orders", member="bob")
        assert (await why(running, "bob")).text == "bob has no partition: 2 members share 1 partition"
        assert (await why(running, "ann")).reason == "not_asking"


async def lost_twice(running: Broker) -> Consumer:
    """The first of three messages is on its last permitted delivery, and was lost before."""
    await filled(running, b"a", b"b", b"c")
    who = await consumer(running, "orders", max_deliveries=2)
    await who.take("orders", count=1, visibility=1.0)
    await trio.sleep(2)
    return who


async def test_a_message_that_goes_alone_waits_for_what_is_held(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        who = await lost_twice(running)
        ref = await partition_of(running, "orders")
        await ref.call(publish(b"d"))
        alone = await who.take("orders")
        assert alone.is_alone
        await trio.sleep(5)
        assert (await why(running)).text == (
            "ann holds a message that was delivered alone, and is given nothing else until it has settled it: "
            "3 messages wait for it"
        )


async def test_a_message_waits_until_it_can_go_alone(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running, b"a", b"b", b"c", partitions=2)
        who = await consumer(running, "orders", max_deliveries=2)
        await who.take("orders", 1, visibility=600.0)
        await who.take("orders", 0, count=1, visibility=1.0)
        await trio.sleep(5)
        assert (await why(running)).text == (
            "a message of orders/0 must be delivered alone, and waits until ann has settled the 3 messages that it "
            "holds"
        )


async def test_a_rebalance_names_whom_it_waits_for(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running, b"a", b"b", partitions=2)
        who = await consumer(running, "orders")
        await tell(running, Alter({"rebalance": "eager"}, force=True))
        bob = await consumer(running, "orders", member="bob")
        await trio.sleep(20)
        text = "paused by a rebalance for 20 s, waiting for ann to let go: 4 messages wait on 2 partitions"
        assert (await why(running)).text == text
        assert (await why(running, "bob")).text == text
        group = await running.groups.call(FindGroup("billing"))
        for _ in range(3):
            deadline = trio.current_time() + 0.1
            held = await group.call(AwaitMembership("ann", who.held.generation, deadline, 1))
            who = Consumer(running, held, "billing")
        assert bob.held.assignment == ()
        assert len(who.held.assignment) == 1
        assert (await why(running)).reason == "not_asking"


async def test_what_is_not_on_disk_is_not_shown_yet(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running)
        await consumer(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"a", acks=Acks.LEADER))
        assert (await why(running)).text == "1 message is published and not on disk yet"


async def test_a_topic_that_nobody_wants_any_more(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await filled(running, b"a", b"b")
        await filled(running, topic="bills")
        await consumer(running, "orders")
        await tell(running, Leave("ann"))
        await consumer(running, "bills", member="bob")
        assert (await why(running)).text == "2 messages of orders wait, which no member reads"
        assert (await why(running, "bob")).reason == "nothing_left"


async def test_a_partition_that_hangs_is_named_and_waited_for_no_longer_than_it_may_be(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with on_stage(disk) as stage, trio.open_nursery() as nursery:
        await stage.create("orders", 2)
        group = await stage.group()
        await group.call(join("ann", "orders"))
        stage.script.hanging.add(("orders", 0))
        start_call(nursery, stage.refs[stage.topics["orders"].uuid, 0], ListLedgers())
        await wait_all_tasks_blocked()
        begin = trio.current_time()
        found = explain(await (await group_board(group)).facts(None))
        assert trio.current_time() - begin < 2 + ANSWER_SECONDS_MAX
        assert found.text.startswith("partition orders/0 does not answer, and 1 other does not either: orders/0")
        assert "did not answer within 2 s" in found.text
        nursery.cancel_scope.cancel()


async def test_damage_that_recovery_found_is_no_message(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """A queue group goes round it, and it is named until it is repaired or given up."""
    async with broker(disk) as running:
        await filled(running, b"a", b"b")
        who, ref = await consumer(running, "orders"), await partition_of(running, "orders")
        await who.settle("orders", 0, await who.take("orders"), Action.ACK)
        size = len(bytes(await disk.open(LOG).read(0, 100_000)))
        for value in (b"c", b"d", b"e"):
            await ref.call(publish(value))
        image = disk.kill()
    image.flip_bit(LOG, size + 5, 3)
    async with broker(image) as running:
        who = await consumer(running, "orders")
        found = await running.groups.call(FindGroup("billing"))
        [partition] = (await (await group_board(found)).facts(None)).partitions
        assert (partition.ready, partition.damaged, partition.damaged_at) == (2, 1, 2)
        assert not partition.stands_before_damage
        await who.settle("orders", 0, await who.take("orders"), Action.ACK)
        assert (await why(running)).reason == "only_damage"


def delayed(*seconds: float) -> Produce:
    """Each is due so many seconds after it is written."""
    dues = [DELAY_BIT | round(each * 1_000_000) for each in seconds]
    body = b"".join(encode_record(number, 1, b"v", due=due) for number, due in enumerate(dues))
    return Produce(body, len(dues))


async def test_when_everything_is_delayed_it_says_how_much_and_when_the_next_is_due(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await filled(running, partitions=2)
        who = await consumer(running, "orders")
        for number in range(2):
            await (await partition_of(running, "orders", number)).call(delayed(90 + number, 3_600))
        await patience()
        facts = await (await found_board(running.groups, "billing")).facts("ann")
        assert explain(facts).text.startswith(
            "nothing is left to deliver to ann for now: 4 messages on its 2 partitions wait for their time, the "
        )
        assert (facts.figures()["delayed"], facts.figures()["lag"]) == (4, 0)
        next_due = facts.figures()["next_due_seconds"]
        assert isinstance(next_due, float)
        assert 80 < next_due <= 90
        await trio.sleep(95)
        for number in range(2):
            await who.settle("orders", number, await who.take("orders", number), Action.ACK)
        assert "2 messages wait for their time, the next in 58 min" in (await why(running)).text


async def test_of_thousands_that_are_delayed_the_next_is_found(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """More than are looked at at a time, and the first to come was published last."""
    async with broker(disk) as running:
        await filled(running)
        await consumer(running, "orders")
        partition = await partition_of(running, "orders", 0)
        for number in range(10):
            await partition.call(delayed(*[10_000 - number] * 1_000))
        await partition.call(delayed(50))
        await patience()
        facts = await (await found_board(running.groups, "billing")).facts(None)
        assert explain(facts).text.startswith("nothing is left to deliver for now: 10,001 messages wait")
        assert 40 < (facts.partitions[0].next_due_in or 0) <= 50

"""A consumer against a broker of our own: what it receives, settles and has in flight."""

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.options import ConsumerOptions
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.core.ledger.settlements import Action
from goqueue.errors import PartitionUnavailable, Unavailable
from goqueue.net.wire import groups as wire
from tests.client.consuming.world import FakeBroker, at_work, consuming, numbered, values_of


async def held_ahead(broker: FakeBroker, consumer: Consumer, *values: bytes) -> None:
    """The consumer has these, and its program has not."""
    with trio.move_on_after(1):
        await consumer.receive()
    broker.publish(*values)
    await trio.testing.wait_all_tasks_blocked()


# Receiving


async def test_what_is_there_comes_at_once_with_its_attempt_and_receipt(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a", b"b")
    async with consuming(broker) as consumer:
        before = trio.current_time()
        first, second = await consumer.receive()
        assert trio.current_time() == before
        assert (first.topic, first.partition, first.offset, first.value) == ("orders", 0, 0, b"a")
        assert (first.attempt, first.receipt) == (1, "billing:orders:0:0:1:000000000001")
        assert second.receipt == "billing:orders:0:1:1:000000000001"


async def test_nothing_comes_back_after_the_timeout(autojump_clock: MockClock) -> None:
    async with consuming(FakeBroker()) as consumer:
        for timeout in (0, 5, 25):
            before = trio.current_time()
            assert await consumer.receive(timeout=timeout) == []
            assert trio.current_time() - before == pytest.approx(timeout)


async def test_a_receive_without_waiting_brings_what_the_broker_has(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker) as consumer:
        assert values_of(await consumer.receive(timeout=0)) == [b"a"]


async def test_a_message_is_received_as_soon_as_it_is_there(autojump_clock: MockClock) -> None:
    broker = FakeBroker()

    async def publish_late() -> None:
        await trio.sleep(20)
        broker.publish(b"late")

    async with consuming(broker) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(publish_late)
        before = trio.current_time()
        assert values_of(await consumer.receive()) == [b"late"]
        assert trio.current_time() - before == 20


async def test_no_more_than_asked_for_and_the_rest_next_time(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(5))
    async with consuming(broker) as consumer:
        assert values_of(await consumer.receive(2)) == [b"0", b"1"]
        assert values_of(await consumer.receive(10)) == [b"2", b"3", b"4"]
        for count in (0, -1, 10_001):
            with pytest.raises(goqueue.InvalidConfig, match="max_messages"):
                await consumer.receive(count)


async def test_a_cancelled_receive_loses_nothing_and_its_leases_are_renewed(autojump_clock: MockClock) -> None:
    """A long poll whose messages the broker hands to nobody: here the next call has them, however late."""
    broker = FakeBroker()
    async with consuming(broker) as consumer:
        with trio.move_on_after(3):
            await consumer.receive()
        broker.publish(b"a", b"b")
        await trio.sleep(300)
        assert values_of(await consumer.receive(timeout=0)) == [b"a", b"b"]
        assert broker.partitions[0].attempts == {0: 1, 1: 1}
        assert len(broker.of_kind(wire.Receive)) == 1  # at most one batch is held ahead


@pytest.mark.parametrize("visibility", [0.05, 1, 30, 3600])
@pytest.mark.parametrize("share", [0, 0.01, 0.05, 0.099, 0.3, 0.9, 5])
async def test_the_lease_is_never_shorter_than_requested(
    visibility: float, share: float, autojump_clock: MockClock
) -> None:
    """A lease that runs while the message waits in the client's buffer would be shorter for the program (§6)."""
    broker = FakeBroker()
    async with consuming(broker, visibility_timeout=visibility) as consumer:
        await held_ahead(broker, consumer, b"a", b"b")
        await consumer.receive(1)
        await trio.sleep(share * visibility)
        [_] = await consumer.receive(1)
        left = broker.partitions[0].leases[1, 1] - trio.current_time()
    assert visibility <= left + 1e-6
    assert left <= visibility + min(0.1 * visibility, 0.5) + 0.002


async def test_the_lease_begins_when_a_message_is_handed_out(autojump_clock: MockClock) -> None:
    """Also when it has waited for as long as most of a lease."""
    broker = FakeBroker()
    async with consuming(broker, visibility_timeout=30) as consumer:
        await held_ahead(broker, consumer, b"a", b"b")
        await consumer.receive(1)
        await trio.sleep(9)  # not renewed yet, and no longer young
        [b] = await consumer.receive(1)
        assert broker.partitions[0].leases[1, 1] == trio.current_time() + 30.5
        await trio.sleep(30)
        await b.ack()


async def test_what_was_lost_while_it_waited_is_not_handed_out(autojump_clock: MockClock) -> None:
    """G7: another consumer may have it by now."""
    broker = FakeBroker()
    async with consuming(broker) as consumer:
        await held_ahead(broker, consumer, b"a", b"b", b"c")
        await consumer.receive(1)
        del broker.partitions[0].leases[1, 1]
        await trio.sleep(5)
        assert values_of(await consumer.receive()) == [b"c"]


async def test_a_receive_can_have_a_visibility_of_its_own(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker) as consumer:
        await consumer.receive(visibility_timeout=300)
        assert broker.partitions[0].leases[1, 0] == trio.current_time() + 300.5


async def test_redeliveries_among_fresh_ones_have_their_own_attempts(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(6))
    async with consuming(broker) as consumer:
        messages = await consumer.receive(4)
        await consumer.ack([messages[0], messages[2]])
        await trio.sleep(31)
        again = await consumer.receive()
        assert {message.offset: message.attempt for message in again} == {1: 2, 3: 2, 4: 1, 5: 1}
        await consumer.ack(again)
    assert sorted(broker.partitions[0].done) == list(range(6))


# Settling


async def test_a_batch_is_acked_as_the_one_run_it_was_delivered_in(autojump_clock: MockClock) -> None:
    broker = FakeBroker(partitions=2)
    broker.publish(*numbered(300), partition=0)
    broker.publish(*numbered(200), partition=1)
    async with consuming(broker) as consumer:
        messages = await consumer.receive()
        await consumer.ack(messages)
    [settle] = broker.of_kind(wire.Settle)
    assert [len(each.runs) for each in settle.deliveries] == [1, 1]
    assert [len(each.done) for each in broker.partitions] == [300, 200]


async def test_some_of_a_batch_in_any_order_are_acked_once_each(autojump_clock: MockClock) -> None:
    broker = FakeBroker(partitions=2)
    broker.publish(*numbered(10), partition=0)
    broker.publish(*numbered(10), partition=1)
    async with consuming(broker) as consumer:
        messages = await consumer.receive()
        await consumer.ack([*messages[15:], messages[3], messages[2], messages[7], messages[3]])
        assert sorted(broker.partitions[0].done) == [2, 3, 7]
        assert sorted(broker.partitions[1].done) == [5, 6, 7, 8, 9]
        await consumer.ack(messages)  # those that are done are done
        assert [len(each.done) for each in broker.partitions] == [10, 10]


async def test_messages_of_several_deliveries_that_look_like_one_are_told_apart(autojump_clock: MockClock) -> None:
    broker = FakeBroker(partitions=2)
    broker.publish(*numbered(3), partition=0)
    broker.publish(*numbered(3), partition=1)
    async with consuming(broker) as consumer:
        a0, a1, a2, b0, b1, b2 = await consumer.receive()
        await consumer.ack([a0, b1, a2])
        assert [sorted(each.done) for each in broker.partitions] == [[0, 2], [1]]
        await consumer.ack([b0, b1, b2, a1])
        assert [len(each.done) for each in broker.partitions] == [3, 3]


async def test_nothing_is_acked_without_a_word(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    async with consuming(broker) as consumer:
        await consumer.ack([])
    assert broker.of_kind(wire.Settle) == []


async def test_stale_receipts_are_named_and_the_others_are_settled(autojump_clock: MockClock) -> None:
    """G6."""
    broker = FakeBroker()
    broker.publish(*numbered(4))
    async with consuming(broker) as consumer:
        messages = await consumer.receive()
        broker.partitions[0].give_back(1, 1)
        broker.partitions[0].give_back(1, 2)
        with pytest.raises(goqueue.StaleReceipt) as caught:
            await consumer.ack(messages)
        assert caught.value.receipts == [messages[1].receipt, messages[2].receipt]
        assert sorted(broker.partitions[0].done) == [0, 3]


async def test_each_word_reaches_the_broker(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(6))
    async with consuming(broker) as consumer:
        messages = await consumer.receive()
        await messages[0].ack()
        await messages[1].nack(delay=2.5, reason="not now")
        await messages[2].nack()
        await messages[3].reject("never")
        await messages[4].release()
        await messages[5].extend(90)
        with pytest.raises(goqueue.InvalidMessage, match="reason"):
            await messages[5].reject("x" * 1001)
        for reason in ("\ud800", b"late", 5, None):
            with pytest.raises(goqueue.InvalidMessage, match=r"^reason=.* must be text that UTF-8 can hold"):
                await messages[5].reject(reason)  # type: ignore[arg-type]
            with pytest.raises(goqueue.InvalidMessage, match=r"^reason=.* must be text that UTF-8 can hold"):
                await consumer.nack([messages[5]], reason=reason)  # type: ignore[arg-type]
        with pytest.raises(goqueue.InvalidConfig, match="seconds"):
            await messages[5].extend(-1)
        said = [each for settle in broker.of_kind(wire.Settle) for each in settle.deliveries]
    assert [(Action(each.action).name, each.delay_ms, each.reason) for each in said] == [
        ("ACK", None, ""),
        ("NACK", 2500, "not now"),
        ("NACK", None, ""),
        ("REJECT", None, "never"),
        ("RELEASE", None, ""),
        ("EXTEND", 90_000, ""),
    ]


async def test_a_partition_that_cannot_settle_now_is_asked_again(autojump_clock: MockClock) -> None:
    broker = FakeBroker(partitions=2)
    for partition in (0, 1):
        broker.publish(b"a", partition=partition)

    async def heal() -> None:
        await trio.sleep(3)
        broker.partitions[1].error = None

    async with consuming(broker) as consumer, trio.open_nursery() as nursery:
        messages = await consumer.receive()
        broker.partitions[1].error = Unavailable("restarting")
        nursery.start_soon(heal)
        await consumer.ack(messages)
        assert [len(each.done) for each in broker.partitions] == [1, 1]


async def test_a_partition_that_cannot_settle_at_all_says_why(autojump_clock: MockClock) -> None:
    broker = FakeBroker(partitions=2)
    for partition in (0, 1):
        broker.publish(b"a", partition=partition)
    async with consuming(broker) as consumer:
        messages = await consumer.receive()
        broker.partitions[0].error = PartitionUnavailable("an operator must look")
        with pytest.raises(PartitionUnavailable, match="an operator"):
            await consumer.ack(messages)
        assert len(broker.partitions[1].done) == 1


async def test_what_no_consumer_handed_out_cannot_be_settled(autojump_clock: MockClock) -> None:
    broker, other = FakeBroker(), FakeBroker()
    other.publish(b"a")
    async with consuming(broker) as consumer, at_work(other):
        with pytest.raises(goqueue.InvalidMessage, match="not delivered by a group"):
            await consumer.ack(["text"])  # type: ignore[list-item]
        async with QueueConsumer(other, ConsumerOptions(topics="orders", group="shipping")) as elsewhere:
            with pytest.raises(goqueue.InvalidMessage, match="group shipping"):
                await consumer.ack(await elsewhere.receive())


# In flight


async def test_no_more_is_in_flight_than_allowed(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(10))
    async with consuming(broker, max_in_flight=4) as consumer:
        first = await consumer.receive(3)
        second = await consumer.receive(3)
        assert (len(first), len(second)) == (3, 1)
        before = trio.current_time()
        assert await consumer.receive(timeout=0) == await consumer.receive(timeout=5) == []
        assert trio.current_time() - before == 5
        assert len(broker.of_kind(wire.Receive)) == 2  # nothing is asked for without credit
        await first[0].ack()
        await consumer.ack(second)
        assert len(await consumer.receive()) == 2


async def test_no_more_bytes_are_in_flight_than_allowed(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(bytes(1000), bytes(1000), b"small")
    async with consuming(broker, max_in_flight_bytes=1000) as consumer:
        first, second = await consumer.receive(2)
        await first.ack()
        assert await consumer.receive(timeout=1) == []
        await second.ack()
        assert values_of(await consumer.receive(timeout=1)) == [b"small"]


async def test_a_program_that_forgets_its_messages_goes_on_receiving(autojump_clock: MockClock) -> None:
    """Their leases end, and with them they are not in flight any more: nobody stands still for ever."""
    broker = FakeBroker()
    broker.publish(*numbered(4))
    async with consuming(broker, max_in_flight=2, visibility_timeout=10) as consumer:
        seen = set()
        for _ in range(3):
            seen.update(values_of(await consumer.receive(timeout=20)))
        assert seen == set(numbered(4))


async def test_after_a_message_that_is_alone_nothing_is_asked_for_until_it_is_settled(
    autojump_clock: MockClock,
) -> None:
    broker = FakeBroker()
    broker.publish(b"poison")
    broker.extra = {"is_alone": True}
    async with consuming(broker) as consumer:
        [poison] = await consumer.receive()
        broker.publish(b"next")
        assert await consumer.receive(timeout=5) == []
        await poison.reject()
        assert values_of(await consumer.receive(timeout=5)) == [b"next"]


async def test_everything_held_is_settled_before_a_message_is_asked_for_that_must_be_alone(
    autojump_clock: MockClock,
) -> None:
    broker = FakeBroker()
    broker.publish(b"a", b"b")
    broker.extra = {"alone_waits": True}
    async with consuming(broker) as consumer:
        a, b = await consumer.receive()
        await a.ack()
        assert await consumer.receive(timeout=5) == []
        await b.ack()
        await consumer.receive(timeout=0)
    assert [request.is_busy for request in broker.of_kind(wire.Receive)] == [False, False]


async def test_who_holds_something_says_so(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker) as consumer:
        [a] = await consumer.receive()
        await consumer.receive(timeout=0)
        await a.ack()
        await consumer.receive(timeout=0)
    assert [request.is_busy for request in broker.of_kind(wire.Receive)] == [False, True, False]


async def test_an_alone_message_that_waits_for_a_lost_lease_is_not_asked_for_without_pause(
    autojump_clock: MockClock,
) -> None:
    """The broker thinks that this member holds something, which came in an answer that was lost."""
    broker = FakeBroker()
    nothing = wire.ReceivedPartition(None, 0, (), False, True, b"")

    async def answer_at_once(request: wire.Receive) -> wire.Received:
        assert len(broker.of_kind(wire.Receive)) < 20, "it asks without end"
        return wire.Received((nothing,))

    broker.answers[wire.Receive] = answer_at_once
    async with consuming(broker) as consumer:
        assert await consumer.receive(timeout=10) == []

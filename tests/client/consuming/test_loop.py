"""A consumer in a loop: one message after the other, and the leases that it renews by itself."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.consuming import leases as consumerleases
from goqueue.client.consuming.consumer import ITERATION_AHEAD, Consumer
from goqueue.client.consuming.delivery import OF_TRIO
from goqueue.client.consuming.parcel import Parcel
from goqueue.core.ledger.settlements import Action
from tests.client.consuming.world import FakeBroker, consuming, numbered, values_of


async def test_a_loop_hands_out_one_after_the_other_and_asks_ahead(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(2000))
    seen = []
    async with consuming(broker) as consumer:
        async for message in consumer:
            seen.append(message.value)
            leased = len(broker.partitions[0].leases)
            assert leased <= ITERATION_AHEAD + 1
            await message.ack()
            if len(seen) == 2000:
                break
    assert seen == numbered(2000)


async def test_the_message_at_work_keeps_its_lease_and_so_do_those_that_wait(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a", b"b", b"c")
    async with consuming(broker, visibility_timeout=30) as consumer:
        async for message in consumer:
            await trio.sleep(300)
            await message.ack()
            if message.value == b"c":
                break
    assert broker.partitions[0].attempts == {0: 1, 1: 1, 2: 1}


async def test_a_message_that_is_passed_over_comes_again(autojump_clock: MockClock) -> None:
    """Only the one that the body works on is extended."""
    broker = FakeBroker()
    broker.publish(b"a", b"b")
    async with consuming(broker, visibility_timeout=30) as consumer:
        forgotten = await anext(consumer)
        kept = await anext(consumer)
        await trio.sleep(100)
        await kept.ack()
        with pytest.raises(goqueue.StaleReceipt):
            await forgotten.ack()


async def test_each_of_several_tasks_has_a_message_at_work(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(4))
    done = []

    async def work(consumer: Consumer) -> None:
        message = await anext(consumer)
        await trio.sleep(100)
        await message.ack()
        done.append(message.value)

    async with consuming(broker) as consumer, trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(work, consumer)
    assert sorted(done) == numbered(4)


async def test_without_extension_a_slow_body_loses_its_lease(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker, auto_extend=False) as consumer:
        message = await anext(consumer)
        await trio.sleep(31)
        with pytest.raises(goqueue.StaleReceipt):
            await message.ack()


async def test_while_a_loop_waits_for_the_next_message_the_one_before_is_not_at_work(
    autojump_clock: MockClock,
) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker) as consumer:
        message = await anext(consumer)
        with trio.move_on_after(31):
            await anext(consumer)
        assert broker.said(Action.EXTEND) == []
        with pytest.raises(goqueue.StaleReceipt):
            await message.ack()


async def test_extension_ends_at_its_limit(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumerleases, "EXTENDED_SECONDS_MAX", 600.0)
    broker = FakeBroker()
    broker.publish(b"a", b"b")
    async with consuming(broker, auto_extend=True) as consumer:
        [received] = await consumer.receive(1)
        at_work = await anext(consumer)
        await trio.sleep(590)
        await consumer.extend([received, at_work], 30)
        await trio.sleep(60)
        with pytest.raises(goqueue.StaleReceipt) as caught:
            await consumer.ack([received, at_work])
        assert len(caught.value.receipts) == 2


async def test_received_messages_are_extended_only_when_asked_for(autojump_clock: MockClock) -> None:
    for auto_extend in (None, True):
        broker = FakeBroker()
        broker.publish(b"a")
        async with consuming(broker, auto_extend=auto_extend) as consumer:
            await consumer.receive()
            await trio.sleep(100)
        assert bool(broker.said(Action.EXTEND)) is bool(auto_extend)


async def test_what_another_surface_has_in_its_hands_keeps_its_lease(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the limit; what it has let go of ends."""
    monkeypatch.setattr(consumerleases, "EXTENDED_SECONDS_MAX", 600.0)
    broker = FakeBroker()
    broker.publish(b"a", b"b")
    async with consuming(broker) as consumer:
        hands: list[Any] = []
        consumer.serve(consumer, OF_TRIO, lambda: hands)
        a, b = await consumer.next_batch()
        hands.append(b)
        await trio.sleep(590)
        with pytest.raises(goqueue.StaleReceipt):
            await a.ack()
        assert (1, 1) in broker.partitions[0].leases
        await trio.sleep(60)
        with pytest.raises(goqueue.StaleReceipt):
            await b.ack()


async def test_messages_that_reached_nobody_are_handed_out_again(autojump_clock: MockClock) -> None:
    """Whether the program gave up before or after they came."""
    broker = FakeBroker()
    broker.publish(b"a", b"b")
    async with consuming(broker) as consumer:
        late, early = Parcel(consumer), Parcel(consumer)
        await late.fill(consumer.receive)
        late.refuse()
        assert late.messages == []
        early.refuse()
        await early.fill(consumer.receive)
        wanted = Parcel(consumer)
        await wanted.fill(consumer.receive)
        assert values_of(wanted.messages) == [b"a", b"b"]
        assert broker.partitions[0].attempts == {0: 1, 1: 1}

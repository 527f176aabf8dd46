"""A program that takes a batch, settles it and takes the next has that one fetched meanwhile, and no other has."""

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.consuming.steady import AHEAD_SECONDS, PRIORITIES_SECONDS
from goqueue.client.link.link import Link, Pending
from goqueue.core.receiving.pace import HELD_SECONDS_MAX
from goqueue.net.wire import groups as wire
from tests.client.consuming.test_broker import fill
from tests.client.consuming.world import FakeBroker, consuming, numbered, values_of
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

BATCH, MANY = 10, 100
WORK_SECONDS = 0.1
"""On a batch: too slow for more than the next one to be prefetched."""


async def test_after_a_few_rounds_one_batch_is_fetched_ahead_and_not_more(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(100))
    async with consuming(broker) as consumer:
        in_flight = []
        for _ in range(6):
            messages = await consumer.receive(BATCH)
            await trio.sleep(WORK_SECONDS)
            in_flight.append(len(broker.partitions[0].leases))
            await consumer.ack(messages)
        assert in_flight == [10, 10, 20, 20, 20, 20]
        assert broker.partitions[0].attempts == dict.fromkeys(range(70), 1)


async def test_who_takes_single_messages_fast_has_what_it_works_through_in_a_moment(
    autojump_clock: MockClock,
) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(400))
    async with consuming(broker) as consumer:
        most, found = 0, list[bytes]()
        for _ in range(100):
            messages = await consumer.receive(1)
            found += values_of(messages)
            await trio.sleep(AHEAD_SECONDS / 10)
            most = max(most, len(broker.partitions[0].leases))
            await consumer.ack(messages)
        assert 9 <= most <= 12
        assert len(broker.of_kind(wire.Receive)) < 25
        assert found == numbered(100)


async def test_who_becomes_slow_keeps_one_batch_and_gives_back_the_rest_uncounted(
    autojump_clock: MockClock,
) -> None:
    """Another member may have time for them."""
    broker = FakeBroker()
    broker.publish(*numbered(400))
    async with consuming(broker) as consumer:
        for _ in range(10):
            await consumer.ack(await consumer.receive(2))
        messages = await consumer.receive(2)
        await trio.testing.wait_all_tasks_blocked()
        assert len(broker.partitions[0].leases) > 10
        await trio.sleep(HELD_SECONDS_MAX - 0.01)
        assert len(broker.partitions[0].leases) > 10
        await trio.sleep(0.1)
        assert len(broker.partitions[0].leases) == 4, "two at work, and two ahead"
        assert {broker.partitions[0].attempts.get(offset, 0) for offset in range(24, 400)} == {0}
        assert values_of(await consumer.receive(2)) == numbered(24)[22:]
        await consumer.ack(messages)


async def test_where_messages_of_several_priorities_come_no_more_than_a_batch_is_fetched_ahead(
    autojump_clock: MockClock,
) -> None:
    """An urgent message does not wait behind others in the client."""
    broker = FakeBroker()
    broker.publish(*numbered(400))
    async with consuming(broker) as consumer:
        for number in range(100):
            if number == 10:
                broker.partitions[0].priorities[broker.partitions[0].ready[0]] = goqueue.Priority.CRITICAL
            await consumer.ack(await consumer.receive(1))
        await trio.testing.wait_all_tasks_blocked()
        assert len(broker.partitions[0].leases) == 1
        await trio.sleep(PRIORITIES_SECONDS)
        for _ in range(60):
            await consumer.ack(await consumer.receive(1))
        await trio.testing.wait_all_tasks_blocked()
        assert len(broker.partitions[0].leases) > 1


async def test_who_does_not_settle_has_nothing_fetched_ahead(autojump_clock: MockClock) -> None:
    """What a slow program cannot take would only be kept from others."""
    broker = FakeBroker()
    broker.publish(*numbered(100))
    async with consuming(broker) as consumer:
        for number in range(1, 6):
            await consumer.receive(BATCH)
            await trio.testing.wait_all_tasks_blocked()
            assert len(broker.partitions[0].leases) == number * BATCH


async def test_what_was_fetched_ahead_is_given_back_uncounted_at_the_end(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(50))
    async with consuming(broker) as consumer:
        for _ in range(4):
            await consumer.ack(await consumer.receive(BATCH))
        await trio.testing.wait_all_tasks_blocked()
        ahead = [offset for _, offset in broker.partitions[0].leases]
        assert 0 < len(ahead) <= BATCH
    assert broker.partitions[0].leases == {}
    assert {broker.partitions[0].attempts[offset] for offset in ahead} == {0}


async def test_the_next_batch_is_asked_for_before_the_one_that_came_is_handed_out(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker and client work at the same time; and each message comes once, in order."""
    asked_ahead: list[wire.Receive] = []
    ask_ahead = Link.ask_ahead

    def noting(link: Link, request: wire.Receive) -> Pending | None:
        asked_ahead.extend([request] if request.at_once == 0 else [])
        return ask_ahead(link, request)

    async with machine.both() as client:
        values = await fill(client, 1_000)
        async with client.consumer("orders", group="billing") as consumer:
            monkeypatch.setattr(Link, "ask_ahead", noting)
            found: list[bytes] = []
            while len(found) < 1_000:
                messages = await consumer.receive(BATCH)
                found += values_of(messages)
                await consumer.ack(messages)
        assert found == values
        group = await client.group("billing")
        assert [(each.in_flight, each.committed) for each in group.partitions] == [(0, 1_000)]
    assert len(asked_ahead) >= 5


async def test_a_batch_asked_for_ahead_survives_the_loss_of_its_connection(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G5: what its answer held comes again when the leases end."""
    async with machine.both() as client:
        values = await fill(client, 200)
        async with client.consumer("orders", group="billing", visibility_timeout=5) as consumer:
            found: set[bytes] = set()
            while len(found) < 200:
                messages = await consumer.receive(BATCH)
                found |= set(values_of(messages))
                if len(found) in (50, 100):
                    machine.cut()
                await consumer.ack(messages)
        assert found == set(values)


# What asking ahead must not change


async def settled_rounds(consumer: Consumer, count: int, size: int = BATCH) -> None:
    for _ in range(count):
        messages = await consumer.receive(size)
        await trio.sleep(WORK_SECONDS)
        await consumer.ack(messages)


async def test_who_cannot_wait_does_not_wait_for_what_was_asked_ahead(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(4))
    async with consuming(broker) as consumer:
        await settled_rounds(consumer, 4, size=1)
        for timeout in (0, 0.2, 5):
            before = trio.current_time()
            assert await consumer.receive(1, timeout=timeout) == []
            assert trio.current_time() - before == pytest.approx(timeout, abs=0.02)


async def test_who_cannot_wait_does_not_wait_for_another_task(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    async with consuming(broker) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(consumer.receive, 1, 30)
        await trio.testing.wait_all_tasks_blocked()
        before = trio.current_time()
        assert await consumer.receive(1, timeout=0) == []
        assert trio.current_time() == before


async def test_who_wants_more_than_was_fetched_ahead_has_what_is_there(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(100))
    async with consuming(broker) as consumer:
        await settled_rounds(consumer, 4, size=1)
        assert values_of(await consumer.receive(50)) == numbered(100)[4:54]


async def test_what_waits_here_of_a_partition_that_is_anothers_is_given_back_unseen(
    autojump_clock: MockClock,
) -> None:
    """G10: its new owner need not wait for leases that a buffer holds."""
    broker = FakeBroker(partitions=2)
    broker.publish(*numbered(50), partition=1)
    async with consuming(broker) as consumer:
        await settled_rounds(consumer, 3)
        await trio.testing.wait_all_tasks_blocked()
        assert len(broker.partitions[1].leases) == BATCH
        broker.assign(0)
        await trio.testing.wait_all_tasks_blocked()
        assert broker.partitions[1].leases == {}
        assert {broker.partitions[1].attempts[offset] for offset in range(30, 40)} == {0}
        assert await consumer.receive(timeout=0) == []


async def test_it_is_said_how_many_the_program_sees_at_once(autojump_clock: MockClock) -> None:
    """What only waits here must not be on its last delivery: it would be given up unseen if we died."""
    broker = FakeBroker()
    broker.publish(*numbered(100))
    async with consuming(broker) as consumer:
        await settled_rounds(consumer, 4)
        assert [each.at_once for each in broker.of_kind(wire.Receive)] == [BATCH, BATCH, BATCH, 0, 0]
        broker.asked.clear()
    async with consuming(broker) as consumer:
        async for message in consumer:
            await message.ack()
            break
        assert {each.at_once for each in broker.of_kind(wire.Receive)} <= {1, 0}


@pytest.mark.parametrize("max_deliveries", [1, 2])
async def test_messages_that_nobody_saw_are_no_dead_letters_whoever_dies(
    max_deliveries: int, machine: Machine, autojump_clock: MockClock
) -> None:
    """Consumers that die without a word while batches lie ahead."""
    async with machine.both() as client:
        await fill(client, 100)
        seen: set[bytes] = set()
        for number in range(4):
            async with machine.client() as other:
                consumer = other.consumer(
                    "orders",
                    group="billing",
                    max_deliveries=max_deliveries,
                    visibility_timeout=1,
                    member_id=f"m{number}",
                )
                await consumer.__aenter__()
                for _ in range(4):
                    messages = await consumer.receive(5)
                    seen |= set(values_of(messages))
                    await consumer.ack(messages)
                await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(40)  # its session and its leases are over
        names = [topic.name for topic in await client.topics()]
        assert names == ["orders"], "there is a dead-letter topic"


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_messages": "a"},
        {"max_messages": True},
        {"timeout": None},
        {"timeout": "a"},
        {"timeout": math.nan},
        {"timeout": -1},
        {"visibility_timeout": "a"},
        {"visibility_timeout": 0},
        {"visibility_timeout": math.nan},
    ],
)
async def test_a_receive_with_what_cannot_be_is_refused_at_once(
    arguments: dict[str, Any], autojump_clock: MockClock
) -> None:
    """G14"""
    async with consuming(FakeBroker()) as consumer:
        with pytest.raises(goqueue.InvalidConfig):
            await consumer.receive(**arguments)


async def test_what_cannot_be_settled_is_refused_at_once(autojump_clock: MockClock) -> None:
    """G14"""
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker) as consumer:
        [message] = await consumer.receive()
        for bad in (None, 5, "text", [None]):
            with pytest.raises(goqueue.InvalidMessage):
                await consumer.ack(bad)  # type: ignore[arg-type]
        for reason in (None, 5):
            with pytest.raises(goqueue.InvalidMessage):
                await message.reject(reason)  # type: ignore[arg-type]
        for seconds in (0, -1, math.nan, math.inf, "5", None, True):
            with pytest.raises(goqueue.InvalidConfig):
                await message.extend(seconds)  # type: ignore[arg-type]
        await message.ack()


async def test_while_a_batch_of_many_is_waited_for_the_one_behind_it_is_asked_for_and_order_is_kept(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the answers' tasks wake, and however many times."""
    most_under_way = 0
    ask_ahead = Link.ask_ahead

    def counting(link: Link, request: wire.Receive) -> Pending | None:
        nonlocal most_under_way
        pending = ask_ahead(link, request)
        most_under_way = max(most_under_way, link._receives.borrowed_tokens)
        return pending

    monkeypatch.setattr(Link, "ask_ahead", counting)
    async with machine.both() as client:
        values = await fill(client, 8_000)
        async with client.consumer("orders", group="billing") as consumer:
            assert isinstance(consumer, QueueConsumer)
            found: list[bytes] = []
            messages: list[Any] = []
            while len(found) < 8_000:
                async with trio.open_nursery() as both:
                    both.start_soon(consumer.ack, messages)
                    messages = await consumer.receive(MANY)
                found += values_of(messages)
                assert len(consumer._stock.ahead) <= MANY
            await consumer.ack(messages)
        assert found == values
    assert most_under_way == 2

"""A program that takes a batch, settles it and takes the next has that one fetched meanwhile, and no other has."""

import pytest
import trio
from trio.testing import MockClock

from goqueue.net import groupmessages as wire
from goqueue.net.link import Link, Pending
from tests.net.consumer_world import FakeBroker, consuming, numbered, values_of
from tests.net.test_client import Machine, machine
from tests.net.test_consumer_broker import fill

__all__ = ["machine"]

BATCH = 10


async def test_after_a_few_rounds_one_batch_is_fetched_ahead_and_not_more(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(100))
    async with consuming(broker) as consumer:
        in_flight = []
        for _ in range(6):
            messages = await consumer.receive(BATCH)
            await trio.testing.wait_all_tasks_blocked()
            in_flight.append(len(broker.partitions[0].leases))
            await consumer.ack(messages)
        assert in_flight == [10, 10, 20, 20, 20, 20]
        assert broker.partitions[0].attempts == dict.fromkeys(range(70), 1)


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
        assert len(broker.partitions[0].leases) == BATCH
    assert broker.partitions[0].leases == {}
    assert {broker.partitions[0].attempts[offset] for offset in range(40, 50)} == {0}


async def test_the_next_batch_is_asked_for_before_the_one_that_came_is_handed_out(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker and client work at the same time; and each message comes once, in order."""
    asked_ahead: list[wire.Receive] = []
    ask_ahead = Link.ask_ahead

    def noting(link: Link, request: wire.Receive) -> Pending | None:
        asked_ahead.append(request)
        return ask_ahead(link, request)

    async with machine.both() as client:
        values = await fill(client, 100)
        async with client.consumer("orders", group="billing") as consumer:
            monkeypatch.setattr(Link, "ask_ahead", noting)
            found: list[bytes] = []
            while len(found) < 100:
                messages = await consumer.receive(BATCH)
                found += values_of(messages)
                await consumer.ack(messages)
        assert found == values
        group = await client.group("billing")
        assert [(each.in_flight, each.committed) for each in group.partitions] == [(0, 100)]
    assert len(asked_ahead) >= 5
    assert all(each.is_busy for each in asked_ahead), "beside what has just come nothing is delivered alone"


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

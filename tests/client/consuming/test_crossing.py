"""Several questions of one consumer under way at once, and answers that cross with what happens meanwhile."""

from typing import cast

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.client.consuming.consumer import Consumer
from goqueue.client.link.link import Link, Pending
from goqueue.core.ledger.settlements import Action
from goqueue.net.wire import groups as wire
from tests.client.consuming.world import FakeBroker, FakeLink, consuming, numbered, values_of

BATCH = 10


class HeldLink(FakeLink):
    """A connection whose answers come when a test says so."""

    def __init__(self, broker: FakeBroker) -> None:
        super().__init__(broker)
        self.held: list[tuple[wire.Receive, Pending]] = []

    def ask_ahead(self, request: wire.Receive) -> Pending:
        self.held.append((request, Pending()))
        return self.held[-1][1]

    def answer(self, *, alone_waits: bool = False) -> None:
        """The oldest question, with what the broker has; or with nothing, since a message waits to be alone."""
        request, pending = self.held.pop(0)
        nothing = wire.ReceivedPartition(None, 0, (), False, alone_waits, b"")
        asked = [each.partition for each in request.partitions]
        taken = [nothing if alone_waits else self._broker._received(request, number) for number in asked]
        pending.settle(wire.Received(tuple(taken)))


async def steady(broker: FakeBroker, consumer: Consumer) -> HeldLink:
    """After this it asks ahead, and its answers are held; nothing lies ahead and nothing is in its hands."""
    for _ in range(3):
        messages = await consumer.receive(BATCH)
        await trio.sleep(0.1)  # too slow for more than one batch ahead
        await consumer.ack(messages)
    link = HeldLink(broker)
    broker.link = cast(Link, link)
    await consumer.ack(await consumer.receive(BATCH))
    await wait_all_tasks_blocked()
    assert [request.at_once for request, _ in link.held] == [0]
    return link


async def test_two_answers_that_come_together_keep_their_order(autojump_clock: MockClock) -> None:
    """G4, O4: both tasks wake in the same turn of the event loop."""
    broker = FakeBroker()
    broker.publish(*numbered(100))
    async with consuming(broker) as consumer, trio.open_nursery() as nursery:
        link = await steady(broker, consumer)
        found: list[bytes] = []

        async def receive_twice() -> None:
            for _ in range(2):
                found.extend(values_of(await consumer.receive(BATCH)))

        nursery.start_soon(receive_twice)
        await wait_all_tasks_blocked()
        assert [request.is_busy for request, _ in link.held][1:] == [True], "the first may bring something"
        link.answer()
        link.answer()
    assert found == numbered(100)[40:60]


async def test_who_asks_beside_another_question_says_that_it_is_busy(autojump_clock: MockClock) -> None:
    """§6: else one of them could bring a message alone, and the other its neighbours."""
    broker = FakeBroker()
    async with consuming(broker) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(consumer.receive, 1, 30)
        await wait_all_tasks_blocked()
        await consumer.receive(1, timeout=0)
        assert [each.is_busy for each in broker.of_kind(wire.Receive)][:2] == [False, True]
        nursery.cancel_scope.cancel()


async def test_beside_what_is_asked_by_the_way_that_repeats_nothing_is_asked(autojump_clock: MockClock) -> None:
    """G4, O4: when its answer comes among others is not known."""
    broker = FakeBroker()
    broker.link = None
    async with consuming(broker) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(consumer.receive, 1, 30)
        await wait_all_tasks_blocked()
        assert await consumer.receive(1, timeout=0) == []
        assert len(broker.of_kind(wire.Receive)) == 1
        nursery.cancel_scope.cancel()


async def test_that_a_message_waits_to_be_alone_holds_up_nobody_who_only_looked_ahead(
    autojump_clock: MockClock,
) -> None:
    """Who holds others goes on receiving until it asks for itself and is told to settle first."""
    broker = FakeBroker()
    broker.publish(*numbered(100))
    async with consuming(broker) as consumer, trio.open_nursery() as nursery:
        link = await steady(broker, consumer)
        link.answer()
        await consumer.receive(BATCH)
        await wait_all_tasks_blocked()
        link.answer(alone_waits=True)
        await wait_all_tasks_blocked()
        assert link.held == []
        nursery.start_soon(consumer.receive, BATCH)
        await wait_all_tasks_blocked()
        assert [request.at_once for request, _ in link.held] == [BATCH]
        nursery.cancel_scope.cancel()


async def test_a_message_that_waits_to_be_alone_is_not_asked_for_without_pause_beside_another_question(
    autojump_clock: MockClock,
) -> None:
    """§6: who asks beside another question is busy, and hears the same for as long as that one is under way."""
    broker = FakeBroker()
    nothing = wire.ReceivedPartition(None, 0, (), False, True, b"")
    letter = [b"alone"]

    async def answer(request: wire.Receive) -> wire.Received:
        assert len(broker.of_kind(wire.Receive)) < 20, "it asks without end"
        if request.is_busy:
            return wire.Received((nothing,))
        if len(broker.of_kind(wire.Receive)) > 1:
            broker.publish(*letter)
            letter.clear()
        return await broker._receive(request)

    broker.answers[wire.Receive] = answer
    async with consuming(broker) as consumer:
        with trio.move_on_after(1):
            await consumer.receive(1, timeout=30)
        before = trio.current_time()
        assert await consumer.receive(1, timeout=5) == []
        assert trio.current_time() - before == 5
        assert values_of(await consumer.receive(1, timeout=30)) == [b"alone"]
        assert trio.current_time() - before < 10, "asked for once the other question was answered"


async def test_an_answer_that_comes_after_its_partition_has_moved_is_given_back(autojump_clock: MockClock) -> None:
    """G10"""
    broker = FakeBroker(partitions=2)
    broker.publish(*numbered(100), partition=1)
    async with consuming(broker) as consumer:
        link = await steady(broker, consumer)
        [(request, pending)] = link.held
        taken = [broker._received(request, each.partition) for each in request.partitions]
        broker.assign(0)
        await wait_all_tasks_blocked()
        pending.settle(wire.Received(tuple(taken)))
        await wait_all_tasks_blocked()
        assert broker.partitions[1].leases == {}
        assert len(broker.said(Action.RELEASE)) == 1

"""Acks that are not waited for, and acks that are awaited at the same time."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import goqueue
from goqueue.core.ledger.settlements import Action
from goqueue.errors import GoQueueError, InvalidConfig, InvalidMessage, StaleReceipt, Unavailable, UnknownTopic
from goqueue.net.wire import groups as wire
from tests.client.consuming.test_broker import fill
from tests.client.consuming.world import FakeBroker, consuming, numbered
from tests.client.test_client import Machine, machine

__all__ = ["machine"]


async def test_acks_of_one_turn_share_a_frame(autojump_clock: MockClock) -> None:
    broker = FakeBroker(partitions=2)
    broker.publish(*numbered(5))
    broker.publish(*numbered(5), partition=1)
    async with consuming(broker, confirm_acks=False) as consumer:
        messages = [*await consumer.receive(10), *await consumer.receive(10)]
        for message in messages:
            await message.ack()
        assert broker.of_kind(wire.Settle) == [], "nobody waits"
        await wait_all_tasks_blocked()
        [frame] = broker.of_kind(wire.Settle)
        assert sorted((each.partition, each.runs) for each in frame.deliveries) == [
            (number, (wire.DeliveryRun(0, 4, 1),)) for number in (0, 1)
        ]
        assert [partition.leases for partition in broker.partitions] == [{}, {}]


async def test_acks_that_are_awaited_at_the_same_time_share_a_frame(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(10))
    async with consuming(broker) as consumer:
        async with trio.open_nursery() as nursery:
            for message in await consumer.receive():
                nursery.start_soon(message.ack)
        [frame] = broker.of_kind(wire.Settle)
        assert frame.deliveries[0].runs == (wire.DeliveryRun(0, 9, 1),)


async def test_acks_that_come_one_at_a_time_do_not_wait_for_others(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(20))
    async with consuming(broker) as consumer:
        messages = await consumer.receive()
        for message in messages[:10]:
            await message.ack()
        assert broker.turn_ends < 10, "the later ones are sent within their turn"
        before = broker.turn_ends
        async with trio.open_nursery() as nursery:
            for message in messages[10:]:
                nursery.start_soon(message.ack)
        assert broker.turn_ends == before + 1, "and as soon as several are awaited they share a frame again"
        sizes = [sum(run.last - run.first + 1 for run in each.runs) for each in broker.said(Action.ACK)]
        assert sizes == [*[1] * 11, 9]


async def test_each_of_those_that_share_a_frame_hears_of_its_own_message(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(3))
    heard: dict[int, object] = {}

    async def ack(message: goqueue.DeliveredMessage) -> None:
        try:
            await message.ack()
            heard[message.offset] = None
        except StaleReceipt as error:
            heard[message.offset] = error.receipts

    async with consuming(broker) as consumer:
        messages = await consumer.receive()
        del broker.partitions[0].leases[1, 1]
        async with trio.open_nursery() as nursery:
            for message in messages:
                nursery.start_soon(ack, message)
        assert heard == {0: None, 1: [messages[1].receipt], 2: None}


async def test_wait_decides_for_one_ack(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(3))
    async with consuming(broker) as consumer:
        first, second, _ = await consumer.receive()
        await first.ack(wait=False)
        assert broker.said(Action.ACK) == []
        await second.ack()
        assert [each.runs for each in broker.said(Action.ACK)] == [(wire.DeliveryRun(0, 1, 1),)], (
            "it travels with the one that is awaited"
        )
    async with consuming(broker, confirm_acks=False) as consumer:
        [message] = await consumer.receive()
        await message.ack(wait=True)
        assert broker.partitions[0].leases == {}


async def test_many_acks_let_others_run(autojump_clock: MockClock) -> None:
    """Else a loop over what is there would send nothing before it is over."""
    broker = FakeBroker()
    broker.publish(*numbered(450))
    async with consuming(broker, confirm_acks=False) as consumer:
        for message in await consumer.receive():
            await message.ack()
        await wait_all_tasks_blocked()
        assert len(broker.of_kind(wire.Settle)) >= 4


async def test_closing_waits_for_all(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(3))
    async with consuming(broker, confirm_acks=False) as consumer:
        for message in await consumer.receive():
            await message.ack()
    assert broker.partitions[0].leases == {}
    assert set(broker.partitions[0].done) == {0, 1, 2}
    assert broker.said(Action.RELEASE) == []


async def test_an_ack_that_is_too_late_is_raised_by_the_next_call_once(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(2))
    async with consuming(broker, confirm_acks=False) as consumer:
        first, second = await consumer.receive()
        del broker.partitions[0].leases[1, 0]
        await first.ack()
        await wait_all_tasks_blocked()
        with pytest.raises(StaleReceipt) as caught:
            await second.ack()
        assert caught.value.receipts == [first.receipt]
        await second.ack()


async def test_or_by_the_end_of_the_consumer(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a")

    async def ack_too_late() -> None:
        async with consuming(broker, confirm_acks=False) as consumer:
            [message] = await consumer.receive()
            broker.partitions[0].leases.clear()
            await message.ack()

    with pytest.raises(StaleReceipt):
        await ack_too_late()


async def test_but_an_error_of_the_program_is_not_replaced(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a")

    async def ack_too_late_and_fail() -> None:
        async with consuming(broker, confirm_acks=False) as consumer:
            [message] = await consumer.receive()
            broker.partitions[0].leases.clear()
            await message.ack()
            raise KeyError("of the program")

    with pytest.raises(KeyError):
        await ack_too_late_and_fail()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_callback_hears_of_each_error(autojump_clock: MockClock, is_async: bool) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(2))
    heard: list[GoQueueError] = []

    async def hear(error: GoQueueError) -> None:
        await trio.sleep(1)
        heard.append(error)

    callback = hear if is_async else heard.append
    async with consuming(broker, confirm_acks=False, on_ack_error=callback) as consumer:
        for message in await consumer.receive():
            broker.partitions[0].leases.pop((1, message.offset))
            await message.ack()
            await wait_all_tasks_blocked()
    assert [error.receipts for error in heard if isinstance(error, StaleReceipt)] == [
        [f"billing:orders:0:{offset}:1:000000000001"] for offset in (0, 1)
    ]


async def test_a_callback_that_fails_ends_nothing(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker = FakeBroker()
    broker.publish(*numbered(2))

    def fail(error: GoQueueError) -> None:
        raise RuntimeError("of the callback")

    async with consuming(broker, confirm_acks=False, on_ack_error=fail) as consumer:
        first, second = await consumer.receive()
        broker.partitions[0].leases.pop((1, 0))
        await first.ack()
        await wait_all_tasks_blocked()
        await second.ack()
    assert broker.partitions[0].leases == {}
    assert "of the callback" in caplog.text


async def test_what_a_partition_cannot_settle_now_is_said_again(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker, confirm_acks=False) as consumer:
        [message] = await consumer.receive()
        broker.partitions[0].error = Unavailable("its actor is starting")
        await message.ack()
        await trio.sleep(3)
        broker.partitions[0].error = None
    assert broker.partitions[0].leases == {}


async def test_what_is_refused_for_good_is_told(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker, confirm_acks=False) as consumer:
        [message] = await consumer.receive()
        broker.partitions[0].error = UnknownTopic("it was deleted")
        await message.ack()
        await wait_all_tasks_blocked()
        with pytest.raises(UnknownTopic):
            await consumer.receive(timeout=0)


async def test_acks_survive_the_loss_of_their_connection(machine: Machine, autojump_clock: MockClock) -> None:
    """G5: nothing comes again."""
    async with machine.both() as client:
        values = await fill(client, 200)
        async with client.consumer("orders", group="billing", confirm_acks=False) as consumer:
            found: list[bytes] = []
            while len(found) < 200:
                messages = await consumer.receive(10)
                found += [message.value for message in messages]
                for message in messages:
                    await message.ack()
                if len(found) in (50, 100, 150):
                    machine.cut()
        assert sorted(found) == sorted(values)
        group = await client.group("billing")
        assert [(each.in_flight, each.committed) for each in group.partitions] == [(0, 200)]


@pytest.mark.parametrize("waits", [0.0, 1.0])
async def test_a_broker_that_stays_away_is_not_waited_for_long_at_the_end(
    waits: float, machine: Machine, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """G15, and the program is told what may come again, also if the leases end meanwhile."""
    async with machine.both() as client:
        await fill(client, 10)
        async with client.consumer(
            "orders", group="billing", confirm_acks=False, visibility_timeout=0.5
        ) as consumer:
            messages = await consumer.receive()
            await machine.kill()
            for message in messages:
                await message.ack()
            await trio.sleep(waits)
            before = trio.current_time()
        assert trio.current_time() - before < 6
        assert "acks of 10 messages were not confirmed" in caplog.text
        await machine.start()


async def test_a_message_of_another_group_is_refused_at_once(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 1)
        async with client.consumer("orders", group="a") as a, client.consumer("orders", group="b") as b:
            [message] = await a.receive()
            with pytest.raises(InvalidMessage, match="group a"):
                await b.ack(message, wait=False)


async def test_a_stream_has_no_acks(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 1)
        for options in ({"confirm_acks": False}, {"on_ack_error": print}):
            with pytest.raises(InvalidConfig, match='mode "queue" alone'):
                client.consumer("orders", group="a", mode="stream", **options)

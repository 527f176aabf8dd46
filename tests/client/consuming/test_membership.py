"""A consumer as a member of its group: joining, staying, leaving, and what cannot be asked for."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.options import ConsumerOptions, start_text
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.errors import GroupConflict, PartitionUnavailable, Unavailable
from goqueue.net.wire import groups as wire
from tests.client.consuming.world import FakeBroker, at_work, consuming, numbered, values_of

# Membership


async def test_a_member_has_an_id_of_its_own_and_joins_with_what_was_given(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    async with consuming(broker, max_deliveries=5, start=7) as consumer:
        assert consumer.member_id.startswith("tests-")
        assert broker.members == {consumer.member_id}
    [join] = broker.of_kind(wire.JoinGroup)
    assert join.settings == {"mode": "queue", "max_deliveries": 5}
    assert (join.start, join.subscription, join.is_static) == ("offset:7", ("orders",), False)


async def test_who_is_refused_does_not_come_in(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.failures[wire.JoinGroup] = GroupConflict("max_deliveries is 5 there", settings="max_deliveries")
    with pytest.raises(goqueue.GroupConflict, match="max_deliveries"):
        async with consuming(broker):
            raise AssertionError("it came in")


async def test_who_waits_to_be_let_in_asks_to_join_and_never_beats_as_a_stranger(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker = FakeBroker()
    broker.failures[wire.JoinGroup] = GroupConflict("max_deliveries is 5 there", settings="max_deliveries")
    patient = QueueConsumer(broker, ConsumerOptions(topics="orders", group="billing"))
    patient.be_patient()
    with caplog.at_level("INFO", "goqueue.client"):
        async with at_work(broker), patient:
            with pytest.raises(goqueue.GroupConflict, match="max_deliveries"):
                await patient.receive()
            await trio.sleep(1.5)
            assert broker.members == {patient.member_id}
    kinds = [type(each) for each in broker.asked if isinstance(each, wire.JoinGroup | wire.Heartbeat)]
    assert kinds[:3] == [wire.JoinGroup, wire.JoinGroup, wire.Heartbeat]
    assert "joining again" not in caplog.text


async def test_a_heartbeat_is_heard_every_three_seconds_however_long_a_handler_takes(
    autojump_clock: MockClock,
) -> None:
    broker = FakeBroker()
    async with consuming(broker):
        await trio.sleep(60)
        assert 19 <= len(broker.of_kind(wire.Heartbeat)) <= 22


async def test_a_member_that_is_not_known_any_more_joins_again_under_its_id(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    async with consuming(broker) as consumer:
        broker.publish(b"a")
        [a] = await consumer.receive()
        broker.members.clear()
        broker.change()
        await trio.sleep(1)
        assert broker.members == {consumer.member_id}
        await a.ack()
        broker.publish(b"b")
        assert values_of(await consumer.receive()) == [b"b"]


async def test_a_partition_that_is_assigned_is_asked_at_once_though_others_are_waited_for(
    autojump_clock: MockClock,
) -> None:
    """G10: what does not move goes on, what comes is there within a second."""
    broker = FakeBroker(partitions=2)
    broker.assign(0)
    broker.publish(b"b", partition=1)

    async def assign_soon() -> None:
        await trio.sleep(2)
        broker.assign(0, 1)

    async with consuming(broker) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(assign_soon)
        before = trio.current_time()
        assert values_of(await consumer.receive()) == [b"b"]
        assert trio.current_time() - before < 3


async def test_a_partition_that_was_taken_away_is_not_asked_again_and_its_receipts_are_good(
    autojump_clock: MockClock,
) -> None:
    broker = FakeBroker(partitions=2)
    broker.publish(b"a", partition=1)
    async with consuming(broker) as consumer:
        [a] = await consumer.receive()
        broker.assign(0)
        await trio.sleep(1)
        broker.asked.clear()
        await consumer.receive(timeout=1)
        [request] = broker.of_kind(wire.Receive)
        assert [each.partition for each in request.partitions] == [0]
        await a.ack()


async def test_a_partition_that_fails_does_not_keep_the_others_from_giving(autojump_clock: MockClock) -> None:
    broker = FakeBroker(partitions=2)
    broker.partitions[0].error = PartitionUnavailable("an operator must look")
    async with consuming(broker) as consumer:
        await consumer.receive(timeout=10)
        assert len(broker.of_kind(wire.Receive)) < 20  # left alone for a second each time
        broker.publish(b"b", partition=1)
        assert values_of(await consumer.receive(timeout=1)) == [b"b"]
        broker.partitions[0].error = None
        broker.publish(b"a", partition=0)
        assert values_of(await consumer.receive(timeout=3)) == [b"a"]


async def test_a_member_without_partitions_waits_for_some(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.assign()
    async with consuming(broker) as consumer:
        assert await consumer.receive(timeout=3) == []
        broker.publish(b"a")
        broker.assign(0)
        assert values_of(await consumer.receive(timeout=3)) == [b"a"]


async def test_an_error_of_the_broker_is_told_to_who_waits_and_the_next_call_works(
    autojump_clock: MockClock,
) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    async with consuming(broker) as consumer:
        broker.failures[wire.Receive] = Unavailable("gone for half a minute")
        with pytest.raises(goqueue.Unavailable):
            await consumer.receive()
        assert values_of(await consumer.receive()) == [b"a"]


# Leaving


async def test_what_was_not_settled_is_given_back_uncounted_however_the_block_is_left(
    autojump_clock: MockClock,
) -> None:
    for error in (None, KeyError("left"), trio.TooSlowError()):
        broker = FakeBroker()
        broker.publish(*numbered(5))
        try:
            async with consuming(broker) as consumer:
                messages = await consumer.receive(3)
                await messages[1].ack()
                if error is not None:
                    raise error
        except* (KeyError, trio.TooSlowError):
            pass
        [partition] = broker.partitions
        assert (partition.leases, sorted(partition.ready)) == ({}, [0, 2, 3, 4])
        assert set(partition.attempts.values()) == {0, 1}  # only the one that is done was counted
        assert broker.members == set()


async def test_a_cancelled_block_gives_back_and_leaves_too(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a")
    with trio.move_on_after(5):
        async with consuming(broker) as consumer:
            await consumer.receive()
            await trio.sleep_forever()
    assert broker.partitions[0].leases == {}
    assert broker.members == set()


async def test_who_is_cancelled_while_joining_is_no_member(autojump_clock: MockClock) -> None:
    broker = FakeBroker()

    async def join_slowly(request: wire.JoinGroup) -> wire.Membership:
        broker.members.add(request.member)
        await trio.sleep_forever()
        raise AssertionError

    broker.answers[wire.JoinGroup] = join_slowly
    with trio.move_on_after(1):
        async with consuming(broker):
            raise AssertionError("it came in")
    assert broker.members == set()


async def test_after_leaving_everything_is_closed(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a", b"b")
    async with consuming(broker) as consumer:
        [message] = await consumer.receive(1)
    for call in (consumer.receive, message.ack, message.release, lambda: anext(consumer), consumer.__aenter__):
        with pytest.raises(goqueue.Closed):
            await call()


async def test_who_waits_while_it_is_closed_hears_of_it(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    heard = []

    async def wait(consumer: Consumer) -> None:
        with pytest.raises(goqueue.Closed):
            await consumer.receive(timeout=100)
        heard.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        async with consuming(broker) as consumer:
            nursery.start_soon(wait, consumer)
            await trio.sleep(1)
        assert heard


async def test_a_consumer_is_to_be_entered_first(autojump_clock: MockClock) -> None:
    consumer = QueueConsumer(FakeBroker(), ConsumerOptions(topics="orders", group="billing"))
    with pytest.raises(goqueue.Closed, match="enter it"):
        await consumer.receive()


# Options


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": "stream", "auto_extend": True}, goqueue.InvalidConfig),
        ({"max_in_flight": 0}, goqueue.InvalidConfig),
        ({"visibility_timeout": 0}, goqueue.InvalidConfig),
        ({"visibility_timeout": float("nan")}, goqueue.InvalidConfig),
        ({"group": "no group"}, goqueue.InvalidName),
        ({"group": "__redrive"}, goqueue.InvalidName),
        ({"topics": []}, goqueue.InvalidName),
        ({"start": "yesterday"}, goqueue.InvalidConfig),
        ({"start": -1}, goqueue.OffsetOutOfRange),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_at_once(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        QueueConsumer(FakeBroker(), ConsumerOptions(**{"topics": "orders", "group": "billing", **options}))


def test_a_start_is_a_place_or_a_time() -> None:
    assert start_text("latest") == "latest"
    assert start_text(12) == "offset:12"
    assert start_text(1.5) == "time:1500000"
    assert start_text("1970-01-01T00:00:02") == "time:2000000"

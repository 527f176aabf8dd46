"""Consumers with a member_id of their own: started again, twice at a time, closed and back."""

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import goqueue
from goqueue.client.consuming.consumer import Consumer
from goqueue.net.wire import groups as wire
from tests.client.consuming.test_broker import drained, fill
from tests.client.consuming.world import FakeBroker, consuming
from tests.client.test_client import Machine, machine

__all__ = ["machine"]


# What is said to the broker


async def test_each_consumer_is_an_instance_of_its_own_and_says_so_every_time(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    for _ in range(2):
        async with consuming(broker, member_id="worker") as consumer:
            await consumer.receive(timeout=5)
    first, second = broker.of_kind(wire.JoinGroup)
    assert 0 < first.instance != second.instance > 0
    said = {each.instance for kind in (wire.Heartbeat, wire.Receive) for each in broker.of_kind(kind)}
    assert said == {first.instance, second.instance}
    left = [(each.instance, each.keeps_place) for each in broker.of_kind(wire.LeaveGroup)]
    assert left == [(first.instance, True), (second.instance, True)]


async def test_a_consumer_without_a_member_id_of_its_own_leaves_its_place(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    async with consuming(broker):
        pass
    [left] = broker.of_kind(wire.LeaveGroup)
    assert not left.keeps_place


@pytest.mark.parametrize("kind", [wire.Heartbeat, wire.Receive], ids=lambda kind: kind.__name__)
async def test_who_was_replaced_says_so_does_not_join_again_and_takes_nothing_from_the_other(
    autojump_clock: MockClock, kind: type
) -> None:
    broker = FakeBroker()
    error = goqueue.Fenced("another consumer joined as worker")
    async with consuming(broker, member_id="worker") as consumer:
        if kind is wire.Receive:
            broker.partitions[0].error = error
        else:
            broker.failures[wire.Heartbeat] = error
        with pytest.raises(goqueue.Fenced):
            await consumer.receive(timeout=100)
        with pytest.raises(goqueue.Fenced):
            await anext(consumer)
        broker.partitions[0].error = None
        await trio.testing.wait_all_tasks_blocked()
        broker.asked.clear()
        await trio.sleep(100)
    assert broker.of_kind(wire.JoinGroup) == broker.of_kind(wire.LeaveGroup) == []
    assert broker.of_kind(wire.Receive) == []


async def test_what_lay_ahead_of_a_replaced_consumer_is_not_handed_out(autojump_clock: MockClock) -> None:
    broker = FakeBroker()
    broker.publish(b"a", b"b", b"c")
    async with consuming(broker, member_id="worker") as consumer:
        assert (await anext(consumer)).value == b"a"
        broker.failures[wire.Heartbeat] = goqueue.Fenced("another consumer joined as worker")
        await trio.sleep(5)
        with pytest.raises(goqueue.Fenced):
            await anext(consumer)


# With a broker


async def test_of_two_consumers_of_one_member_the_newest_works(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        values = await fill(client, 20, partitions=2)
        async with client.consumer("orders", group="billing", member_id="worker") as old:
            held = await old.receive(20)
            async with machine.client() as other:
                before = trio.current_time()
                async with other.consumer("orders", group="billing", member_id="worker") as new:
                    messages = await new.receive(20)
                    assert trio.current_time() - before < 1, "not when the leases end"
                    assert {each.attempt for each in messages} == {2}
                    with pytest.raises(goqueue.Fenced, match="member_id of its own"):
                        await old.receive()
                    with pytest.raises(goqueue.StaleReceipt):
                        await old.ack(held)
                    await new.ack(messages)
                    rest = await drained(new, 20 - len(messages))
                    assert sorted(rest + [each.value for each in messages]) == sorted(values)
            [member] = (await client.group("billing")).members
            assert member.is_away
        [member] = (await client.group("billing")).members
        assert member.is_away, "the old one ends nothing"


async def test_two_consumers_of_one_connection_are_told_apart(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        heard: list[float] = []

        async def be_replaced(consumer: Consumer) -> None:
            with pytest.raises(goqueue.Fenced):
                await consumer.receive(timeout=100)
            heard.append(trio.current_time())

        async with (
            client.consumer("orders", group="billing", member_id="worker") as old,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(be_replaced, old)
            await trio.sleep(1)
            async with client.consumer("orders", group="billing", member_id="worker") as new:
                await client.publish("orders", b"a")
                assert await drained(new, 1) == [b"a"]
                await trio.sleep(60)
                await client.publish("orders", b"b")
                assert await drained(new, 1) == [b"b"]
        assert heard[0] < 2


async def test_a_consumer_that_closed_and_comes_back_has_what_it_gave_back_and_nobody_elses_moves(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 40, partitions=4)
        async with client.consumer("orders", group="billing", member_id="other"):
            async with client.consumer("orders", group="billing", member_id="worker") as consumer:
                held = await consumer.receive(5)
                before = {each.member_id: each for each in (await client.group("billing")).members}
            await trio.sleep(3)
            away = await client.group("billing")
            assert {each.member_id: each.is_away for each in away.members} == {"other": False, "worker": True}
            async with client.consumer("orders", group="billing", member_id="worker") as again:
                group = await client.group("billing")
                for member in group.members:
                    assert (member.assignment, member.is_away) == (before[member.member_id].assignment, False)
                assert group.generation == away.generation
                messages: list[goqueue.Message] = []
                while len(messages) < sum(each.end for each in group.partitions if each.member_id == "worker"):
                    messages += await again.receive(timeout=1)
                come = {(each.partition, each.offset, each.attempt) for each in messages}
                assert {(each.partition, each.offset, 1) for each in held} <= come
                assert {each.attempt for each in messages} == {1}

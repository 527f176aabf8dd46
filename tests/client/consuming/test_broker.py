"""A consumer against a whole broker over memory: deliveries, acks, restarts and lost connections."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.consuming.consumer import Consumer
from goqueue.client.link.link import Link
from goqueue.client.link.share import OnAnswer
from goqueue.net.wire import groups as wire
from goqueue.net.wire.errors import ConnectionLost
from tests.client.test_client import Machine, machine

__all__ = ["machine"]


async def fill(client: goqueue.Client, count: int, partitions: int = 1, topic: str = "orders") -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    await client.create_topic(topic, partitions=partitions)
    async with client.producer(topic) as producer:
        await producer.send_many(values, keys=values)
    return values


async def drained(consumer: Consumer, count: int) -> list[bytes]:
    """So many values, each acked."""
    values: list[bytes] = []
    while len(values) < count:
        messages = await consumer.receive(timeout=60)
        assert messages, f"only {len(values)} of {count} came"
        await consumer.ack(messages)
        values += [message.value for message in messages]
    return values


async def test_everything_published_is_received_and_acked_once(machine: Machine, autojump_clock: MockClock) -> None:
    """G5: and the group says that it is done."""
    async with machine.both() as client:
        values = await fill(client, 3000, partitions=3)
        async with client.consumer("orders", group="billing") as consumer:
            assert sorted(await drained(consumer, 3000)) == sorted(values)
            assert await consumer.receive(timeout=1) == []
            group = await client.group("billing")
            assert (group.lag, group.members[0].member_id) == (0, consumer.member_id)
            assert [each.in_flight for each in group.partitions] == [0, 0, 0]
            assert [each.committed for each in group.partitions] == [each.end for each in group.partitions]
        assert (await client.group("billing")).members == []


@pytest.mark.parametrize("mode", ["queue", "stream"])
async def test_between_partitions_there_is_no_order(mode: str, machine: Machine, autojump_clock: MockClock) -> None:
    """O3: what was published last, to the other partition, comes before what was published before it."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=2)
        for partition, value in ((0, b"a"), (1, b"b"), (0, b"c"), (1, b"d")):
            await client.publish("orders", value, partition=partition)
        async with client.consumer("orders", group="billing", mode=mode) as consumer:
            found = list[bytes]()
            while len(found) < 4:
                found += [message.value for message in await consumer.receive()]
        assert found != sorted(found)
        assert [each for each in found if each in b"ac"] == [b"a", b"c"]
        assert [each for each in found if each in b"bd"] == [b"b", b"d"]


async def test_the_first_delivery_comes_within_a_second_of_joining(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 1)
        before = trio.current_time()
        async with client.consumer("orders", group="billing") as consumer:
            await drained(consumer, 1)
            assert trio.current_time() - before < 1


async def test_a_message_that_comes_later_is_handed_out_at_once(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, trio.open_nursery() as nursery:
        await client.create_topic("orders", partitions=3)

        async def publish_late() -> None:
            await trio.sleep(17)
            await client.publish("orders", b"late", key=b"k")

        async with client.consumer("orders", group="billing") as consumer:
            nursery.start_soon(publish_late)
            before = trio.current_time()
            [message] = await consumer.receive()
            assert (message.value, message.key) == (b"late", b"k")
            assert trio.current_time() - before < 17.5
            await message.ack()


async def test_headers_priority_and_all_else_of_a_message_arrive(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"v", key=b"k", headers={"a": b"1"}, priority="high")
        async with client.consumer("orders", group="billing") as consumer:
            [message] = await consumer.receive()
            assert isinstance(message, goqueue.DeliveredMessage)
            assert (message.key, message.headers, message.value) == (b"k", {"a": b"1"}, b"v")
            assert (message.priority, message.attempt) == (goqueue.Priority.HIGH, 1)
            await message.ack()


async def test_two_members_share_and_when_one_leaves_the_other_has_the_rest(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G7, G10: nobody gets what another holds; what one gives back the other gets, uncounted."""
    async with machine.both() as client:
        values = await fill(client, 400, partitions=4)
        async with client.consumer("orders", group="billing") as one:
            async with client.consumer("orders", group="billing") as other:
                await trio.sleep(3)
                first, second = await one.receive(timeout=5), await other.receive(timeout=5)
                assert len(first) > 0 < len(second)
                assert not {each.receipt for each in first} & {each.receipt for each in second}
                await one.ack(first)
            rest = await drained(one, 400 - len(first))
            assert sorted([*rest, *(each.value for each in first)]) == sorted(values)


async def test_a_topic_that_is_made_later_is_picked_up_and_so_is_one_that_grows(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, client.consumer("order*", group="billing") as consumer:
        assert await consumer.receive(timeout=1) == []
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"a")
        assert await drained(consumer, 1) == [b"a"]
        await client.add_partitions("orders", 2)
        await client.publish("orders", b"b", partition=1)
        assert await drained(consumer, 1) == [b"b"]


async def test_what_is_not_settled_comes_again_with_the_next_attempt(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 3)
        async with client.consumer("orders", group="billing", visibility_timeout=5) as consumer:
            first = await consumer.receive()
            await first[0].ack()
            await first[1].nack(delay=1)
            again = [message for _ in range(2) for message in await consumer.receive(timeout=20)]
            assert [(message.offset, message.attempt) for message in again] == [(1, 2), (2, 2)]
            with pytest.raises(goqueue.StaleReceipt) as caught:
                await first[2].ack()
            assert caught.value.receipts == [first[2].receipt]
            await consumer.ack(again)


async def test_after_its_last_delivery_or_a_rejection_a_message_is_a_dead_letter(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G5: exactly once."""
    async with machine.both() as client:
        await fill(client, 2)
        async with client.consumer("orders", group="billing", max_deliveries=2) as consumer:
            [rejected, failing] = await consumer.receive()
            await rejected.reject("no address")
            await failing.nack(delay=0)
            [failing] = await consumer.receive()
            await failing.nack(delay=0, reason="still nothing")
            assert await consumer.receive(timeout=20) == []
        letters = [message async for message in client.read("orders.dlq", end="latest")]
        assert {letter.value: letter.headers["goqueue-dlq-reason"] for letter in letters} == {
            b"0": b"no address",
            b"1": b"still nothing",
        }


async def test_a_restarted_broker_is_found_again_and_receipts_stay_good(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G6: the same member, the same leases, nothing delivered twice."""
    async with machine.client() as client:
        async with machine.broker():
            await fill(client, 20)
            consuming = client.consumer("orders", group="billing")
            consumer = await consuming.__aenter__()
            held = await consumer.receive(10)
        async with machine.broker():
            await consumer.ack(held)
            rest = await drained(consumer, 10)
            assert rest == [b"%d" % number for number in range(10, 20)]
            assert await consumer.receive(timeout=60) == []
            assert (await client.group("billing")).members[0].member_id == consumer.member_id
            await consumer.__aexit__(None, None, None)


async def test_a_lost_connection_is_survived_with_everything_held(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20)
        async with client.consumer("orders", group="billing") as consumer:
            held = await consumer.receive(10)
            for _ in range(3):
                await trio.aclose_forcefully(machine.network.connections[-1])
                await trio.sleep(2)
            await consumer.ack(held)
            assert len(await drained(consumer, 10)) == 10
            [member] = (await client.group("billing")).members
            assert member.member_id == consumer.member_id


def lose_first_answer(monkeypatch: pytest.MonkeyPatch, kind: type) -> list[Any]:
    """The first answer of a kind is lost with its connection; those that were, once it has happened."""
    post, lost = Link._post, list[Any]()

    def post_and_lose(self: Link, request: Any, on_answer: OnAnswer, *, at_once: bool = False) -> None:
        def hear(answer: Any) -> None:
            is_lost = isinstance(request, kind) and not lost
            lost.extend([answer] if is_lost else [])
            on_answer(ConnectionLost("the answer was lost") if is_lost else answer)

        post(self, request, hear, at_once=at_once)

    monkeypatch.setattr(Link, "_post", post_and_lose)
    return lost


async def test_an_ack_whose_answer_was_lost_is_repeated_and_succeeds(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with client.consumer("orders", group="billing") as consumer:
            messages = await consumer.receive()
            lost = lose_first_answer(monkeypatch, wire.Settle)
            await consumer.ack(messages)
            assert lost
            assert (await client.group("billing")).lag == 0


@pytest.mark.parametrize("word", ["nack", "reject", "release"])
@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_settlement_whose_answer_was_lost_is_repeated_and_takes_effect_once(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, word: str, is_killed: bool
) -> None:
    """G6: also when the broker is killed in between."""
    async with machine.both() as client:
        await fill(client, 10)
        async with client.consumer("orders", group="billing") as consumer:
            messages = await consumer.receive()
            lost = lose_first_answer(monkeypatch, wire.Settle)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(getattr(consumer, word), messages)
                if is_killed:
                    await trio.sleep(0.01)
                    await machine.kill()
                    await machine.start()
            assert lost
            with pytest.raises(goqueue.StaleReceipt):
                await consumer.ack(messages[0])
            attempts: list[int] = []
            while len(attempts) < (0 if word == "reject" else 10):
                attempts += [each.attempt for each in await consumer.receive()]
            assert set(attempts) <= {2 if word == "nack" else 1}


async def test_messages_whose_answer_was_lost_come_again_when_their_lease_ends(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machine.both() as client:
        await fill(client, 2)
        lose_first_answer(monkeypatch, wire.Receive)
        async with client.consumer("orders", group="billing", visibility_timeout=10) as consumer:
            messages = await consumer.receive(timeout=30)
            assert [(message.offset, message.attempt) for message in messages] == [(0, 2), (1, 2)]
            await consumer.ack(messages)


async def test_a_consumer_without_a_broker_says_so_after_a_while_and_goes_on_when_there_is_one(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.client() as client:
        async with machine.broker():
            await fill(client, 1)
            consumer = await client.consumer("orders", group="billing").__aenter__()
            await drained(consumer, 1)
        assert await consumer.receive(timeout=5) == []
        with pytest.raises(goqueue.Unavailable):
            await anext(consumer)
        async with machine.broker():
            await client.publish("orders", b"new")
            assert await drained(consumer, 1) == [b"new"]
            await consumer.__aexit__(None, None, None)


async def test_a_loop_goes_on_through_cuts_and_each_message_is_acked(
    machine: Machine, autojump_clock: MockClock
) -> None:
    seen: set[bytes] = set()
    async with machine.both() as client, trio.open_nursery() as nursery:
        values = await fill(client, 300, partitions=3)

        async def cut() -> None:
            for _ in range(5):
                await trio.sleep(0.7)
                await trio.aclose_forcefully(machine.network.connections[-1])

        nursery.start_soon(cut)
        async with client.consumer("orders", group="billing", visibility_timeout=10) as consumer:
            async for message in consumer:
                await trio.sleep(0.02)
                await message.ack()
                seen.add(message.value)
                if len(seen) == 300:
                    break
        assert seen == set(values)
        assert (await client.group("billing")).lag == 0


async def test_a_slow_handler_stays_a_member_and_keeps_its_message(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 2)
        async with client.consumer("orders", group="billing") as consumer:
            async for message in consumer:
                await trio.sleep(600)
                assert message.attempt == 1
                await message.ack()
                if message.offset == 1:
                    break


async def test_groups_are_listed_altered_reset_and_deleted(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 5)
        async with client.consumer("orders", group="billing") as consumer:
            await drained(consumer, 5)
            with pytest.raises(goqueue.GroupConflict):
                await client.delete_group("billing")
        assert [each.name for each in await client.groups()] == ["billing"]
        altered = await client.alter_group("billing", {"max_deliveries": 7})
        assert altered.settings["max_deliveries"] == 7
        dry = await client.reset_group("billing", 2, dry_run=True)
        assert dry == [goqueue.ResetPartition("orders", 0, 5, 2)]
        assert (await client.group("billing")).lag == 0
        assert await client.reset_group("billing", 2, topic="orders", partition=0) == dry
        assert (await client.group("billing")).lag == 3
        async with client.consumer("orders", group="billing", max_deliveries=7) as consumer:
            assert await drained(consumer, 3) == [b"2", b"3", b"4"]
        await client.delete_group("billing")
        with pytest.raises(goqueue.UnknownGroup):
            await client.group("billing")


async def test_a_member_that_gives_no_settings_takes_the_groups(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 1)
        async with client.consumer("orders", group="billing", max_deliveries=7):
            async with client.consumer("orders", group="billing"):
                assert len((await client.group("billing")).members) == 2
            with pytest.raises(goqueue.GroupConflict, match="max_deliveries"):
                async with client.consumer("orders", group="billing", max_deliveries=5):
                    raise AssertionError("it came in")


async def test_dead_letters_are_sent_back_to_the_group_that_gave_them_up(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 2)
        async with client.consumer("orders", group="billing") as consumer:
            await consumer.reject(await consumer.receive(), "broken")
            await trio.sleep(1)
            assert (await client.redrive("orders", dry_run=True)).redriven == 2
            assert (await client.redrive("orders", reason="broken")).redriven == 2
            assert sorted(await drained(consumer, 2)) == [b"0", b"1"]


@pytest.mark.parametrize("start", [{"start": "latest"}, {"start": 3}])
async def test_a_group_begins_where_it_is_told(
    machine: Machine, autojump_clock: MockClock, start: dict[str, Any]
) -> None:
    async with machine.both() as client:
        await fill(client, 5)
        async with client.consumer("orders", group="billing", **start) as consumer:
            await trio.sleep(1)
            await client.publish("orders", b"new")
            expected = [b"new"] if start["start"] == "latest" else [b"3", b"4", b"new"]
            assert await drained(consumer, len(expected)) == expected


async def test_more_consumers_than_places_on_a_connection_are_all_heard_and_served(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """Waiting for messages and for assignments takes a place: when there are many, nobody keeps one for long."""
    received: list[float] = []
    async with machine.both() as client, trio.open_nursery() as nursery:
        await client.create_topic("quiet", partitions=1)
        await client.create_topic("orders", partitions=1)

        async def consume(topic: str, group: str) -> None:
            async with client.consumer(topic, group=group) as consumer:
                await anext(consumer)
                received.append(trio.current_time())
                if len(received) == 60:
                    nursery.cancel_scope.cancel()
                await trio.sleep_forever()

        for number in range(120):
            nursery.start_soon(consume, "orders" if number % 2 else "quiet", f"group-{number}")
        await trio.sleep(20)
        silent = [member.silent_seconds for group in await client.groups() for member in group.members]
        assert len(silent) == 120
        assert max(silent) < 7
        before = trio.current_time()
        await client.publish("orders", b"for all")
    assert max(received) - before < 5


async def test_who_is_cancelled_with_its_client_gives_back_what_it_held(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """As by Ctrl-C: what it had not settled is there for others at once, uncounted, and it is no member."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"one")
        with trio.CancelScope() as scope:
            async with machine.client() as other, other.consumer("orders", group="billing") as consumer:
                assert len(await consumer.receive(timeout=5)) == 1
                scope.cancel()
                await trio.sleep_forever()
        assert (await client.group("billing")).members == []
        async with client.consumer("orders", group="billing") as consumer:
            before = trio.current_time()
            [message] = await consumer.receive(timeout=5)
            assert (message.attempt, trio.current_time() - before < 2) == (1, True)

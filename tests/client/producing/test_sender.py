"""What carries a producer's messages: timeouts, failures nobody waits for, topics that change, ids and expiry."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.link.link import Link
from goqueue.client.link.share import OnAnswer
from goqueue.client.producing.topic import REFRESH_SECONDS
from goqueue.core.sending.queue import BATCH_MESSAGES_MAX
from goqueue.errors import DeliveryTimeout, OutcomeUnknown, PublishFailed
from goqueue.net.wire.messages import Produce
from tests.client.test_client import Machine, machine

__all__ = ["machine"]


async def values(client: goqueue.Client, partition: int | None = None) -> list[bytes]:
    return [message.value async for message in client.read("orders", partition=partition, end="latest")]


async def test_what_failed_after_send_nowait_is_told_by_flush_once(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1, config={"max_message_bytes": 10})
        async with client.producer("orders") as producer:
            producer.send_nowait(b"small")
            producer.send_nowait(bytes(11))
            with pytest.raises(PublishFailed) as failed:
                await producer.flush()
            [error] = failed.value.results
            assert isinstance(error, goqueue.TooLarge)
            await producer.flush()
        assert await values(client) == [b"small"]


async def test_a_lone_message_that_was_refused_for_now_is_sent_again(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else of its partition is under way, whose answer would bring it back to mind."""
    post_batch, refusals = Link.post_batch, [goqueue.DiskFull("no room"), goqueue.Unavailable("not now")]

    def post_and_refuse(self: Link, request: Produce, on_answer: OnAnswer) -> None:
        refusal = refusals.pop(0) if refusals else None
        post_batch(self, request, lambda answer: on_answer(refusal or answer))

    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        monkeypatch.setattr(Link, "post_batch", post_and_refuse)
        async with client.producer("orders") as producer:
            with trio.fail_after(1):
                assert (await producer.send(b"patient")).offset == 0
        assert await values(client) == [b"patient"]


async def leave_with_a_failure(client: goqueue.Client) -> None:
    async with client.producer("orders") as producer:
        producer.send_nowait(bytes(11))


async def test_what_failed_after_send_nowait_is_told_at_the_latest_by_leaving(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1, config={"max_message_bytes": 10})
        with pytest.raises(PublishFailed):
            await leave_with_a_failure(client)


async def run_broker(machine: Machine, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
    with trio.CancelScope() as scope:
        async with machine.broker():
            task_status.started(scope)
            await trio.sleep_forever()


async def test_messages_that_cannot_be_delivered_in_time_fail_and_are_not_sent_later(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery, machine.client() as client:
        broker: trio.CancelScope = await nursery.start(run_broker, machine)
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders", delivery_timeout=3) as producer:
            await producer.send(b"before")
            broker.cancel()
            await trio.sleep(1)
            begin = trio.current_time()
            with pytest.raises(PublishFailed) as failed:
                await producer.send_many([b"late", b"later"])
            assert trio.current_time() - begin == pytest.approx(3)
            assert {type(each) for each in failed.value.results} == {DeliveryTimeout}
            broker = await nursery.start(run_broker, machine)
            assert (await producer.send(b"after")).offset == 1
            assert await values(client) == [b"before", b"after"]
        broker.cancel()


async def test_a_message_whose_answer_never_came_is_unknown_and_not_sent_again(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written. Sent again after its time was over, it would be there behind what the program sent since."""
    post_batch = Link.post_batch

    def post_and_lose_the_answer(self: Link, request: Produce, _: OnAnswer) -> None:
        post_batch(self, request, lambda _: None)

    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders", delivery_timeout=3) as producer:
            monkeypatch.setattr(Link, "post_batch", post_and_lose_the_answer)
            with pytest.raises(goqueue.OutcomeUnknown) as failed:
                await producer.send(b"unknown")
            assert isinstance(failed.value, DeliveryTimeout)
            assert not failed.value.retryable
            monkeypatch.undo()
            assert (await producer.send(b"next")).offset == 1
        assert await values(client) == [b"unknown", b"next"]


async def test_without_idempotence_nothing_is_sent_twice(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost answer leaves the outcome unknown, and the message is there at most once."""
    post_batch = Link.post_batch

    def post_and_lose_the_line(self: Link, request: Produce, on_answer: OnAnswer) -> None:
        async def cut(answer: object) -> None:
            for stream in machine.network.connections:
                await trio.aclose_forcefully(stream)

        post_batch(self, request, on_answer)
        monkeypatch.undo()
        client.spawn(cut, None)

    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders", idempotent=False) as producer:
            await producer.send(b"first")
            monkeypatch.setattr(Link, "post_batch", post_and_lose_the_line)
            with pytest.raises(OutcomeUnknown):
                await producer.send(b"perhaps")
            await producer.send(b"last")
        found = await values(client)
    assert found in ([b"first", b"last"], [b"first", b"perhaps", b"last"])


async def test_with_acks_none_a_refused_message_holds_up_nothing(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1, config={"max_message_bytes": 10})
        async with client.producer("orders", acks="none") as producer:
            for value in (b"a", bytes(11), b"b"):
                assert (await producer.send(value)).offset is None
            await trio.sleep(2)
        assert await values(client) == [b"a", b"b"]


async def test_a_topic_that_was_made_again_is_found_again(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client, machine.client() as other:
        await client.create_topic("orders", partitions=3)
        async with client.producer("orders") as producer:
            await producer.send(b"old", key=b"k")
            await other.delete_topic("orders")
            await other.create_topic("orders", partitions=1)
            published = await producer.send_many([b"new %d" % number for number in range(10)], keys=[b"k"] * 10)
        assert [(each.partition, each.offset) for each in published] == [(0, number) for number in range(10)]
        assert await values(client) == [b"new %d" % number for number in range(10)]


async def test_a_topic_that_was_deleted_fails_its_messages(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client, machine.client() as other:
        await client.create_topic("orders")
        async with client.producer("orders") as producer:
            await producer.send(b"old")
            await other.delete_topic("orders")
            with pytest.raises(goqueue.UnknownTopic):
                await producer.send(b"new")


async def test_a_producer_learns_of_partitions_that_somebody_added(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, machine.client() as other:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send(b"a")
            await other.add_partitions("orders", 2)
            assert (await producer.send(b"asked for", partition=1)).partition == 1
            await other.add_partitions("orders", 8)
            await trio.sleep(REFRESH_SECONDS + 1)
            await producer.send(b"notices")
            await trio.sleep(1)
            chosen = {(await producer.send(b"spread")).partition for _ in range(8)}
            assert chosen == set(range(8))


async def test_a_reader_of_all_partitions_learns_of_those_that_somebody_added(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"first")
        async with client.read("orders") as reader:
            assert (await reader.__anext__()).value == b"first"
            await client.add_partitions("orders", 2)
            await client.publish("orders", b"second", partition=1)
            with trio.fail_after(60):
                assert (await reader.__anext__()).value == b"second"


@pytest.mark.parametrize("way", ["publish", "send", "send_many"])
async def test_a_repeated_message_id_gives_the_first_offset(
    way: str, machine: Machine, autojump_clock: MockClock
) -> None:
    """G11, whatever the way in, also without a key and on many partitions."""

    async def send(
        client: goqueue.Client, producer: goqueue.Producer, name: str | bytes
    ) -> Sequence[goqueue.Published]:
        if way == "publish":
            return [await client.publish("orders", b"v", message_id=name)]
        if way == "send":
            return [await producer.send(b"v", message_id=name)]
        return await producer.send_many([b"v", b"w", b"x"], message_id=name)

    async with machine.both() as client:
        await client.create_topic("orders", partitions=5)
        async with client.producer("orders") as producer:
            first = await send(client, producer, "order 17")
            await client.publish("orders", b"between")
            assert await send(client, producer, b"order 17") == first
            assert await send(client, producer, "order 18") != first
        found = await values(client)
        assert len(found) == 2 * len(first) + 1


async def test_copies_within_one_call_and_one_batch_are_one_message(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders", linger_ms=1_000) as producer, trio.open_nursery() as nursery:
            results: list[goqueue.Published] = []

            async def send(value: bytes) -> None:
                results.append(await producer.send(value, message_id=b"same"))

            await producer.send(b"opens")
            nursery.start_soon(producer.send, b"under way")
            for number in range(5):
                nursery.start_soon(send, b"%d" % number)
        assert len({each.offset for each in results}) == 1
        assert len(await values(client)) == 3


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), "1", True])
async def test_a_time_to_live_that_is_none_is_refused(
    ttl: object, machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders")
        with pytest.raises(goqueue.InvalidMessage, match="ttl"):
            await client.publish("orders", b"v", ttl=ttl)  # type: ignore[arg-type]
        assert await values(client) == []


async def test_an_expired_message_is_passed_over_by_readers(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([b"short", b"lived"], ttl=0.000_001)
            await producer.send(b"long", ttl=3_600, headers={"a": b"1"})
            await producer.send(b"for ever")
        found = [message async for message in client.read("orders", end="latest")]
    assert [(message.offset, message.value) for message in found] == [(2, b"long"), (3, b"for ever")]
    assert [message.headers for message in found] == [{"a": b"1"}, {}], "our own headers are nobody's business"


async def test_a_call_larger_than_many_batches_is_confirmed_in_order(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            count = 2 * BATCH_MESSAGES_MAX + 5
            published = await producer.send_many([b"%d" % number for number in range(count)])
        assert [each.offset for each in published] == list(range(count))


async def test_keys_and_values_must_pair(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders")
        async with client.producer("orders") as producer:
            with pytest.raises(goqueue.InvalidMessage, match="2 values and 1 keys"):
                await producer.send_many([b"a", b"b"], keys=[b"k"])
            with pytest.raises(goqueue.PublishFailed) as wrong_keys:
                await producer.send_many([b"a", b"b"], keys=["", ""])  # type: ignore[list-item]
            assert [type(each) for each in wrong_keys.value.results] == [goqueue.InvalidMessage] * 2


async def test_leaving_a_producer_may_be_cancelled_while_it_flushes(
    machine: Machine, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with trio.open_nursery() as nursery, machine.client() as client:
        broker: trio.CancelScope = await nursery.start(run_broker, machine)
        await client.create_topic("orders", partitions=1)
        begin = trio.current_time()
        with trio.move_on_after(5) as patience:
            async with client.producer("orders") as producer:
                await producer.send(b"there")
                broker.cancel()
                await trio.sleep(1)
                producer.send_nowait(b"nobody takes it")
        assert patience.cancelled_caught
        assert trio.current_time() - begin == pytest.approx(5)
    assert "1 messages to orders were dropped unconfirmed" in caplog.text


async def test_two_who_flush_at_a_time_both_return(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            producer.send_nowait(b"a")
            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(producer.flush)
                    nursery.start_soon(producer.flush)


async def test_all_who_wait_for_room_in_the_buffer_get_it(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders", buffer_messages=1) as producer:
            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    for number in range(5):
                        nursery.start_soon(producer.send, b"%d" % number)
        assert sorted(await values(client)) == [b"0", b"1", b"2", b"3", b"4"]

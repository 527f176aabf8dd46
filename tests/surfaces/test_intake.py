"""Messages of `send`, `send_nowait` and `publish` cross into Trio's thread in groups, and nothing shows of it."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

import goqueue
from goqueue import aio, blocking
from goqueue.client.producing.intake import UNTAKEN_MAX
from goqueue.core.records.record import VALUE_SIZE_MAX
from tests.surfaces.background import (
    LONG,
    client_and_producer_without_a_broker,
    in_background,
    trio_stands_still,
    wait_until,
)


def values(client: blocking.Client) -> list[bytes | None]:
    return [message.value for message in client.read("orders", end="latest")]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def dropped_in(caplog: pytest.LogCaptureFixture) -> int:
    return sum(int(record.message.split()[0]) for record in caplog.records if "dropped" in record.message)


# What is queued


def test_send_nowait_does_not_wait_for_trio_s_thread_and_flush_waits_for_all(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        with trio_stands_still(client):
            for value in numbered(1_000):
                producer.send_nowait(value)
        producer.flush()
        assert values(client) == numbered(1_000)


def test_messages_of_one_thread_keep_their_order_whatever_sends_them(client: blocking.Client) -> None:
    """G3: also when some of them were taken and others were not."""
    sent = iter(numbered(1_000))
    with client.producer("orders", acks="leader") as producer:
        for _ in range(100):
            producer.send_nowait(next(sent))
            producer.send_nowait(next(sent), priority="high")
            producer.send_many_nowait([next(sent), next(sent)])
            producer.send_nowait(next(sent))
            producer.send(next(sent))
            producer.send_nowait(next(sent), headers={"a": b"1"})
            producer.send_many([next(sent)])
            producer.send_nowait(next(sent), key=b"k")
            producer.send(next(sent))
    assert values(client) == numbered(1_000)


def test_each_message_has_its_own_options(client: blocking.Client) -> None:
    headers = {"a": b"1"}
    with client.producer("orders") as producer, trio_stands_still(client):
        producer.send_nowait(b"0", key=b"k", headers=headers)
        headers["a"] = b"2"
        producer.send_nowait(b"1", headers=headers)
        producer.send_nowait(b"2", headers=headers, priority="high", partition=0)
        producer.send_nowait(None, key=b"k")
        producer.send_nowait(b"4", message_id="a")
        producer.send_nowait(b"5", message_id="a")
        producer.send_nowait(b"6", ttl=0.000_001)
    found = [
        (each.value, each.key, each.headers, each.priority.name) for each in client.read("orders", end="latest")
    ]
    assert found == [
        (b"0", b"k", {"a": b"1"}, "NORMAL"),
        (b"1", None, {"a": b"2"}, "NORMAL"),
        (b"2", None, {"a": b"2"}, "HIGH"),
        (None, b"k", {}, "NORMAL"),
        (b"4", None, {}, "NORMAL"),
    ]


def test_bad_messages_are_refused_at_once_and_nothing_is_queued(client: blocking.Client) -> None:
    refused: list[tuple[type[Exception], Callable[[blocking.Producer], None]]] = [
        (goqueue.InvalidMessage, lambda producer: producer.send_nowait("text")),  # type: ignore[arg-type]
        (goqueue.InvalidMessage, lambda producer: producer.send_nowait(b"", headers={"a": 1})),  # type: ignore[dict-item]
        (goqueue.InvalidMessage, lambda producer: producer.send_nowait(b"", priority=77)),
        (goqueue.InvalidMessage, lambda producer: producer.send_nowait(None)),
        (goqueue.TooLarge, lambda producer: producer.send_nowait(bytes(VALUE_SIZE_MAX + 1))),
        (goqueue.UnknownPartition, lambda producer: producer.send_nowait(b"", partition=7)),
        (TypeError, lambda producer: producer.send_nowait(b"", colour="red")),  # type: ignore[call-arg]
    ]
    with client.producer("orders") as producer, trio_stands_still(client):
        for kind, call in refused:
            with pytest.raises(kind):
                call(producer)
    assert values(client) == []


def test_a_thread_that_queues_more_than_trio_takes_waits_for_it(client: blocking.Client) -> None:
    def queue_all(producer: blocking.Producer) -> None:
        for value in numbered(2 * UNTAKEN_MAX):
            producer.send_nowait(value)

    with client.producer("orders") as producer:
        with trio_stands_still(client):
            queueing = in_background(lambda: queue_all(producer))
            wait_until(lambda: producer._intake.is_behind)
            queueing.join(0.05)
            assert queueing.is_alive()
        queueing.ended()
    assert values(client) == numbered(2 * UNTAKEN_MAX)


def test_the_buffer_counts_messages_that_were_not_taken(client: blocking.Client) -> None:
    """G15: no more are accepted than were bought, and one that is refused is not sent."""
    with client.producer("orders", buffer_messages=3) as producer:
        with trio_stands_still(client):
            for value in numbered(3):
                producer.send_nowait(value)
            fourth = in_background(lambda: producer.send_nowait(b"3"))
            fourth.join(0.05)
            assert fourth.is_alive()  # it asks Trio's thread
        refused = isinstance(fourth.ended().error, goqueue.BufferFull)
    assert values(client) == numbered(3 if refused else 4)


def test_messages_that_come_one_by_one_are_sent_though_nobody_flushes(client: blocking.Client) -> None:
    """Also those that come while Trio's thread still looks, and those that come when it has just ceased to."""
    with client.producer("orders", acks="leader") as producer:
        for number in range(50):
            producer.send_nowait(b"%d" % number)
            if number % 3:
                wait_until(lambda: not producer._intake._is_watched)
            wait_until(lambda expected=number + 1: client.topic("orders").partitions[0].end == expected)  # type: ignore[misc]


def test_an_interruption_before_trio_s_thread_is_told_strands_nothing(
    client: blocking.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the queue and the wake-up."""

    def interrupt(what: Callable[[], object]) -> None:
        raise KeyboardInterrupt

    with client.producer("orders", acks="leader") as producer:
        with monkeypatch.context() as patched:
            patched.setattr(client._host.thread, "tell", interrupt)
            with pytest.raises(KeyboardInterrupt):
                producer.send_nowait(b"0")
        producer.send_nowait(b"1")
        wait_until(lambda: client.topic("orders").partitions[0].end == 2)
    assert values(client) == numbered(2)


# Closing and forking


def test_what_is_queued_when_the_producer_is_left_is_sent(client: blocking.Client) -> None:
    with client.producer("orders") as producer, trio_stands_still(client):
        for value in numbered(100):
            producer.send_nowait(value)
    assert values(client) == numbered(100)
    with pytest.raises(goqueue.Closed):
        producer.send_nowait(b"late")


def test_what_is_queued_when_the_client_is_closed_is_counted_in_the_log(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client_and_producer_without_a_broker() as (client, producer), trio_stands_still(client):
        for value in numbered(3):
            producer.send_nowait(value)
    assert "3 messages to orders were dropped unconfirmed" in caplog.text


def test_what_trio_s_thread_was_never_told_of_is_counted_when_the_producer_is_left(
    client: blocking.Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left by an error: there is no flush. What had not left is dropped, and the log says so, or it was written."""
    producer = client.producer("orders", acks="leader")
    producer.__enter__()
    with monkeypatch.context() as patched:
        patched.setattr(client._host.thread, "tell", lambda _: None)
        for value in numbered(3):
            producer.send_nowait(value)
    producer.__exit__(ValueError, ValueError(), None)
    assert not producer._intake._queue
    assert client.topic("orders").partitions[0].end + dropped_in(caplog) >= 3


def test_a_child_sends_nothing_that_its_parent_queued(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        with trio_stands_still(client):
            producer.send_nowait(b"0")
            pid = os.fork()
            if pid == 0:
                with suppress(goqueue.Closed):
                    producer.send_nowait(b"of the child")
                os._exit(len(producer._intake._queue))
            assert os.waitpid(pid, 0)[1] == 0
            producer.send_nowait(b"1")
        producer.flush()
    assert values(client) == numbered(2)


def test_threads_that_send_while_the_producer_is_left_lose_nothing_silently(
    client: blocking.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Each message is written, or refused with `Closed`, or counted in the log as dropped."""

    def send_until_closed(producer: blocking.Producer) -> int:
        for count in range(1_000_000):
            try:
                producer.send_nowait(b"")
            except goqueue.Closed:
                return count
        raise AssertionError("it was never closed")

    with client.producer("orders", acks="leader") as producer:
        sending = [in_background(lambda: send_until_closed(producer)) for _ in range(3)]
        wait_until(lambda: client.topic("orders").partitions[0].end > 100)
    accepted = sum(each.ended().value for each in sending)  # type: ignore[misc]
    dropped = dropped_in(caplog)
    written = client.topic("orders").partitions[0].end
    assert written <= accepted + len(sending)  # one that is refused at the last moment may have been written
    assert accepted <= written + dropped


# Calls


def test_ctrl_c_in_a_send_leaves_the_message_to_the_producer(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        with trio_stands_still(client), pytest.raises(TimeoutError), blocking.fail_after(0.01):
            producer.send(b"0")
        producer.send(b"1")
    assert values(client) == numbered(2)


def test_sends_wait_for_room_in_the_buffer(address: str) -> None:
    async def body(client: aio.Client) -> None:
        async with client.producer("orders", buffer_messages=3) as producer:
            published = await asyncio.gather(*(producer.send(b"") for _ in range(50)))
        assert sorted(each.offset or 0 for each in published) == list(range(50))

    in_asyncio(address, body)


def in_asyncio(address: str, body: Callable[[aio.Client], Awaitable[Any]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(LONG), aio.connect(address) as client:
            await client.create_topic("orders", 1)
            await body(client)

    asyncio.run(main())


def test_each_of_many_tasks_gets_its_own_answer(address: str) -> None:
    """Good and bad ones, to topics that exist and to some that do not, in one turn of the loop."""

    async def body(client: aio.Client) -> None:
        await client.create_topic("others", 3)
        await client.publish("others", b"", partition=2)
        await client.publish("orders", b"0")  # from then on its publisher is ready
        good = [client.publish("orders", value, key=b"k") for value in numbered(50)[1:]]
        bad = [client.publish("orders", b"", partition=9), client.publish("missing", b"")]
        other = [client.publish("others", b"", partition=number % 3) for number in range(9)]
        found = await asyncio.gather(*bad, *good, *other, return_exceptions=True)
        assert [type(each).__name__ for each in found[:2]] == ["UnknownPartition", "UnknownTopic"]
        assert found[2:51] == [("orders", 0, offset) for offset in range(1, 50)]
        assert [each[1] for each in found[51:]] == [0, 1, 2] * 3  # type: ignore[index]
        messages = [message.value async for message in client.read("orders", end="latest")]
        assert messages == numbered(50)

    in_asyncio(address, body)


def test_a_cancelled_publish_disturbs_no_other(address: str) -> None:
    async def body(client: aio.Client) -> None:
        await client.publish("orders", b"first")
        publishing = [asyncio.ensure_future(client.publish("orders", value)) for value in numbered(20)]
        await asyncio.sleep(0)
        for each in publishing[::2]:
            each.cancel()
        found = await asyncio.gather(*publishing, return_exceptions=True)
        assert [type(each).__name__ for each in found] == ["CancelledError", "Published"] * 10
        assert (await client.publish("orders", b"last")).offset is not None

    in_asyncio(address, body)


def test_publishes_under_way_hear_that_the_client_is_closed(address: str) -> None:
    async def main() -> None:
        async with aio.connect(address) as client:
            await client.create_topic("orders", 1)
            await client.publish("orders", b"")
            with trio_stands_still(client):
                publishing = [asyncio.ensure_future(client.publish("orders", b"")) for _ in range(10)]
                await asyncio.sleep(0)
                leaving = asyncio.ensure_future(aio.asking.leave(client._host, failed=True))
                await asyncio.sleep(0)
            await leaving
            for each in await asyncio.gather(*publishing, return_exceptions=True):
                assert isinstance(each, goqueue.Closed | goqueue.Published)

    asyncio.run(main())


def test_a_loop_that_ends_before_the_answers_come_disturbs_nobody(address: str) -> None:
    with aio.client.opened(address) as client, blocking.connect(address) as other:
        other.create_topic("orders", 1)

        async def leave_at_once() -> None:
            publishing = asyncio.ensure_future(client.publish("orders", b"", acks="leader"))
            await asyncio.sleep(0)
            publishing.cancel()

        for _ in range(5):
            asyncio.run(leave_at_once())
        assert asyncio.run(client.publish("orders", b"")).topic == "orders"

"""`goqueue.aio`: the client for asyncio, against a broker on real sockets."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

import goqueue
from goqueue import aio, blocking
from goqueue.aio.client import opened
from goqueue.testing import loopback_broker

Body = Callable[[aio.Client], Awaitable[None]]
LONG = 30.0


def with_client(address: str, body: Body) -> None:
    """Run the body in an event loop of its own, with a topic `orders` of one partition."""

    async def main() -> None:
        async with asyncio.timeout(LONG), aio.connect(address) as client:
            await client.create_topic("orders", 1)
            await body(client)

    asyncio.run(main())


async def values(client: aio.Client) -> list[bytes]:
    return [message.value async for message in client.read("orders", end="latest")]


async def calls_are(client: aio.Client, count: int) -> None:
    """Wait until so many tasks in the Trio thread work for it."""
    tasks = client._host._tasks
    assert tasks is not None
    while len(tasks.child_tasks) != count:  # noqa: ASYNC110  (another thread brings it about)
        await asyncio.sleep(0)


def test_topics_are_made_listed_changed_and_deleted(address: str) -> None:
    async def body(client: aio.Client) -> None:
        orders = await client.topic("orders")
        assert await client.topics() == [orders]
        assert (await client.alter_topic("orders", {"retention_hours": 6})).config["retention_hours"] == 6
        assert len((await client.add_partitions("orders", 4)).partitions) == 4
        assert (await client.stats())["partitions"] == 4
        await client.delete_topic("orders")
        assert await client.topics() == []

    with_client(address, body)


def test_a_reader_ends_at_a_time(address: str) -> None:
    async def body(client: aio.Client) -> None:
        for number in range(4):
            await client.publish("orders", b"%d" % number)
        times = [message.timestamp async for message in client.read("orders", end="latest")]
        assert [message.value async for message in client.read("orders", end=times[2])] == [b"0", b"1"]
        assert [message.value async for message in client.read("orders", start="last:1", end="latest")] == [b"3"]

    with_client(address, body)


def test_a_publish_says_whether_it_was_a_repeat(address: str) -> None:
    async def body(client: aio.Client) -> None:
        first, again = [await client.publish("orders", b"a", message_id="a") for _ in range(2)]
        assert (first.repeated, again.repeated, first) == (False, True, again)

    with_client(address, body)


def test_messages_are_published_read_deleted_and_purged(address: str) -> None:
    async def body(client: aio.Client) -> None:
        assert await client.publish("orders", b"a", key=b"k") == ("orders", 0, 0)
        async with client.producer("orders") as producer:
            assert (await producer.send(b"b")).offset == 1
            producer.send_many_nowait([b"c"])
            await producer.flush()
            assert [each.offset for each in await producer.send_many([b"d", b"e"])] == [3, 4]
            producer.send_nowait(b"f")
        assert await values(client) == [b"a", b"b", b"c", b"d", b"e", b"f"]
        await client.delete_before("orders", 0, 4)
        async with client.read("orders", end="latest") as reader:
            assert [message.value for message in await reader.next_batch()] == [b"e", b"f"]
            assert await reader.next_batch() == []
        await client.purge("orders")
        assert await values(client) == []

    with_client(address, body)


def test_errors_come_as_themselves(address: str) -> None:
    async def body(client: aio.Client) -> None:
        with pytest.raises(goqueue.UnknownTopic):
            await client.publish("missing", b"")
        with pytest.raises(goqueue.UnknownTopic):
            await anext(client.read("missing"))
        with pytest.raises(goqueue.UnknownTopic):
            await client.producer("missing").__aenter__()
        with pytest.raises(goqueue.InvalidMessage):
            client.producer("orders", acks="some")
        assert (await client.publish("orders", b"")).offset == 0
        raise ValueError("of the body")

    with pytest.raises(ValueError, match="of the body"):
        with_client(address, body)


def test_many_tasks_use_one_client_and_the_loop_goes_on(address: str) -> None:
    """G3: every message is there once."""

    async def body(client: aio.Client) -> None:
        async def publish(name: int) -> None:
            for number in range(10):
                await client.publish("orders", b"%d %d" % (name, number))

        await asyncio.gather(*(publish(name) for name in range(10)))
        assert len(set(await values(client))) == 100

    with_client(address, body)


def test_cancelling_a_task_cancels_the_call_and_no_message_is_lost_by_it(address: str) -> None:
    async def body(client: aio.Client) -> None:
        reader = client.read("orders")
        for number in range(5):
            waiting = asyncio.ensure_future(anext(reader))
            await calls_are(client, 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await calls_are(client, 0)  # the call in the Trio thread ends as well
            await client.publish("orders", b"%d" % number)
            async with asyncio.timeout(LONG):
                assert (await anext(reader)).value == b"%d" % number

    with_client(address, body)


def test_a_batch_that_arrives_as_its_task_is_cancelled_is_there_for_the_next(address: str) -> None:
    """Whenever in between the cancellation comes."""

    async def body(client: aio.Client) -> None:
        reader, found = client.read("orders"), []
        async with client.producer("orders") as producer:
            for turn in range(100):
                waiting = asyncio.ensure_future(anext(reader))
                await producer.send(b"%d" % turn)
                for _ in range(turn % 7):
                    await asyncio.sleep(0)
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    found.append((await waiting).value)
        while len(found) < 100:
            found.append((await anext(reader)).value)
        assert found == [b"%d" % turn for turn in range(100)]

    with_client(address, body)


def test_calls_under_way_hear_that_the_client_is_closed(address: str) -> None:
    async def main() -> None:
        async with aio.connect(address) as client:
            await client.create_topic("orders", 1)
            waiting = asyncio.ensure_future(anext(client.read("orders")))
            await calls_are(client, 1)
        with pytest.raises(goqueue.Closed):
            await waiting
        with pytest.raises(goqueue.Closed):
            await client.topics()

    asyncio.run(main())


def test_a_cancelled_producer_ends_and_drops_what_nobody_takes(caplog: pytest.LogCaptureFixture) -> None:
    """Cancelled while it waits for its last messages: nothing of it runs on."""

    async def main() -> None:
        entered, broker_gone, leaving = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def produce(producer: aio.Producer) -> None:
            async with producer:
                entered.set()
                await broker_gone.wait()
                producer.send_nowait(b"to nobody")
                leaving.set()

        with loopback_broker() as address:
            connecting = aio.connect(address)
            client = await connecting.__aenter__()
            await client.create_topic("orders", 1)
            producer = client.producer("orders")
            producing = asyncio.ensure_future(produce(producer))
            await entered.wait()
        broker_gone.set()
        await leaving.wait()
        producing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await producing
        assert producer._host.is_over
        await connecting.__aexit__(None, None, None)

    asyncio.run(main())
    assert "1 messages to orders were dropped unconfirmed" in caplog.text


def test_a_client_serves_several_event_loops(address: str) -> None:
    """Nothing is bound to the loop in which it was opened."""
    with blocking.connect(address) as outer, opened(address) as client:
        outer.create_topic("orders", 1)

        async def publish() -> None:
            await client.publish("orders", b"")

        threads = [threading.Thread(target=asyncio.run, args=(publish(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        assert outer.topic("orders").partitions[0].end == 4


def test_in_a_forked_child_every_use_says_what_to_do(address: str) -> None:
    async def body(client: aio.Client) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                client.read("orders")
            except goqueue.Closed as error:
                os._exit(0 if "connect anew in the child" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0  # noqa: ASYNC222  (the child ends at once)
        assert (await client.publish("orders", b"")).offset == 0

    with_client(address, body)

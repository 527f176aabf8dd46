"""Streams without Trio: in threads and in asyncio, with the same order and the same commits."""

import asyncio
import threading
from typing import Any

import pytest

import goqueue
from goqueue import aio, blocking
from goqueue.blocking.asking import ask

COUNT = 1_200
"""More than lie ready for a thread at a time."""


def fill(client: blocking.Client, count: int = COUNT) -> None:
    with client.producer("orders") as producer:
        producer.send_many([b"%d" % number for number in range(count)])


def stream(client: Any, group: str = "audit", **options: Any) -> Any:
    return client.consumer("orders", group=group, mode="stream", **options)


def committed(client: blocking.Client) -> int:
    [partition] = client.group("audit").partitions
    return partition.committed


def test_a_loop_comes_in_order_and_leaving_it_commits_all_but_the_last(client: blocking.Client) -> None:
    """What lies ready for this thread and what it works on is not handled."""
    fill(client)
    with stream(client) as consumer:
        for number, message in enumerate(consumer):
            assert isinstance(message, blocking.DeliveredMessage)
            assert (message.offset, message.value, message.receipt) == (number, b"%d" % number, None)
            if number == 700:
                break
    assert committed(client) == 700
    with stream(client) as consumer:
        assert next(consumer).offset == 700
        consumer.commit()
        assert committed(client) == 701
        assert [message.offset for message in consumer.receive(3)] == [701, 702, 703]
        assert next(consumer).offset == 704
    assert committed(client) == 704


@pytest.mark.parametrize("by_name", [False, True])
def test_leaving_does_not_undo_a_commit_made_in_a_loop(client: blocking.Client, by_name: bool) -> None:
    """The message that the loop is at is done, by the program's own word."""
    fill(client, 20)
    with stream(client) as consumer:
        for message in consumer:
            if message.offset == 4:
                consumer.commit(message if by_name else None)
                break
    assert committed(client) == 5


def test_leaving_does_not_undo_a_commit_backwards_made_in_a_loop(client: blocking.Client) -> None:
    fill(client, 20)
    with stream(client) as consumer:
        messages = [next(consumer) for _ in range(5)]
        consumer.commit()
        consumer.commit(messages[1])
        assert next(consumer).offset == 5
    assert committed(client) == 2
    with stream(client) as consumer:
        messages = [next(consumer) for _ in range(5)]
        consumer.commit(messages[1])
        assert [next(consumer).offset for _ in range(2)] == [7, 8]
    assert committed(client) == 8


def test_a_partition_moves_when_the_thread_that_works_on_it_has_committed_it(client: blocking.Client) -> None:
    client.add_partitions("orders", 2)
    with client.producer("orders") as producer:
        producer.send_many([b"x"] * 10, partition=1)
    with stream(client) as first:
        assert next(first).offset == 0
        first.commit()
        with stream(client) as second:
            assert [message.offset for message in second.receive(timeout=20)] == list(range(1, 10))


def test_what_lies_ready_when_the_consumer_is_left_is_not_committed(client: blocking.Client) -> None:
    fill(client, 10)
    with stream(client) as consumer:
        ask(consumer._host, consumer._buffer.fill)
        assert len(consumer._buffer.items) == 10
    assert committed(client) == 0


def test_what_lies_ready_is_withdrawn_when_it_is_not_wanted(client: blocking.Client) -> None:
    """And read again at once, where it is wanted elsewhere."""
    fill(client, 100)
    with blocking.fail_after(5), stream(client) as consumer:
        assert next(consumer).offset == 0
        consumer.pause(0)
        assert consumer.receive(timeout=0.2) == []
        consumer.resume()
        assert [next(consumer).offset for _ in range(3)] == [1, 2, 3]
        consumer.seek(0, 50)
        assert [next(consumer).offset for _ in range(3)] == [50, 51, 52]
        assert [message.offset for message in consumer.receive(2)] == [53, 54]


def test_a_stream_that_was_led_elsewhere_in_a_loop_stands_there(client: blocking.Client) -> None:
    fill(client, 100)
    with stream(client) as consumer:
        assert [next(consumer).offset for _ in range(5)] == [0, 1, 2, 3, 4]
        consumer.seek(0, 50)
    assert committed(client) == 50


def test_a_partition_moves_when_the_thread_that_works_on_it_asks_for_more(client: blocking.Client) -> None:
    """And what lay ready for that thread is the next owner's."""
    client.add_partitions("orders", 2)
    with client.producer("orders") as producer:
        producer.send_many([b"x"] * 100, partition=1)
    gone = threading.Event()
    with stream(client, on_revoked=lambda _: gone.set()) as first:
        assert [next(first).offset for _ in range(2)] == [0, 1]
        with stream(client) as second:
            assert not gone.wait(0.5)
            assert first.receive(timeout=1) == []
            assert gone.wait(10)
            assert [message.offset for message in second.receive(timeout=20)] == list(range(2, 100))


def test_partitions_that_come_and_go_are_told_in_a_thread_that_may_call(client: blocking.Client) -> None:
    fill(client, 10)
    heard: list[Any] = []

    def choose(partitions: list[tuple[str, int]]) -> None:
        heard.append(partitions)
        consumer.seek(0, 7)

    consumer = stream(client, on_assigned=choose)
    with consumer:
        assert next(consumer).offset == 7
    assert heard == [[("orders", 0)]]


def test_words_of_the_other_mode_are_refused(client: blocking.Client) -> None:
    fill(client, 1)
    with stream(client) as consumer:
        message = next(consumer)
        for word in (message.ack, message.reject, message.release):
            with pytest.raises(goqueue.GroupConflict, match="commit"):
                word()
    with client.consumer("orders", group="billing") as queue, pytest.raises(goqueue.GroupConflict):
        queue.commit()
    with pytest.raises(goqueue.Closed):
        next(consumer)
    with pytest.raises(goqueue.Closed):
        consumer.receive()


def test_offsets_are_committed_from_outside(client: blocking.Client) -> None:
    fill(client, 10)
    client.commit("audit", "orders", {0: 6})
    with stream(client) as consumer:
        assert next(consumer).offset == 6


def test_in_asyncio_it_is_the_same(address: str, client: blocking.Client) -> None:
    fill(client)
    heard: list[Any] = []

    async def main() -> None:
        async def choose(partitions: list[tuple[str, int]]) -> None:
            await consumer.seek(0, 100)
            heard.append((partitions, asyncio.get_running_loop()))

        async with asyncio.timeout(30), aio.connect(address) as mine:
            consumer = stream(mine, on_assigned=choose)
            async with consumer:
                expected = 100
                async for message in consumer:
                    assert message.offset == expected
                    expected += 1
                    if expected == 900:
                        break
                with pytest.raises(goqueue.GroupConflict):
                    await message.ack()
                assert heard == [([("orders", 0)], asyncio.get_running_loop())]
                assert [each.offset for each in await consumer.receive(2)] == [900, 901]
                await consumer.commit(message)
            await mine.commit("other", "orders", {0: 3})

    asyncio.run(main())
    assert committed(client) == 900


def test_in_asyncio_a_commit_made_in_a_loop_stands_too(address: str, client: blocking.Client) -> None:
    fill(client, 20)

    async def main() -> None:
        async with asyncio.timeout(30), aio.connect(address) as mine, stream(mine) as consumer:
            async for message in consumer:
                if message.offset == 4:
                    await consumer.commit()
                    break

    asyncio.run(main())
    assert committed(client) == 5

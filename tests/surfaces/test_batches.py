"""`next_batch`: what a reader has at hand, at once. Here for Trio; the other surfaces pass it on."""

import pytest
import trio
from trio.testing import MockClock

import goqueue


async def test_a_batch_is_what_is_at_hand_and_empty_at_the_end(autojump_clock: MockClock) -> None:
    async with goqueue.testing.broker() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            await producer.send_many([b"%d" % number for number in range(10)])
        reader = client.read("orders", end="latest")
        assert (await anext(reader)).value == b"0"
        assert [message.offset for message in await reader.next_batch()] == list(range(1, 10))
        assert await reader.next_batch() == []


async def test_a_batch_has_at_least_one_message_and_is_waited_for(autojump_clock: MockClock) -> None:
    """Cancelling the wait loses nothing."""
    async with goqueue.testing.broker() as client, client.read("orders") as reader:
        await client.create_topic("orders", partitions=1)
        with trio.move_on_after(60) as patience:
            await reader.next_batch()
        assert patience.cancelled_caught
        await client.publish("orders", b"late")
        assert [message.value for message in await reader.next_batch()] == [b"late"]
    with pytest.raises(goqueue.Closed):
        await reader.next_batch()

"""A stream's consumer against a whole broker over memory: order, commits, places, and what belongs to queues."""

from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import goqueue
from tests.client.test_client import Machine, machine
from tests.net.streams import committed, divide_by_the_distance_to, fill, offsets, some, stream

__all__ = ["machine"]


# Order and handing out


async def test_each_partition_comes_in_its_order_from_where_the_group_began(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """O8"""
    async with machine.both() as client:
        await fill(client, 1000, partitions=3)
        async with stream(client) as consumer:
            messages = await some(consumer, 3000)
            assert [offsets(messages, number) for number in range(3)] == [list(range(1000))] * 3
            assert all(message.value == b"%d" % message.offset for message in messages)
            assert {(message.attempt, message.receipt) for message in messages} == {(1, None)}
            assert await consumer.receive(timeout=1) == []


async def test_a_loop_gets_what_is_published_while_it_waits(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client, trio.open_nursery() as nursery:
        await fill(client, 2)

        async def publish_late() -> None:
            await trio.sleep(25)
            await client.publish("orders", b"late")

        async with stream(client) as consumer:
            nursery.start_soon(publish_late)
            values = []
            async for message in consumer:
                values.append(message.value)
                if message.value == b"late":
                    break
        assert values == [b"0", b"1", b"late"]


async def test_a_receive_without_waiting_brings_what_the_broker_has(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 3)
        async with stream(client) as consumer:
            assert offsets(await consumer.receive(timeout=0)) == [0, 1, 2]
            assert await consumer.receive(timeout=0) == []


async def test_a_cancelled_receive_loses_nothing(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 0)
        async with stream(client) as consumer:
            seen = []
            for number in range(20):
                with trio.move_on_after(0.01 * number):
                    seen += offsets(await consumer.receive())
                await client.publish("orders", b"x")
            assert seen + offsets(await some(consumer, 20 - len(seen))) == list(range(20))


async def test_a_group_that_begins_at_the_end_gets_what_comes_later(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 5)
        async with stream(client, start="latest") as consumer:
            await client.publish("orders", b"new")
            assert offsets(await some(consumer, 1)) == [5]


async def test_what_is_for_another_group_and_what_has_expired_is_passed_over(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 1)
        async with client.consumer("orders", group="billing") as consumer:
            [message] = await consumer.receive()
            await message.reject("bad")
        await trio.sleep(1)
        assert (await client.redrive("orders")).redriven == 1
        await client.publish("orders", b"last")
        async with stream(client) as audit:
            assert [each.value for each in await some(audit, 2)] == [b"0", b"last"]


# Commits


async def test_what_is_handled_is_committed_each_five_seconds_and_no_more(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with stream(client) as consumer:
            await anext(consumer)
            await anext(consumer)
            await trio.sleep(6)
            assert await committed(client) == [1]  # the second is in work
            await consumer.receive(max_messages=3)
            await trio.sleep(6)
            assert await committed(client) == [2]
            assert await consumer.receive(max_messages=1, timeout=0)
            await trio.sleep(6)
            assert await committed(client) == [5]


async def test_closing_commits_what_was_handled_and_the_next_goes_on_there(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with stream(client) as consumer:
            await consumer.receive(max_messages=4)
            await consumer.receive(max_messages=4)
        assert await committed(client) == [4]
        with pytest.raises(ZeroDivisionError):
            await divide_by_the_distance_to(6, stream(client))
        assert await committed(client) == [6]
        async with stream(client) as consumer:
            assert offsets(await some(consumer, 4)) == [6, 7, 8, 9]


async def test_a_program_that_commits_says_what_is_done(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with stream(client, auto_commit=False) as consumer:
            first, second, *_ = await some(consumer, 5)
            await trio.sleep(30)
            assert await committed(client) == [0]
            await consumer.commit(second)
            assert await committed(client) == [2]
            await consumer.commit(first)
            assert await committed(client) == [1]
            await consumer.commit()
            assert await committed(client) == [5]
            await some(consumer, 2)
        assert await committed(client) == [5]


async def test_a_commit_by_hand_is_not_undone_by_those_of_themselves(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with stream(client) as consumer:
            messages = await some(consumer, 6)
            await consumer.commit(messages[3])
            await trio.sleep(6)
            assert await committed(client) == [4]
            await consumer.commit()
            await trio.sleep(6)
            assert await committed(client) == [6]


async def test_a_commit_backwards_stands_until_something_handed_out_after_it_is_handled(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20)
        async with stream(client) as consumer:
            messages = await some(consumer, 10)
            await consumer.commit()
            await consumer.commit(messages[1])
            await trio.sleep(6)
            assert await committed(client) == [2]
            await some(consumer, 5)
            await trio.sleep(6)
            assert await committed(client) == [2]  # all ten are handled, and were handed out before
            await some(consumer, 1)
            await trio.sleep(6)
            assert await committed(client) == [15]


@pytest.mark.parametrize("forwards", [4, 9])
async def test_leaving_does_not_undo_a_commit_backwards(
    machine: Machine, autojump_clock: MockClock, forwards: int
) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with stream(client) as consumer:
            messages = await some(consumer, 10)
            await consumer.commit(messages[forwards])
            await consumer.commit(messages[1])
        assert await committed(client) == [2]


async def test_a_commit_forwards_or_another_place_ends_what_a_commit_backwards_said(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20)
        async with stream(client) as consumer:
            messages = await some(consumer, 10)
            await consumer.commit(messages[4])
            await consumer.commit(messages[1])
            await consumer.commit(messages[6])
            await trio.sleep(6)
            assert await committed(client) == [7]
            await some(consumer, 1)
            await trio.sleep(6)
            assert await committed(client) == [10]
            await consumer.commit(messages[1])
            await consumer.seek(0, 5)
            await trio.sleep(6)
            assert await committed(client) == [5]


async def test_a_restarted_broker_goes_on_where_it_was_and_so_does_the_consumer(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """What is in work stays so: nobody else had the partitions meanwhile."""
    async with machine.client() as client:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(machine.broker())
            await fill(client, 10)
            consumer = stream(client)
            await consumer.__aenter__()
            await some(consumer, 3)
            assert offsets(await some(consumer, 3)) == [3, 4, 5]
            await trio.sleep(6)
        async with machine.broker():
            assert await committed(client) == [3]
            assert offsets(await some(consumer, 2)) == [6, 7]
            await trio.sleep(12)
            assert await committed(client) == [6]
            await consumer.__aexit__(None, None, None)


async def test_a_killed_broker_keeps_what_was_committed(machine: Machine, autojump_clock: MockClock) -> None:
    """O10"""
    async with machine.both() as client:
        await fill(client, 10)
        async with stream(client, auto_commit=False) as consumer:
            await some(consumer, 7)
            await consumer.commit()
        await machine.kill()
        async with machine.broker(), stream(client) as consumer:
            assert offsets(await some(consumer, 3)) == [7, 8, 9]


# Places


async def test_a_stream_goes_on_where_it_is_told_to(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with stream(client) as consumer:
            await some(consumer, 5)
            await consumer.seek(0, 2)
            assert offsets(await some(consumer, 3)) == [2, 3, 4]
            await consumer.seek(0, "latest")
            assert await consumer.receive(timeout=1) == []
            await consumer.seek(0, "earliest", topic="orders")
            assert offsets(await some(consumer, 1)) == [0]
            moment = (await some(consumer, 6))[5].timestamp
            await consumer.seek(0, moment)
            assert offsets(await some(consumer, 1))[0] <= 6
            for place in (11, -1):
                with pytest.raises(goqueue.OffsetOutOfRange):
                    await consumer.seek(0, place)
            with pytest.raises(goqueue.InvalidConfig):
                await consumer.seek(0, "nowhere")
            with pytest.raises(goqueue.StaleGeneration, match="not this consumer's"):
                await consumer.seek(7, 0)
            with pytest.raises(goqueue.UnknownPartition, match="a partition is a whole number, not NoneType"):
                await consumer.seek(None, 0)  # type: ignore[arg-type]


async def test_a_place_can_be_chosen_when_partitions_come(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 10, partitions=2)
        heard = []

        async def choose(partitions: list[tuple[str, int]]) -> None:
            heard.append(partitions)
            for _, number in partitions:
                await consumer.seek(number, 8)

        consumer = stream(client, on_assigned=choose)
        async with consumer:
            assert sorted(each.offset for each in await some(consumer, 4)) == [8, 8, 9, 9]
        assert heard == [[("orders", 0), ("orders", 1)]]


async def test_an_error_of_the_programs_own_reaches_it_where_it_receives(
    machine: Machine, autojump_clock: MockClock
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    async with machine.both() as client:
        await fill(client, 1)
        async with stream(client, on_assigned=fail) as consumer:
            await wait_all_tasks_blocked()
            with pytest.raises(ZeroDivisionError):
                await consumer.receive()
            assert offsets(await some(consumer, 1)) == [0]


async def test_a_paused_partition_waits_and_the_others_go_on(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 10, partitions=2)
        async with stream(client) as consumer:
            await consumer.pause(1)
            messages = await some(consumer, 10)
            assert (offsets(messages, 0), offsets(messages, 1)) == (list(range(10)), [])
            assert await consumer.receive(timeout=5) == []
            await consumer.pause()
            await client.publish("orders", b"x", partition=0)
            await consumer.resume(1)
            assert offsets(await some(consumer, 10), 1) == list(range(10))
            assert await consumer.receive(timeout=5) == []
            await consumer.resume()
            assert offsets(await some(consumer, 1), 0) == [10]


async def test_what_retention_took_is_passed_over(
    machine: Machine, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with stream(client) as consumer:
            await some(consumer, 1)
            await consumer.pause()
            await client.delete_before("orders", 0, 6)
            await consumer.resume()
            assert offsets(await some(consumer, 4)) == [6, 7, 8, 9]
        assert "was removed up to offset 6" in caplog.text


# What belongs to the other mode


async def test_words_of_one_mode_are_refused_in_the_other(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 3)
        async with stream(client) as consumer:
            [message, *_] = await some(consumer, 3)
            for words in (
                message.ack(),
                message.nack(),
                message.reject(),
                message.release(),
                message.extend(5),
                consumer.ack([message]),
            ):
                with pytest.raises(goqueue.GroupConflict, match="commit"):
                    await words
            with pytest.raises(goqueue.InvalidConfig):
                await consumer.receive(visibility_timeout=5)
            with pytest.raises(goqueue.GroupConflict, match="mode"):
                async with client.consumer("orders", group="audit"):
                    pass
        async with client.consumer("orders", group="billing") as queue:
            for words in (queue.commit(), queue.seek(0, 0), queue.pause(), queue.resume()):
                with pytest.raises(goqueue.GroupConflict, match='mode "stream"'):
                    await words
        for words in (queue.commit(), queue.seek(0, 0), queue.pause(), queue.resume()):
            with pytest.raises(goqueue.Closed):
                await words


async def test_after_leaving_everything_is_closed(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 3)
        async with stream(client) as consumer:
            [message, *_] = await some(consumer, 3)
        for words in (consumer.receive(), consumer.commit(message), consumer.seek(0, 0), consumer.pause()):
            with pytest.raises(goqueue.Closed):
                await words
        for words in (consumer.ack(message), message.ack(), message.nack(), message.extend(5)):
            with pytest.raises(goqueue.Closed):
                await words
        with pytest.raises(goqueue.Closed):
            await anext(consumer)


async def test_what_was_received_beside_a_loop_is_handled_when_the_loop_asks_for_more(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 10, partitions=2)
        async with stream(client) as consumer:
            loop = aiter(consumer)
            seen = [await anext(loop) for _ in range(3)]
            received = await consumer.receive(max_messages=5, timeout=5)
            last = await anext(loop)
        handled = [*seen, *received]
        expected = [max([-1, *offsets(handled, number)]) + 1 for number in range(2)]
        assert last not in handled
        assert await committed(client) == expected

"""A stream's consumer against a whole broker over memory: order, commits, members that come and go, restarts."""

from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import goqueue
from goqueue.errors import DamagedData
from goqueue.net.consumer import Consumer
from goqueue.net.failures import error_body
from goqueue.net.groupmessages import Heartbeat
from goqueue.net.streammessages import AskOffsets, GroupOffset, GroupOffsets
from tests.net.test_client import Machine, machine

__all__ = ["machine"]


async def fill(client: goqueue.Client, count: int, partitions: int = 1, topic: str = "orders") -> None:
    """So many messages in each partition, each of which is its own offset."""
    await client.create_topic(topic, partitions=partitions)
    async with client.producer(topic) as producer:
        for partition in range(partitions):
            await producer.send_many([b"%d" % number for number in range(count)], partition=partition)


def stream(client: goqueue.Client, topics: str = "orders", group: str = "audit", **options: Any) -> Consumer:
    return client.consumer(topics, group=group, mode="stream", **options)


async def some(consumer: Consumer, count: int) -> list[Any]:
    """So many messages."""
    messages: list[Any] = []
    while len(messages) < count:
        found = await consumer.receive(count - len(messages), timeout=60)
        assert found, f"only {len(messages)} of {count} came"
        messages += found
    return messages


def offsets(messages: list[Any], partition: int = 0) -> list[int]:
    return [message.offset for message in messages if message.partition == partition]


async def committed(client: goqueue.Client, group: str = "audit") -> list[int]:
    return [each.committed for each in (await client.group(group)).partitions]


async def divide_by_the_distance_to(offset: int, entering: Consumer) -> None:
    async with entering as consumer:
        async for message in consumer:
            1 // (message.offset - offset)


# Order and handing out


async def test_each_partition_comes_in_its_order_from_where_the_group_began(
    machine: Machine, autojump_clock: MockClock
) -> None:
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
    async with machine.both() as client:
        await fill(client, 10)
        async with stream(client, auto_commit=False) as consumer:
            await some(consumer, 7)
            await consumer.commit()
        await machine.kill()
        async with machine.broker(), stream(client) as consumer:
            assert offsets(await some(consumer, 3)) == [7, 8, 9]


# Members


async def test_a_partition_changes_hands_once_what_was_begun_is_handled_and_committed(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20, partitions=2)
        heard: list[Any] = []
        async with AsyncExitStack() as stack:
            ann = await stack.enter_async_context(
                stream(client, on_revoked=lambda lost: heard.append(("revoked", lost)))
            )
            begun = await ann.receive(30)
            assert {message.partition for message in begun} == {0, 1}
            bob = await stack.enter_async_context(
                stream(client, on_assigned=lambda got: heard.append(("bob", got)))
            )
            before = trio.current_time()
            assert await bob.receive(timeout=20) == []
            assert heard == []
            moving = (await client.group("audit")).members
            assert sorted(len(member.assignment) for member in moving) == [0, 1]
            await ann.receive(timeout=1)  # it asks for more, so what it had is handled
            [(_, [(_, other)]), *_] = heard
            theirs = await some(bob, 20 - len(offsets(begun, other)))
            assert trio.current_time() - before < 25
            assert offsets(begun, other) + offsets(theirs, other) == list(range(20))
            assert heard == [("revoked", [("orders", other)]), ("bob", [("orders", other)])]


async def test_a_partition_is_taken_from_whoever_does_not_let_go_and_its_commit_is_refused(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20, partitions=2)
        async with stream(client) as ann:
            begun = await ann.receive(40)
            assert {message.partition for message in begun} == {0, 1}
            async with stream(client) as bob:
                before = trio.current_time()
                theirs = await bob.receive(timeout=70)
                assert 59 < trio.current_time() - before < 65
                [lost] = {message.partition for message in theirs}
                assert offsets(theirs, lost) == list(range(20))
                await bob.commit()
                with pytest.raises(goqueue.StaleGeneration):
                    await ann.commit(next(each for each in begun if each.partition == lost))
                assert await ann.receive(timeout=5) == []
                await trio.sleep(10)
                assert (await committed(client))[lost] == 20
                assert sorted(await committed(client)) == [20, 20]


async def test_a_member_that_comes_back_after_others_had_its_partition_goes_on_where_they_ended(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20)
        async with stream(client) as ann:
            await some(ann, 5)
            await client.reset_group("audit", 12, force=True)
            await trio.sleep(0.5)  # until it has joined again
            assert offsets(await some(ann, 3)) == [12, 13, 14]
            await trio.sleep(6)
            assert await committed(client) == [12]


async def test_what_was_handed_out_before_others_moved_the_group_is_not_committed_after_it(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """Else a reset would be undone, and the next commit of itself would undo that."""
    async with machine.both() as client:
        await fill(client, 20)
        async with stream(client) as ann:
            *_, before = await some(ann, 5)
            await client.reset_group("audit", 12, force=True)
            await trio.sleep(0.5)
            with pytest.raises(goqueue.StaleGeneration, match="moved by others"):
                await ann.commit(before)
            assert await committed(client) == [12]
            [after] = await some(ann, 1)
            await ann.commit(after)
            assert await committed(client) == [13]


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


# From outside


async def test_readers_outside_commit_for_a_group_that_nobody_is_in(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 10, partitions=2)
        await client.commit("audit", "orders", {1: 7})
        group = await client.group("audit")
        assert (group.settings["mode"], await committed(client)) == ("stream", [0, 7])
        async with stream(client) as consumer:
            messages = await some(consumer, 13)
            assert (offsets(messages, 0), offsets(messages, 1)) == (list(range(10)), [7, 8, 9])
            with pytest.raises(goqueue.GroupConflict, match="members"):
                await client.commit("audit", "orders", {0: 1})
        await client.commit("audit", "orders", {0: 3, 1: 0})
        assert await committed(client) == [3, 0]


async def test_what_cannot_be_committed_from_outside_is_refused(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with client.consumer("orders", group="billing"):
            pass
        with pytest.raises(goqueue.GroupConflict, match="queue"):
            await client.commit("billing", "orders", {0: 1})
        with pytest.raises(goqueue.OffsetOutOfRange):
            await client.commit("audit", "orders", {0: 11})
        with pytest.raises(goqueue.UnknownTopic):
            await client.commit("audit", "nothing", {0: 1})
        with pytest.raises(goqueue.UnknownPartition):
            await client.commit("audit", "orders", {5: 1})
        for bad in ({0: "1"}, [1], {0: -1}):
            with pytest.raises((goqueue.InvalidConfig, goqueue.OffsetOutOfRange)):
                await client.commit("audit", "orders", bad)  # type: ignore[arg-type]


async def test_a_commit_from_outside_waits_for_a_partition_that_has_no_room_now(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, trio.open_nursery() as nursery:
        await fill(client, 10, partitions=2)
        await client.commit("audit", "orders", {0: 1, 1: 1})
        machine.fill_disk()
        nursery.start_soon(client.commit, "audit", "orders", {0: 7, 1: 8})
        await trio.sleep(10)
        assert await committed(client) == [1, 1]
        machine.free_disk()
        await trio.sleep(3)
        assert await committed(client) == [7, 8]
        machine.fill_disk()
        with pytest.raises(goqueue.DiskFull):
            await client.commit("audit", "orders", {0: 9})


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


async def test_after_leaving_everything_is_closed(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 3)
        async with stream(client) as consumer:
            [message, *_] = await some(consumer, 3)
        for words in (consumer.receive(), consumer.commit(message), consumer.seek(0, 0), consumer.pause()):
            with pytest.raises(goqueue.Closed):
                await words
        with pytest.raises(goqueue.Closed):
            await anext(consumer)


# Troubles


async def receive_on(consumer: Consumer, seen: list[int]) -> None:
    while True:
        seen += offsets(await consumer.receive())


async def test_damage_stops_a_stream_until_somebody_leads_it_round(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        for number in range(10):
            await client.publish("orders", b"%d" % number * 100)
        path = "/data/logs/orders/0/00000000000000000000.log"
        machine.disk.flip_bit(path, machine.disk.size(path) // 2, 3)
        async with stream(client) as consumer:
            before: list[int] = []
            with pytest.raises(DamagedData) as stopped:
                await receive_on(consumer, before)
            bad, behind = stopped.value.offset, stopped.value.end_offset
            assert before == list(range(bad))
            for ask in (consumer.receive, consumer.__anext__):
                with pytest.raises(DamagedData):
                    await ask()
            await consumer.seek(0, behind)
            assert offsets(await some(consumer, 1)) == [behind]
            await consumer.seek(0, 0)
            with pytest.raises(DamagedData):
                await receive_on(consumer, [])
            await client.reset_group("audit", behind, force=True)
            await trio.sleep(1)
            assert offsets(await some(consumer, 10 - behind)) == list(range(behind, 10))


async def test_whoever_is_to_let_go_stays_alive_and_does_not_ask_without_end(
    machine: Machine, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with machine.both() as client, machine.client() as other:
        await fill(client, 20, partitions=2)
        async with stream(client) as ann:
            assert len(await ann.receive(40)) == 40
            async with stream(other):
                counted = await count_heartbeats(client, 50.0)
                assert 10 <= counted <= 20
                assert len((await client.group("audit")).members) == 2
                await ann.receive(timeout=1)
                await trio.sleep(6)
                assert [len(each.assignment) for each in (await client.group("audit")).members] == [1, 1]
                assert await committed(client) == [20, 20]
        assert "no member any more" not in caplog.text


async def count_heartbeats(client: goqueue.Client, seconds: float) -> int:
    """How many it sends within this time."""
    asked, call = 0, client.call

    async def counting(request: Any, kind: type[Any]) -> Any:
        nonlocal asked
        asked += isinstance(request, Heartbeat)
        return await call(request, kind)

    client.call = counting  # type: ignore[method-assign]
    await trio.sleep(seconds)
    client.call = call  # type: ignore[method-assign]
    return asked


async def test_a_partition_that_was_started_again_takes_commits_as_before(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20)
        await client.alter_topic("orders", {"retention_hours": 5})
        async with stream(client) as ann:
            await some(ann, 5)
            await ann.receive(2)
            await machine.restart()
            assert offsets(await some(ann, 3)) == [7, 8, 9]
            await ann.commit()
            assert await committed(client) == [10]


async def test_a_partition_that_was_to_leave_when_the_broker_went_and_stays_is_read_on(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """A consumer alive, connected and silently receiving nothing."""
    async with machine.both() as client, machine.client() as other:
        await fill(client, 20, partitions=2)
        async with stream(client) as ann:
            first = await ann.receive(30)
            async with stream(other):
                await trio.sleep(5)  # ann is asked to let go of what it works on
                await machine.kill()
            await machine.start()
            seen = {(each.partition, each.offset) for each in first}
            while len(seen) < 40:
                seen |= {(each.partition, each.offset) for each in await some(ann, 1)}


async def test_a_partition_that_has_not_heard_of_the_group_yet_is_no_news(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """After a start, while the disk is slow."""
    async with machine.both() as client:
        await fill(client, 3)
        call, asked = client.call, list[AskOffsets]()

        async def not_yet(request: Any, kind: type[Any]) -> Any:
            if isinstance(request, AskOffsets) and len(asked) < 3:
                asked.append(request)
                return GroupOffsets((GroupOffset(error_body(goqueue.UnknownGroup("join it again")), 0),))
            return await call(request, kind)

        client.call = not_yet  # type: ignore[method-assign]
        async with stream(client) as consumer:
            assert offsets(await some(consumer, 3)) == [0, 1, 2]
            assert len(asked) == 3


async def test_a_topic_that_goes_while_others_are_waited_for_disturbs_nobody(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, trio.open_nursery() as nursery:
        await fill(client, 0, topic="orders-a")
        await fill(client, 0, topic="orders-b")
        async with stream(client, "orders-*") as consumer:

            async def delete() -> None:
                await trio.sleep(3)
                await client.delete_topic("orders-b")
                await trio.sleep(15)
                await client.publish("orders-a", b"x")

            nursery.start_soon(delete)
            assert offsets(await consumer.receive(timeout=30)) == [0]


async def test_a_queue_that_becomes_a_stream_goes_on_behind_what_is_done(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 10)
        async with client.consumer("orders", group="audit") as queue:
            messages = await queue.receive()
            await queue.ack([*messages[:4], messages[6]])
        await client.alter_group("audit", {"mode": "stream"})
        async with stream(client) as consumer:
            assert offsets(await some(consumer, 6)) == [4, 5, 6, 7, 8, 9]
            await consumer.commit()
        await client.alter_group("audit", {"mode": "queue"})
        await client.publish("orders", b"new")
        async with client.consumer("orders", group="audit") as queue:
            assert offsets(await queue.receive()) == [10]


async def test_several_topics_and_those_that_come_later_are_read(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 3, topic="orders-a")
        async with stream(client, "orders-*") as consumer:
            assert offsets(await some(consumer, 3)) == [0, 1, 2]
            await fill(client, 2, partitions=2, topic="orders-b")
            messages = await some(consumer, 4)
            assert {message.topic for message in messages} == {"orders-b"}
            await consumer.seek(0, 1, topic="orders-a")
            with pytest.raises(goqueue.InvalidConfig, match="topic="):
                await consumer.seek(0, 1)
            assert offsets(await some(consumer, 2)) == [1, 2]
            await client.delete_topic("orders-b")
            await trio.sleep(1)
            await client.publish("orders-a", b"more")
            assert offsets(await some(consumer, 1)) == [3]


async def test_a_stream_whose_place_another_took_hears_of_it_and_commits_nothing(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """No rebalance comes between them, so their generation is the same: only the instance tells them apart."""
    async with machine.both() as client:
        await fill(client, 20)
        async with stream(client, member_id="worker", auto_commit=False) as before:
            old = await some(before, 10)
            async with stream(client, member_id="worker", auto_commit=False) as after:
                assert offsets(await some(after, 5)) == [0, 1, 2, 3, 4]
                await after.commit()
                with pytest.raises(goqueue.Fenced):
                    await before.commit(old[-1])
                assert await committed(client) == [5]
                with pytest.raises(goqueue.Fenced):
                    await some(before, 11)
                with pytest.raises(goqueue.Fenced):
                    await anext(before)
                assert offsets(await some(after, 5)) == [5, 6, 7, 8, 9]

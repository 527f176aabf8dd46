"""Streams in trouble: damage, restarts, slow disks, topics that go, a place that another took."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.errors import DamagedData
from goqueue.net.wire.failures import error_body
from goqueue.net.wire.groups import AskOffsets, GroupOffset, GroupOffsets, Heartbeat
from tests.client.test_client import Machine, machine
from tests.net.streams import committed, fill, offsets, receive_on, some, stream

__all__ = ["machine"]


# Troubles


async def test_damage_stops_a_stream_until_somebody_leads_it_round(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """O8"""
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
        call, asked = client.call, list[Any]()

        async def not_yet(request: Any, kind: type[Any]) -> Any:
            if isinstance(request, AskOffsets) and len(asked) < 3:
                asked.append(request)
                return GroupOffsets((GroupOffset(error_body(goqueue.UnknownGroup("join it again")), 0, 0),))
            return await call(request, kind)

        client.call = not_yet  # type: ignore[method-assign]
        async with stream(client) as consumer:
            assert offsets(await some(consumer, 3)) == [0, 1, 2]
            assert len(asked) == 3


async def test_what_was_fetched_before_a_restart_is_handed_out_once_it_is_known_to_be_ours(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """A consumer alive, connected and silently receiving nothing."""
    async with machine.both() as client:
        await fill(client, 20)
        async with stream(client) as consumer:
            await some(consumer, 5)
            call, is_asked = client.call, trio.Event()

            async def slowly(request: Any, kind: type[Any]) -> Any:
                if isinstance(request, AskOffsets):
                    is_asked.set()
                    await trio.sleep(2)
                return await call(request, kind)

            client.call = slowly  # type: ignore[method-assign]
            await machine.restart()
            await is_asked.wait()
            before = trio.current_time()
            assert offsets(await consumer.receive(5)) == [5, 6, 7, 8, 9]
            assert trio.current_time() - before < 3


async def test_who_waits_gets_what_is_resumed_meanwhile(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 20)
        async with stream(client) as consumer, trio.open_nursery() as nursery:
            await some(consumer, 5)
            await consumer.pause()

            async def resume_soon() -> None:
                await trio.sleep(1)
                await consumer.resume()

            nursery.start_soon(resume_soon)
            before = trio.current_time()
            assert offsets(await consumer.receive(5)) == [5, 6, 7, 8, 9]
            assert trio.current_time() - before < 2


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

"""Streams whose members come and go, and those that others commit for."""

from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from tests.client.test_client import Machine, machine
from tests.net.streams import committed, fill, offsets, some, stream

__all__ = ["machine"]


# Members


async def test_a_partition_changes_hands_once_what_was_begun_is_handled_and_committed(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """O9"""
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


@pytest.mark.parametrize("place", [0, 10])
async def test_a_reset_to_where_the_group_stands_is_one_all_the_same(
    machine: Machine, autojump_clock: MockClock, place: int
) -> None:
    """Its consumers begin there again, and what they were handed out before is not committed."""
    async with machine.both() as client:
        await fill(client, 20)
        async with stream(client) as ann:
            before = await some(ann, 20)
            if place:
                await ann.commit(before[place - 1])
            await client.reset_group("audit", place, force=True)
            assert offsets(await some(ann, 5)) == list(range(place, place + 5))
            with pytest.raises(goqueue.StaleGeneration, match="moved by others"):
                await ann.commit(before[-1])
            await trio.sleep(6)
            assert await committed(client) == [place]
            await some(ann, 1)
        assert await committed(client) == [place + 5]


async def test_a_reset_reaches_a_consumer_that_comes_back_after_the_broker_was_killed(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, machine.client() as other:
        await fill(client, 20)
        async with stream(client) as ann:
            await some(ann, 10)
            await other.reset_group("audit", 0, force=True)
            await machine.kill()
            await machine.start()
            await trio.sleep(5)  # until it has joined again
            assert offsets(await some(ann, 3)) == [0, 1, 2]


async def test_a_member_that_comes_back_keeps_its_place_however_often_the_group_was_reset_before(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20)
        async with stream(client) as ann:
            await some(ann, 5)
            await client.reset_group("audit", 0, force=True)
            await trio.sleep(0.5)
            assert offsets(await some(ann, 5)) == [0, 1, 2, 3, 4]
            await machine.restart()
            await trio.sleep(5)
            assert offsets(await some(ann, 3)) == [5, 6, 7]


async def test_a_reset_of_one_partition_leaves_the_others_where_they_are(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 10, partitions=2)
        async with stream(client) as ann:
            await some(ann, 20)
            await client.reset_group("audit", 0, topic="orders", partition=1, force=True)
            again = await some(ann, 10)
            assert (offsets(again, 0), offsets(again, 1)) == ([], list(range(10)))
            assert await ann.receive(timeout=5) == []


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

"""Partitions of a stream that change hands while commits are under way: no message goes to two members."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.net.wire.groups import AskOffsets, CommitOffsets
from tests.client.test_client import Machine, machine
from tests.net.streams import committed, fill, offsets, some, stream

__all__ = ["machine"]


@contextmanager
def held(client: goqueue.Client, kind: type[Any], seconds: float) -> Iterator[None]:
    """Each request of this kind takes so long to reach its partition."""
    call = client.call

    async def slowly(request: Any, answer: type[Any]) -> Any:
        if isinstance(request, kind):
            await trio.sleep(seconds)
        return await call(request, answer)

    client.call = slowly  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        client.call = call  # type: ignore[method-assign]


@pytest.mark.parametrize("auto_commit", [True, False])
async def test_a_partition_is_released_after_the_commit_in_flight(
    machine: Machine, autojump_clock: MockClock, auto_commit: bool
) -> None:
    """G10: the next owner begins behind what is being committed."""
    async with machine.both() as client, machine.client() as other:
        await fill(client, 20, partitions=2)
        async with AsyncExitStack() as stack:
            ann = await stack.enter_async_context(stream(client, auto_commit=auto_commit))
            await some(ann, 40)
            with held(client, CommitOffsets, 20.0):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ann.commit)
                    bob = await stack.enter_async_context(stream(other))
                    await ann.receive(timeout=1)
                    assert await bob.receive(timeout=30) == []
            assert await committed(client) == [20, 20]


async def test_a_commit_that_waits_for_its_turn_is_made_before_the_partition_is_released(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """The consumer asks where to go on with one partition while it is to let go of another."""
    async with machine.both() as client, machine.client() as other:
        await fill(client, 20, partitions=3)
        async with AsyncExitStack() as stack:
            ann = await stack.enter_async_context(stream(client, auto_commit=False))
            await some(ann, 60)
            with held(client, AskOffsets, 20.0):
                await client.add_partitions("orders", 4)
                await trio.sleep(1)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ann.commit)
                    bob = await stack.enter_async_context(stream(other))
                    await trio.sleep(40)
            assert await bob.receive(timeout=1) == []
            assert sorted(await committed(client)) == [0, 20, 20, 20]


async def test_a_closing_consumer_leaves_after_the_commit_in_flight(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 20)
        ann = stream(client, auto_commit=False)
        async with trio.open_nursery() as nursery, ann:
            await some(ann, 10)
            with held(client, CommitOffsets, 0.5):
                nursery.start_soon(ann.commit)
                await trio.sleep(0.1)
        async with stream(client) as bob:
            assert offsets(await some(bob, 10)) == list(range(10, 20))


async def test_an_auto_commit_at_the_release_is_repeated_until_the_partition_knows_its_owner(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """A member that came back asks where to go on before it commits."""
    async with machine.both() as client, machine.client() as other:
        await fill(client, 20, partitions=2)
        async with AsyncExitStack() as stack:
            ann = await stack.enter_async_context(stream(client))
            await some(ann, 40)
            with held(client, AskOffsets, 2.0):
                bob = await stack.enter_async_context(stream(other))
                await trio.sleep(1)  # until ann is to let go
                ann._membership._on_join()  # type: ignore[attr-defined]
                await ann.receive(timeout=1)
                assert await bob.receive(timeout=10) == []


async def test_commit_names_partitions_that_are_gone_with_what_was_not_committed(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, machine.client() as other:
        await fill(client, 20, partitions=2)
        async with stream(client, auto_commit=False) as ann:
            await some(ann, 40)
            async with stream(other, auto_commit=False) as bob:
                await ann.receive(timeout=1)  # it asks for more, and has committed nothing
                again = await some(bob, 20)
                [gone] = {each.partition for each in again}
                with pytest.raises(goqueue.StaleGeneration, match=f"orders/{gone}"):
                    await ann.commit()
                assert await committed(client) == [20 * (gone != 0), 20 * (gone != 1)]
                await ann.commit()  # what is left of it is committed


async def test_commit_says_nothing_of_partitions_that_are_gone_when_all_of_them_was_committed(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client, machine.client() as other:
        await fill(client, 20, partitions=2)
        async with stream(client, auto_commit=False) as ann:
            await some(ann, 40)
            await ann.commit()
            async with stream(other) as bob:
                await ann.receive(timeout=1)
                assert await bob.receive(timeout=5) == []
                await ann.commit()


@pytest.mark.parametrize("mode", ["queue", "stream"])
@pytest.mark.parametrize("ending", ["restart", "kill"])
async def test_members_keep_their_partitions_over_a_restart_of_the_broker(
    machine: Machine, autojump_clock: MockClock, mode: str, ending: str
) -> None:
    """G10: they are back within 5 s, and nothing moves."""
    heard: list[Any] = []
    callbacks = {"on_assigned": heard.append, "on_revoked": heard.append} if mode == "stream" else {}
    async with machine.both() as client, machine.client() as other:
        await client.create_topic("orders", partitions=4)
        joining: dict[str, Any] = {"group": "audit", "mode": mode, **callbacks}
        async with client.consumer("orders", **joining), other.consumer("orders", **joining):
            await trio.sleep(5)
            before = await assignments(client)
            heard.clear()
            assert sorted(map(len, before.values())) == [2, 2]
            await (machine.stop() if ending == "restart" else machine.kill())
            await machine.start()
            await trio.sleep(10)
            assert await assignments(client) == before
            assert heard == []


async def assignments(client: goqueue.Client) -> dict[str, list[tuple[str, int]]]:
    members = (await client.group("audit")).members
    return {member.member_id: sorted(member.assignment) for member in members}

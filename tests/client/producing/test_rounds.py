"""Which messages leave together: seen by the batches that a producer hands to its connection."""

from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import goqueue
from goqueue.client.link.link import Link
from goqueue.client.link.share import OnAnswer
from goqueue.core.sending.queue import LINGER_SECONDS
from goqueue.net.wire.messages import Produce
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

PARTITIONS = 3


@dataclass
class Watched:
    """What left, as (partition, messages), since it was last looked at; answers are kept back on demand.

    Partitions are counted from the one at which the producer began.
    """

    first: int | None = None
    left: list[tuple[int, int]] = field(default_factory=list)
    kept: list[tuple[OnAnswer, object]] = field(default_factory=list)
    keeps_answers: bool = False
    has_kept: trio.Event = field(default_factory=trio.Event)

    def look(self) -> list[tuple[int, int]]:
        left, self.left = self.left, []
        return left

    async def let_go(self) -> None:
        """Of at least one."""
        await self.has_kept.wait()
        self.keeps_answers = False
        kept, self.kept = self.kept, []
        for on_answer, answer in kept:
            on_answer(answer)  # type: ignore[arg-type]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    watched, post_batch = Watched(), Link.post_batch

    def post_and_watch(self: Link, request: Produce, on_answer: OnAnswer) -> None:
        [batch] = request.batches
        watched.first = batch.partition if watched.first is None else watched.first
        watched.left.append(((batch.partition - watched.first) % PARTITIONS, batch.record_count))

        def hear(answer: object) -> None:
            if watched.keeps_answers:
                watched.kept.append((on_answer, answer))
                watched.has_kept.set()
            else:
                on_answer(answer)  # type: ignore[arg-type]

        post_batch(self, request, hear)

    monkeypatch.setattr(Link, "post_batch", post_and_watch)
    return watched


async def send_at_once(producer: goqueue.Producer, count: int) -> None:
    """Each from a task of its own, all in one turn of the event loop."""
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(partial(producer.send, b"v"))


async def test_messages_without_a_key_gather_while_one_is_awaited_though_other_partitions_are_free(
    machine: Machine, watched: Watched, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.producer("orders") as producer:
            await send_at_once(producer, 10)
    assert watched.look() == [(0, 1), (1, 9)]


async def test_who_sends_one_after_the_other_goes_round_the_partitions_without_waiting(
    machine: Machine, watched: Watched, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.producer("orders") as producer:
            for expected in (0, 1, 2, 0):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(producer.send, b"v")
                    await wait_all_tasks_blocked()
                    assert watched.look() == [(expected, 1)]


async def test_after_messages_that_came_together_the_next_burst_leaves_as_one_batch(
    machine: Machine, watched: Watched, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.producer("orders") as producer:
            await send_at_once(producer, 10)
            watched.look()
            await send_at_once(producer, 10)
            assert watched.look() == [(2, 10)]
            await producer.send(b"alone")
            await producer.send(b"alone")
    assert watched.look() == [(0, 1), (1, 1)]


async def test_what_gathered_for_several_partitions_leaves_together(
    machine: Machine, watched: Watched, autojump_clock: MockClock
) -> None:
    """None of them waits for the answer to another."""
    keys = [b"%d" % number for number in range(20)]
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.producer("orders", linger_ms=60_000) as producer, trio.open_nursery() as nursery:
            watched.keeps_answers = True
            nursery.start_soon(producer.send, b"first")
            await wait_all_tasks_blocked()
            for key in keys:
                nursery.start_soon(partial(producer.send, b"v", key=key))
            await wait_all_tasks_blocked()
            assert watched.look() == [(0, 1)]
            await watched.let_go()
            left = dict(watched.look())
    assert left.keys() == {0, 1, 2}
    assert sum(left.values()) == len(keys)


async def test_nobody_waits_longer_than_it_lingers_for_an_answer_that_does_not_come(
    machine: Machine, watched: Watched, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.producer("orders") as producer, trio.open_nursery() as nursery:
            watched.keeps_answers = True
            nursery.start_soon(producer.send, b"first")
            await wait_all_tasks_blocked()
            nursery.start_soon(producer.send, b"second")
            await trio.sleep(LINGER_SECONDS / 2)
            assert watched.look() == [(0, 1)]
            await trio.sleep(LINGER_SECONDS)
            assert watched.look() == [(1, 1)]
            await watched.let_go()


@pytest.mark.parametrize("messages", [1, 200])
async def test_64_kib_wait_for_nothing(
    messages: int, machine: Machine, watched: Watched, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.producer("orders", linger_ms=60_000) as producer, trio.open_nursery() as nursery:
            watched.keeps_answers = True
            nursery.start_soon(producer.send, b"first")
            await wait_all_tasks_blocked()
            nursery.start_soon(producer.send_many, [bytes(64 * 1024 // messages)] * messages)
            await wait_all_tasks_blocked()
            assert watched.look() == [(0, 1), (1, messages)]
            await watched.let_go()


async def test_without_linger_nothing_waits_for_answers(
    machine: Machine, watched: Watched, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.producer("orders", linger_ms=0) as producer:
            await send_at_once(producer, 3)
    assert watched.look() == [(0, 1), (1, 1), (2, 1)]


async def test_who_waits_for_room_has_it_before_those_who_have_just_been_answered(
    machine: Machine, watched: Watched, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more busy partitions than places, some waited for as long as the others were busy."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        assert client.link is not None
        monkeypatch.setattr(client.link._batches, "requests_max", 1)
        async with client.producer("orders", linger_ms=0) as producer:
            for partition in (0, 1, 2, 0, 2, 1):
                producer.send_nowait(b"v", partition=partition)
    assert watched.look() == [(0, 1), (1, 2), (2, 2), (0, 1)]


async def test_a_connection_lost_before_the_end_of_a_turn_loses_nothing(
    machine: Machine, watched: Watched, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer was busy and never came to it; the next connection's does."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        async with client.producer("orders") as producer:
            await send_at_once(producer, 10)
            async with trio.open_nursery() as nursery:
                with monkeypatch.context() as lost:
                    lost.setattr(Link, "at_end_of_turn", lambda *_: None)
                    nursery.start_soon(send_at_once, producer, 10)
                    await wait_all_tasks_blocked()
                for connection in machine.network.live():
                    connection.cut()
            with trio.fail_after(0.5):
                await send_at_once(producer, 10)
        found = [message.value async for message in client.read("orders", end="latest")]
    assert len(found) == 30

"""How long one call waits for its confirmation, and what may be said of its message afterwards."""

import math
from datetime import timedelta

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.link.link import Link
from goqueue.client.link.share import OnAnswer
from goqueue.errors import DeliveryUnknown
from goqueue.net.wire.messages import Produce
from tests.client.producing.test_sender import run_broker
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

FULL = {"max_messages": 1, "overflow": "reject"}


async def values(client: goqueue.Client) -> list[bytes]:
    return [message.value async for message in client.read("orders", end="latest")]


@pytest.mark.parametrize("timeout", [2, 45.0, timedelta(seconds=2), timedelta(minutes=5)])
async def test_a_publish_to_a_broker_that_is_away_ends_in_time_and_is_not_written_later(
    machine: Machine, autojump_clock: MockClock, timeout: float | timedelta
) -> None:
    async with machine.client() as client:
        async with machine.broker():
            await client.create_topic("orders", partitions=1)
            await client.publish("orders", b"before", timeout=timeout)
        begin = trio.current_time()
        with pytest.raises(goqueue.DeliveryTimeout, match="not written, send it again"):
            await client.publish("orders", b"late", timeout=timeout)
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        assert trio.current_time() - begin == pytest.approx(seconds, abs=0.01)
        async with machine.broker():
            await client.publish("orders", b"after")
            assert await values(client) == [b"before", b"after"]


async def test_a_first_publish_ends_in_time_though_its_topic_is_not_known_yet(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.client() as client:
        begin = trio.current_time()
        with pytest.raises(goqueue.DeliveryTimeout, match="not sent within 3 s"):
            await client.publish("orders", b"late", timeout=3)
        assert trio.current_time() - begin == pytest.approx(3)


async def test_a_message_that_is_refused_for_now_is_given_up_alone(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1, config=FULL)
        async with client.producer("orders") as producer:
            await producer.send(b"fits")
            with pytest.raises(goqueue.DeliveryTimeout) as late:
                await producer.send(b"does not", timeout=2)
            assert late.value.last_error == "topic_full"
            await client.alter_topic("orders", {"max_messages": None})
            assert (await producer.send(b"next", timeout=2)).offset == 1
        assert await values(client) == [b"fits", b"next"]


async def test_of_a_message_without_an_answer_nothing_is_claimed(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    post_batch = Link.post_batch

    def post_and_lose_the_answer(self: Link, request: Produce, _: OnAnswer) -> None:
        post_batch(self, request, lambda _: None)

    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            monkeypatch.setattr(Link, "post_batch", post_and_lose_the_answer)
            with pytest.raises(DeliveryUnknown):
                await producer.send(b"unknown", timeout=1)
            with pytest.raises(goqueue.PublishFailed) as failed:
                await producer.send_many([b"a", b"b"], timeout=1)
            assert {type(each) for each in failed.value.results} == {DeliveryUnknown}
            monkeypatch.undo()
            assert (await producer.send(b"next", timeout=1)).offset == 3
        assert await values(client) == [b"unknown", b"a", b"b", b"next"]


async def test_a_message_that_waits_for_room_ends_in_time(machine: Machine, autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery, machine.client() as client:
        broker: trio.CancelScope = await nursery.start(run_broker, machine)
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders", buffer_messages=1) as producer:
            broker.cancel()
            await trio.sleep(1)
            producer.send_nowait(b"first")
            begin = trio.current_time()
            with pytest.raises(goqueue.DeliveryTimeout, match="not confirmed within 2 s; it was not written"):
                await producer.send(b"no room", timeout=2)
            assert trio.current_time() - begin == pytest.approx(2)
            broker = await nursery.start(run_broker, machine)
        assert await values(client) == [b"first"]
        broker.cancel()


async def test_others_of_the_same_batch_are_confirmed_though_one_gave_up(
    machine: Machine, autojump_clock: MockClock
) -> None:
    outcomes: dict[bytes, object] = {}

    async def send(producer: goqueue.Producer, value: bytes, timeout: float | None) -> None:
        try:
            outcomes[value] = (await producer.send(value, timeout=timeout)).offset
        except goqueue.GoQueueError as error:
            outcomes[value] = type(error)

    async with trio.open_nursery() as nursery, machine.client() as client:
        broker: trio.CancelScope = await nursery.start(run_broker, machine)
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            broker.cancel()
            await trio.sleep(1)
            for value, timeout in ((b"a", None), (b"b", 1.0), (b"c", 30.0)):
                nursery.start_soon(send, producer, value, timeout)
                await trio.sleep(0.1)
            await trio.sleep(5)
            broker = await nursery.start(run_broker, machine)
        assert outcomes == {b"a": 0, b"b": goqueue.DeliveryTimeout, b"c": 1}
        assert await values(client) == [b"a", b"c"]
        broker.cancel()


@pytest.mark.parametrize(
    "timeout", [0, -1, math.nan, math.inf, 1e9, True, "5", timedelta(seconds=-1), timedelta(days=2)], ids=str
)
async def test_a_time_limit_that_is_none_is_refused_by_name(
    machine: Machine, autojump_clock: MockClock, timeout: float
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders") as producer:
            for call in (
                client.publish("orders", b"v", timeout=timeout),
                client.publish_json("orders", {}, timeout=timeout),
                producer.send(b"v", timeout=timeout),
                producer.send_many([b"v"], timeout=timeout),
            ):
                with pytest.raises(goqueue.InvalidConfig, match="timeout="):
                    await call
        assert await values(client) == []

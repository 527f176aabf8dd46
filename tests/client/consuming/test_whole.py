"""A delivery of many runs is acked as a whole, and named where the broker knows it otherwise."""

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.client.link.link import Link
from goqueue.client.link.share import OnAnswer
from goqueue.net.wire.groups import Settle, Settled, SettledDelivery
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

COUNT = 12


async def scattered(client: goqueue.Client, consumer: goqueue.Consumer) -> list[goqueue.DeliveredMessage]:
    """Six messages that are no neighbours, in one delivery: the others were acked."""
    async with client.producer("orders") as producer:
        await producer.send_many([b"%d" % number for number in range(COUNT)])
    messages = await consumer.receive(timeout=5)
    assert len(messages) == COUNT
    await consumer.ack(messages[::2])
    await consumer.nack(messages[1::2], delay=0)
    again = await consumer.receive(timeout=5)
    assert [message.offset for message in again] == list(range(1, COUNT, 2))
    return again


@pytest.fixture
def settles(monkeypatch: pytest.MonkeyPatch) -> list[Settle]:
    """What the client says."""
    said, call, post = list[Settle](), goqueue.Client.call, Link.post_settlement

    async def noting(client: goqueue.Client, request: object, kind: type[object]) -> object:
        if isinstance(request, Settle):
            said.append(request)
        return await call(client, request, kind)  # type: ignore[arg-type]

    def noting_posted(link: Link, request: Settle, on_answer: OnAnswer, *, at_once: bool = False) -> None:
        said.append(request)
        post(link, request, on_answer, at_once=at_once)

    monkeypatch.setattr(goqueue.Client, "call", noting)
    monkeypatch.setattr(Link, "post_settlement", noting_posted)
    return said


async def test_all_of_it_is_acked_without_naming_it(
    machine: Machine, settles: list[Settle], autojump_clock: MockClock
) -> None:
    """G5, G6"""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.consumer("orders", group="billing") as consumer:
            again = await scattered(client, consumer)
            await consumer.ack(again)
            [delivery] = settles[-1].deliveries
            assert (delivery.runs, delivery.whole) == ((), COUNT // 2)
            repeated = await client.call(settles[-1], Settled)  # as after a lost answer
            assert repeated.deliveries == (SettledDelivery(None),)
        assert (await client.group("billing")).lag == 0


async def test_when_some_of_it_was_acked_before_the_rest_is(
    machine: Machine, settles: list[Settle], autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.consumer("orders", group="billing") as consumer:
            again = await scattered(client, consumer)
            await again[2].ack()
            await consumer.ack(again)
            assert [each.deliveries[0].whole for each in settles[-2:]] == [COUNT // 2, 0]
        assert (await client.group("billing")).lag == 0


async def test_when_its_lease_has_ended_each_receipt_is_named_and_nothing_is_acked(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G6"""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.consumer("orders", group="billing", visibility_timeout=3) as consumer:
            again = await scattered(client, consumer)
            await trio.sleep(4)
            with pytest.raises(goqueue.StaleReceipt) as refused:
                await consumer.ack(again)
            assert refused.value.receipts == [message.receipt for message in again]
        assert (await client.group("billing")).lag == COUNT // 2

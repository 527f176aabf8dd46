"""Why messages do not get through: in the error, in the client's log, and in the broker's."""

import logging
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from goqueue.errors import DeliveryTimeout, PublishFailed
from tests.client.test_client import Machine, machine

__all__ = ["machine"]

FULL = {"max_messages": 1, "overflow": "reject"}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "goqueue"):
        yield caplog


def said(lines: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [record.getMessage() for record in lines.records if record.name == logger]


async def test_a_message_that_was_refused_to_the_end_says_why(
    machine: Machine, autojump_clock: MockClock, lines: pytest.LogCaptureFixture
) -> None:
    """In the error and in both logs; and the broker counts it by its code."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1, config=FULL)
        await client.publish("orders", b"fits")
        begin = trio.current_time()
        with pytest.raises(DeliveryTimeout, match=r"the last refusal: .*topic_full") as late:
            await client.publish("orders", b"does not", timeout=120)
        assert trio.current_time() - begin == pytest.approx(120, abs=1)
        assert late.value.last_error == "topic_full"
        assert late.value.reason is not None
        assert late.value.reason in late.value.message
        told = said(lines, "goqueue.producer")
        assert len(told) == 7  # at once, and after 1, 3, 7, 15, 31 and 63 s
        assert told[0].startswith("orders/0 has refused messages for 0.0 s")
        assert told[0].endswith("(topic_full)")
        broker = said(lines, "goqueue.refusals")
        assert broker[0].startswith("topic orders refuses batches: ")
        assert 2 <= len(broker) <= 4
        assert " topic_full; the last: " in broker[1]
        assert (await client.stats())["refused.topic_full"] > 100


async def test_a_full_disk_is_named_by_send_many_and_flush(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        machine.disk.capacity -= machine.disk.space("/").free
        async with client.producer("orders", delivery_timeout=3) as producer:
            with pytest.raises(PublishFailed, match="disk_full") as failed:
                await producer.send_many([b"a", b"b"])
            assert [each.last_error for each in failed.value.results] == ["disk_full"] * 2  # type: ignore[attr-defined]
            producer.send_nowait(b"c")
            with pytest.raises(PublishFailed, match="disk_full"):
                await producer.flush()


async def test_a_broker_that_cannot_be_reached_is_named(
    machine: Machine, autojump_clock: MockClock, lines: pytest.LogCaptureFixture
) -> None:
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1)
        async with client.producer("orders", delivery_timeout=10) as producer:
            await producer.send(b"before")
            await machine.stop()
            with pytest.raises(DeliveryTimeout, match="cannot be reached") as late:
                await producer.send(b"late")
            assert late.value.last_error == "unavailable"
            told = said(lines, "goqueue.producer")
            assert 3 <= len(told) <= 4
            assert all("messages to orders have waited for the broker" in line for line in told)
            await machine.start()
            await producer.send(b"after")

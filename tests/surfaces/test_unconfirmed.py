"""Acks that are not waited for, from threads and from asyncio."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import goqueue
from goqueue import aio, blocking
from tests.surfaces.test_consumers import COUNT, fill

VISIBILITY = 0.3


def test_a_loop_acks_without_waiting_and_closing_waits_for_all(client: blocking.Client) -> None:
    values, found = fill(client), list[bytes | None]()
    with client.consumer("orders", group="billing", confirm_acks=False) as consumer:
        for message in consumer:
            found.append(message.value)
            message.ack()
            if len(found) == COUNT:
                break
    assert found == values
    assert client.group("billing").lag == 0


def test_many_threads_ack_without_waiting(client: blocking.Client) -> None:
    fill(client)
    with client.consumer("orders", group="billing") as consumer:
        messages = [*consumer.receive(timeout=10)]
        assert len(messages) == COUNT
        threads = [
            threading.Thread(target=lambda some: [each.ack(wait=False) for each in some], args=(messages[n::4],))
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert client.group("billing").lag == 0


def wait_for_end_of_lease(client: blocking.Client) -> None:
    """The message comes again to somebody else."""
    with client.consumer("orders", group="billing", shared=True) as other:
        [message] = other.receive(timeout=10)
        message.ack()


@pytest.mark.parametrize("hears", ["at the end", "by a callback"])
def test_an_ack_that_is_too_late_is_told(client: blocking.Client, hears: str) -> None:
    heard = list[Exception]()
    on_ack_error: Callable[[Any], object] | None = heard.append if hears == "by a callback" else None
    fill(client, 1)

    def ack_too_late() -> None:
        with client.consumer(
            "orders",
            group="billing",
            shared=True,
            confirm_acks=False,
            visibility_timeout=VISIBILITY,
            on_ack_error=on_ack_error,
        ) as consumer:
            [message] = consumer.receive(timeout=10)
            wait_for_end_of_lease(client)
            message.ack()

    if on_ack_error is None:
        with pytest.raises(goqueue.StaleReceipt):
            ack_too_late()
    else:
        ack_too_late()
        assert [type(error) for error in heard] == [goqueue.StaleReceipt]


def test_what_cannot_be_acked_is_refused_where_it_is_said(client: blocking.Client) -> None:
    fill(client, 1)
    with client.consumer("orders", group="billing", confirm_acks=False) as consumer:
        with pytest.raises(goqueue.InvalidMessage):
            consumer.ack([b"no message"])  # type: ignore[list-item]
        [message] = consumer.receive(timeout=10)
    with pytest.raises(goqueue.Closed):
        message.ack()


def test_asyncio_acks_without_waiting(client: blocking.Client, address: str) -> None:
    fill(client)

    async def consume() -> int:
        count = 0
        async with (
            aio.connect(address) as other,
            other.consumer("orders", group="billing", confirm_acks=False) as consumer,
        ):
            async for message in consumer:
                await message.ack()
                count += 1
                if count == COUNT:
                    break
        return count

    assert asyncio.run(consume()) == COUNT
    assert client.group("billing").lag == 0

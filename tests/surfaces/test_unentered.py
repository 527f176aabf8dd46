"""What is used before it is entered, or entered by the wrong kind of `with`, says how to enter it."""

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import trio

import goqueue
from goqueue import Closed, aio, blocking

NOWHERE = "ws://127.0.0.1:1"
BLOCKS = {
    goqueue: "async with goqueue.connect() as client",
    aio: "async with goqueue.aio.connect() as client",
    blocking: "with goqueue.blocking.connect() as client",
}


@pytest.mark.parametrize(("surface", "block"), BLOCKS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_a_client_that_was_not_entered_names_its_block(surface: ModuleType, block: str) -> None:
    with pytest.raises(AttributeError) as told:
        surface.connect(NOWHERE).publish("orders", b"tea")
    assert f"`{block}` gives one" in str(told.value)
    assert not hasattr(surface.connect(NOWHERE), "topics")


@pytest.mark.parametrize("surface", [goqueue, aio], ids=lambda each: each.__name__)
def test_with_in_place_of_async_with_names_both_ways(surface: Any) -> None:
    words = r"`async with goqueue\.(aio\.)?connect.*goqueue\.blocking\.connect"
    with pytest.raises(TypeError, match=words), surface.connect(NOWHERE):
        pass


def test_async_with_in_place_of_with_names_both_ways() -> None:
    async def program() -> None:
        surface: Any = blocking
        async with surface.connect(NOWHERE):
            pass

    with pytest.raises(TypeError, match=r"`with goqueue\.blocking\.connect.*asyncio has goqueue\.aio\.connect"):
        trio.run(program)


MAKE: list[Callable[[Any], Any]] = [
    lambda client: client.producer("orders").send(b"tea"),
    lambda client: client.producer("orders").flush(),
    lambda client: client.consumer("orders", group="kitchen").receive(timeout=1),
]


@pytest.mark.parametrize("use", MAKE)
def test_threads_hear_that_a_producer_or_a_consumer_is_not_open_yet(
    client: blocking.Client, use: Callable[[Any], Any]
) -> None:
    with pytest.raises(Closed, match=r"is not open yet; enter it by `with`"):
        use(client)


@pytest.mark.parametrize("use", MAKE)
def test_tasks_hear_that_a_producer_or_a_consumer_is_not_open_yet(address: str, use: Callable[[Any], Any]) -> None:
    async def program() -> None:
        async with aio.connect(address) as client:
            await use(client)

    with pytest.raises(Closed, match=r"is not open yet; .*`async with`"):
        asyncio.run(program())


def test_what_was_left_is_closed_and_not_yet_to_open(client: blocking.Client) -> None:
    with client.producer("orders") as producer:
        pass
    with pytest.raises(Closed, match="the producer is closed"):
        producer.send(b"tea")

"""A call with wrong arguments raises `TypeError` on every surface, and the client goes on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import goqueue.testing
from goqueue import aio, blocking

WRONG: dict[str, Callable[[Any], Any]] = {
    "an option that does not exist": lambda client: client.publish("orders", b"v", bogus=1),
    "an argument too few": lambda client: client.publish("orders"),
    "an argument too many": lambda client: client.topics(3),
    "a producer's option that does not exist": lambda client: client.producer("orders", bogus=1),
    "a consumer's option that does not exist": lambda client: client.consumer("orders", group="g", bogus=1),
    "a consumer without a group": lambda client: client.consumer("orders"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_threads_hear_of_wrong_arguments_and_go_on(wrong: Callable[[Any], Any]) -> None:
    with goqueue.testing.loopback_broker() as address, blocking.connect(address) as client:
        client.create_topic("orders")
        with pytest.raises(TypeError):
            wrong(client)
        assert client.publish("orders", b"v", partition=0).offset == 0


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_tasks_hear_of_wrong_arguments_and_go_on(wrong: Callable[[Any], Any]) -> None:
    async def program(address: str) -> None:
        async with aio.connect(address) as client:
            await client.create_topic("orders")
            with pytest.raises(TypeError):
                await wrong(client)
            assert (await client.publish("orders", b"v", partition=0)).offset == 0

    with goqueue.testing.loopback_broker() as address:
        asyncio.run(program(address))

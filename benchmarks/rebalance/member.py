"""A consumer in a process of its own, which notes all that it receives and can be killed at any time.

    python -m benchmarks.rebalance.member URL FILE

It says `ready` when everything is loaded. A line of JSON, the arguments of `client.consumer`, lets it join, and it
says `joined` once it is a member; at the next line it leaves in good order and says `left`. It ends with whoever
tells it what to do.
"""

import gc
import json
import os
import sys
import time
from typing import Any

import trio

import goqueue
from benchmarks.rebalance.receipts import note

READ_SIZE = 4_096


class Orders:
    """Lines from standard input; an empty one at its end."""

    def __init__(self) -> None:
        self._input = trio.lowlevel.FdStream(os.dup(0))
        self._heard = b""

    async def next(self) -> str:
        while b"\n" not in self._heard:
            more = await self._input.receive_some(READ_SIZE)
            if not more:
                return ""
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()


def say(word: str) -> None:
    print(word, flush=True)


async def obey(url: str, path: str) -> None:
    orders, file = Orders(), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    gc.freeze()  # what is loaded is not looked at again in the middle of the run
    say("ready")
    while order := await orders.next():
        await take_part(url, file, orders, json.loads(order))
        say("left")


async def take_part(url: str, file: int, orders: Orders, options: dict[str, Any]) -> None:
    async with (
        goqueue.connect(url) as client,
        client.consumer(**options) as consumer,
        trio.open_nursery() as nursery,
    ):
        say("joined")
        consuming = trio.CancelScope()
        nursery.start_soon(consume, consumer, file, options["mode"], consuming)
        await orders.next()
        consuming.cancel()


async def consume(consumer: goqueue.Consumer, file: int, mode: str, until: trio.CancelScope) -> None:
    """What was received is settled, also by one that is about to leave."""
    with until:
        while True:
            messages = await consumer.receive()
            note(file, time.monotonic(), messages)
            if mode == "queue":
                with trio.CancelScope(shield=True):
                    await consumer.ack(messages)


if __name__ == "__main__":
    address, notes = sys.argv[1:]
    trio.run(obey, address, notes)

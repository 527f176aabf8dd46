"""A process that consumes, says what it was handed and what it has acked, and can be killed at any time.

    python -m tests.process.consumer URL TOPIC GROUP VISIBILITY [hold]

It says `handed OFFSET ATTEMPT COUNT` for each message, COUNT being how many came at once, and `acked OFFSET` once
the ack was answered. With `hold` it settles nothing. A message with the value `poison` kills it. It dies with
whoever listens to it.
"""

import os
import signal
import sys

import trio

import goqueue
from tests.process.appender import say

POISON = b"poison"


async def consume(url: str, topic: str, group: str, visibility: float, *, holds: bool) -> None:
    async with (
        goqueue.connect(url) as client,
        client.consumer(topic, group=group, shared=True, visibility_timeout=visibility) as consumer,
    ):
        while True:
            messages = await consumer.receive(max_messages=100)
            for message in messages:
                say("handed", message.offset, message.attempt, len(messages))
            for message in () if holds else messages:
                if message.value == POISON:
                    os.kill(os.getpid(), signal.SIGKILL)
                await message.ack()
                say("acked", message.offset)


if __name__ == "__main__":
    address, name, in_group, seconds, *habit = sys.argv[1:]
    trio.run(lambda: consume(address, name, in_group, float(seconds), holds=habit == ["hold"]))

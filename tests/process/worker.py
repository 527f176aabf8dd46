"""A worker process, which says what its handler was given, and kills itself in the middle of the message `poison`.

    python -m tests.process.worker URL TOPIC GROUP CONCURRENCY VISIBILITY

It says `handled VALUE ATTEMPT` when the handler begins. It dies with whoever listens to it.
"""

import os
import signal
import sys

import trio

import goqueue
from tests.process.appender import say

FAST_SECONDS = 0.005


async def handle(message: goqueue.DeliveredMessage) -> None:
    say("handled", message.value.decode(), message.attempt)
    if message.value == b"poison" and message.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    await trio.sleep(FAST_SECONDS)


if __name__ == "__main__":
    url, topic, group, concurrency, visibility = sys.argv[1:]
    trio.run(
        goqueue.Worker(
            topic, group, handle, url=url, concurrency=int(concurrency), visibility_timeout=float(visibility)
        ).run
    )

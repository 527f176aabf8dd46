"""What goes wrong between a member and its broker beside cut lines: answers are lost, and commits are held.

A generator of its own decides, so that the plans of a world are the same with and without it.
"""

from random import Random
from typing import Any

import trio

import goqueue
from goqueue.net.groupmessages import Settle
from goqueue.net.streammessages import CommitOffsets

LOST_ODDS = 0.15
"""Of answers to settlements, whatever their kind."""
HELD_ODDS, HELD_SECONDS = 0.2, (0.3, 2.0, 6.0)
"""Of commits on their way, which may take as long as partitions change hands."""


def burden(client: goqueue.Client, random: Random) -> None:
    call = client.call

    async def call_burdened(request: Any, kind: type[Any]) -> Any:
        if isinstance(request, Settle) and random.random() < LOST_ODDS:
            await call(request, kind)  # nobody hears the answer, so it is said again
        elif isinstance(request, CommitOffsets) and random.random() < HELD_ODDS:
            await trio.sleep(random.choice(HELD_SECONDS))
        return await call(request, kind)

    client.call = call_burdened  # type: ignore[method-assign]

"""What goes wrong between a member and its broker beside cut lines: answers are lost, requests are held.

A generator of its own decides, so that the plans of a world are the same with and without it.
"""

from random import Random
from typing import Any

import trio

import goqueue
from goqueue.core.ledger.settlements import Action
from goqueue.net.wire.groups import AskOffsets, CommitOffsets, Settle

LOST_ODDS = 0.25
"""Of answers to nacks, rejects and releases. Acks are said twice by some members anyway."""
HELD_SECONDS = (0.3, 1.0, 2.0)


def burden(client: goqueue.Client, random: Random, held_odds: float = 0.0) -> None:
    """`held_odds`: of commits of streams, and of questions where to go on, while partitions change hands."""
    call = client.call

    async def call_burdened(request: Any, kind: type[Any]) -> Any:
        if isinstance(request, Settle) and _is_no_ack(request) and random.random() < LOST_ODDS:
            await call(request, kind)  # nobody hears the answer, so it is said again
        elif held_odds and isinstance(request, CommitOffsets | AskOffsets) and random.random() < held_odds:
            await trio.sleep(random.choice(HELD_SECONDS))
        return await call(request, kind)

    client.call = call_burdened  # type: ignore[method-assign]


def _is_no_ack(request: Settle) -> bool:
    return any(each.action in (Action.NACK, Action.REJECT, Action.RELEASE) for each in request.deliveries)

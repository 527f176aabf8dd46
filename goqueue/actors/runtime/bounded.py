"""Asking those who may not answer."""

from collections.abc import Awaitable, Callable, Sequence

import trio

from goqueue.actors.runtime.messages import ReplyT, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.sidebyside import ItemT, side_by_side
from goqueue.errors import Unavailable

WIDTH = 64
"""So many are spoken to at a time; most wait for the disk."""


async def call_within(seconds: float, ref: ActorRef, message: Request[ReplyT]) -> ReplyT:
    """As `ref.call`, or `Unavailable` once the time is up; what was asked may then still be done."""
    with trio.move_on_after(seconds):
        return await ref.call(message)
    raise Unavailable(f"{ref.name} did not answer within {seconds:g} s; try again")


async def with_each(work: Callable[[ItemT], Awaitable[object]], items: Sequence[ItemT]) -> None:
    """Side by side, and for nothing when there are none."""
    if items:
        await side_by_side(work, items, min(WIDTH, len(items)))

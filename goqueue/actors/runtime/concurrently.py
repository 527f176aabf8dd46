"""Runs one task for many items, some at a time, and calls actors with a time limit."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import trio

from goqueue.actors.runtime.messages import ReplyT, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.errors import Unavailable
from goqueue.nursery import PlainNursery

ItemT = TypeVar("ItemT")


async def concurrently(work: Callable[[ItemT], Awaitable[object]], items: Iterable[ItemT], width: int) -> None:
    """Begin each in order, as soon as fewer than `width` are under way. An error ends all of them."""
    waiting = iter(list(items))

    async def take_turns() -> None:
        for item in waiting:
            await work(item)

    async with PlainNursery() as nursery:
        for _ in range(width):
            nursery.start_soon(take_turns)


WIDTH = 64
"""Maximum number of actors that are called at a time; most wait for the disk."""


async def call_within(seconds: float, ref: ActorRef, message: Request[ReplyT]) -> ReplyT:
    """As `ref.call`, or `Unavailable` once the time is up; the actor may still do what was asked."""
    with trio.move_on_after(seconds):
        return await ref.call(message)
    raise Unavailable(f"{ref.name} did not answer within {seconds:g} s; try again")


async def with_each(work: Callable[[ItemT], Awaitable[object]], items: Sequence[ItemT]) -> None:
    """Run `work` for all items concurrently. Without items it costs nothing."""
    if items:
        await concurrently(work, items, min(WIDTH, len(items)))

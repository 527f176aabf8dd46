"""Doing one thing to many, a few at a time."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from goqueue.nursery import PlainNursery

ItemT = TypeVar("ItemT")


async def side_by_side(work: Callable[[ItemT], Awaitable[object]], items: Iterable[ItemT], width: int) -> None:
    """Each is begun in its order, as soon as fewer than `width` are under way. An error ends all of it."""
    waiting = iter(list(items))

    async def take_turns() -> None:
        for item in waiting:
            await work(item)

    async with PlainNursery() as nursery:
        for _ in range(width):
            nursery.start_soon(take_turns)

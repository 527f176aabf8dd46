"""Commands that look again each second."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

WATCH_SECONDS = 1.0
LookT = TypeVar("LookT")


async def watching(look: Callable[[], Awaitable[LookT]], show: Callable[[LookT], None], count: int | None) -> None:
    """Look and show, once each second, however long a look takes."""
    begun, looks = trio.current_time(), 0
    while True:
        show(await look())
        looks += 1
        if looks == count:
            return
        await trio.sleep_until(max(trio.current_time(), begun + looks * WATCH_SECONDS))

"""Rounds in which the machine was ours.

On a shared machine the host takes the processor away now and then, for tens of milliseconds at a time. Whatever
should have happened then is late, and a p99 over three seconds is nothing else than the longest of these pauses.
The system counts them (steal), so a round in which more than half a percent of a processor was taken is made again,
four times as many rounds as are wanted at most. If there are too few calm ones, the calmest count. They are chosen
by that alone, whatever was measured in them.
"""

import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")

STOLEN_MAX = 0.005
TRIES_MAX = 4
_STEAL = 8
"""Its place in the first line of /proc/stat."""


def stolen_seconds() -> float:
    """Since the start of the system, of all processors together; 0 where it is not told."""
    try:
        with open("/proc/stat") as file:
            return int(file.readline().split()[_STEAL]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


async def calmest(
    rounds: int,
    measure: Callable[[], Awaitable[Result]],
    stolen: Callable[[], float] = stolen_seconds,
    clock: Callable[[], float] = time.monotonic,
) -> list[Result]:
    """What was found in so many rounds, the calmest that could be had."""
    found: list[tuple[float, Result]] = []
    while len(found) < TRIES_MAX * rounds and sum(share <= STOLEN_MAX for share, _ in found) < rounds:
        begun, before = clock(), stolen()
        result = await measure()
        found.append(((stolen() - before) / (clock() - begun), result))
    found.sort(key=lambda each: each[0])
    return [result for _, result in found[:rounds]]

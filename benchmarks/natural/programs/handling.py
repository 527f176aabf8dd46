"""What the handlers of all workers do: note the message, and before that perhaps count it in Redis."""

from collections.abc import Callable
from functools import cache
from typing import Any

from benchmarks.natural.notes import noting
from benchmarks.natural.task import Task, given_task
from benchmarks.peers.workload import check_count


def note(number: int) -> None:
    _noting()(number)


def count_one() -> None:
    _counter().incr(_key())


async def count_one_async() -> None:
    await _async_counter().incr(_key())


def check_counted(task: Task) -> None:
    if task.handler == "count":
        check_count(int(_counter().get(task.name) or 0), task.count, "counted in Redis")


@cache
def _noting() -> Callable[[int], None]:
    return noting(given_task())


@cache
def _key() -> str:
    return given_task().name


@cache
def _counter() -> Any:
    import redis  # noqa: PLC0415  # handlers that do nothing run without it

    return redis.Redis.from_url(given_task().addresses["counter"])


@cache
def _async_counter() -> Any:
    from redis import asyncio as redis  # noqa: PLC0415

    return redis.Redis.from_url(given_task().addresses["counter"])

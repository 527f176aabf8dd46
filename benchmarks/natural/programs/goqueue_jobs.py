"""Workers of goqueue on all three surfaces: jobs, handlers, and the programs that run them.

The worker on Trio is started by `goqueue work`, the others by a program of a few lines, which is this module.
"""

import asyncio
import sys

import goqueue
from benchmarks.natural.programs.handling import count_one, count_one_async, note
from benchmarks.natural.programs.on_blocking import fill, lag_of
from benchmarks.natural.task import Task, given_task
from goqueue import aio, blocking

NAME = "benchmarks.natural.programs.goqueue_jobs"


# Handlers


def nothing(message: blocking.DeliveredMessage) -> None:
    note(int(message.value))


def count(message: blocking.DeliveredMessage) -> None:
    count_one()
    note(int(message.value))


async def nothing_async(message: goqueue.DeliveredMessage) -> None:
    note(int(message.value))


async def count_async(message: goqueue.DeliveredMessage) -> None:
    await count_one_async()
    note(int(message.value))


# Workers


def enqueue_jobs(task: Task) -> None:
    with blocking.connect(task.addresses["goqueue"]) as client:
        client.create_topic(task.name, partitions=1)
        fill(client, task)


def work_in_threads(task: Task) -> None:
    handler = {"nothing": nothing, "count": count}[task.handler]
    blocking.worker(task.name, task.name, handler, concurrency=task.at_once, url=task.addresses["goqueue"])


def work_on_asyncio(task: Task) -> None:
    handler = {"nothing": nothing_async, "count": count_async}[task.handler]
    url = task.addresses["goqueue"]
    asyncio.run(aio.worker(task.name, task.name, handler, concurrency=task.at_once, url=url))


def worker_command(task: Task) -> list[str]:
    """As their users start them."""
    if task.surface != "trio":
        return [sys.executable, "-m", NAME]
    options = {"--topic": task.name, "--group": task.name, "--concurrency": str(task.at_once)}
    given = [part for option in options.items() for part in option]
    broker = ["--url", task.addresses["goqueue"]]
    return [sys.executable, "-m", "goqueue", "work", f"{NAME}:nothing_async", *given, *broker]


def jobs_left(task: Task) -> int:
    with blocking.connect(task.addresses["goqueue"]) as client:
        return lag_of(client, task)


def forget_jobs(task: Task) -> None:
    with blocking.connect(task.addresses["goqueue"]) as client:
        client.delete_group(task.name)
        client.delete_topic(task.name)


if __name__ == "__main__":
    started = given_task()
    {"threads": work_in_threads, "asyncio": work_on_asyncio}[started.surface](started)

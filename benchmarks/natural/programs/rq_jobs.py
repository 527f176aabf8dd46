"""RQ on Redis: `enqueue`, and a SimpleWorker, which has one slot. Its usual worker forks for each job."""

import sys
from functools import partial

import redis
from rq import Queue

from benchmarks.natural.meter import Meter
from benchmarks.natural.programs.handling import count_one, note
from benchmarks.natural.programs.threads import run_in_threads
from benchmarks.natural.task import Task, given_task
from benchmarks.peers.workload import check_count

WARM_UP = 20
TASK = given_task()
queue = Queue(TASK.name, connection=redis.Redis.from_url(TASK.addresses["redis"]))


def nothing(number: int) -> None:
    note(number)


def count(number: int) -> None:
    count_one()
    note(number)


# Enqueueing


def send(task: Task, meter: Meter) -> None:
    _warm_up()
    with meter.measuring():
        for value in meter.each(task.values()):
            queue.enqueue(nothing, value.decode())
    _check_and_forget(task)


def send_at_once(task: Task, meter: Meter) -> None:
    def send_each(values: list[bytes]) -> None:
        for value in meter.each(values):
            queue.enqueue(nothing, value.decode())

    _warm_up()
    run_in_threads([partial(send_each, share) for share in task.shares()], meter)
    _check_and_forget(task)


def _warm_up() -> None:
    for _ in range(WARM_UP):
        queue.enqueue(nothing, "warm")


def _check_and_forget(task: Task) -> None:
    check_count(jobs_left(task) - WARM_UP, task.count, "enqueued and there")
    forget_jobs(task)


# Workers


def enqueue_jobs(task: Task) -> None:
    handler = {"nothing": nothing, "count": count}[task.handler]
    for number in range(task.count):
        queue.enqueue(handler, number)


def worker_command(task: Task) -> list[str]:
    kind = ["--worker-class", "rq.SimpleWorker", "--url", task.addresses["redis"]]
    return [sys.executable, "-m", "rq.cli", "worker", *kind, task.name]


def jobs_left(_: Task) -> int:
    return int(queue.count) + int(queue.started_job_registry.count) + int(queue.failed_job_registry.count)


def forget_jobs(_: Task) -> None:
    queue.connection.flushdb()

"""Celery on Redis: `.delay`, and a worker with threads. Results are not kept; acks are early, as is usual."""

import sys
from functools import partial

import redis
from celery import Celery

from benchmarks.natural.meter import Meter
from benchmarks.natural.programs.handling import count_one, note
from benchmarks.natural.programs.threads import run_in_threads
from benchmarks.natural.task import Task, given_task
from benchmarks.peers.workload import check_count

WARM_UP = 20
TASK = given_task()
app = Celery("benchmark", broker=TASK.addresses["redis"])
app.conf.task_default_queue = TASK.name


@app.task(ignore_result=True)  # type: ignore[untyped-decorator]
def nothing(number: int) -> None:
    note(number)


@app.task(ignore_result=True)  # type: ignore[untyped-decorator]
def count(number: int) -> None:
    count_one()
    note(number)


# Enqueueing


def send(task: Task, meter: Meter) -> None:
    _warm_up()
    with meter.measuring():
        for value in meter.each(task.values()):
            nothing.delay(value.decode())
    _check_and_forget(task)


def send_at_once(task: Task, meter: Meter) -> None:
    def send_each(values: list[bytes]) -> None:
        for value in meter.each(values):
            nothing.delay(value.decode())

    _warm_up()
    run_in_threads([partial(send_each, share) for share in task.shares()], meter)
    _check_and_forget(task)


def _warm_up() -> None:
    for _ in range(WARM_UP):
        nothing.delay("warm")


def _check_and_forget(task: Task) -> None:
    check_count(jobs_left(task) - WARM_UP, task.count, "enqueued and there")
    forget_jobs(task)


# Workers


def enqueue_jobs(task: Task) -> None:
    handler = {"nothing": nothing, "count": count}[task.handler]
    for number in range(task.count):
        handler.delay(number)


def worker_command(task: Task) -> list[str]:
    slots = ["-P", "threads", "-c", str(task.at_once)]
    return [sys.executable, "-m", "celery", "-A", f"{__name__}:app", "worker", *slots]


def jobs_left(task: Task) -> int:
    """Those in the queue, and those that a worker has and has not acked."""
    client = redis.Redis.from_url(task.addresses["redis"])
    return int(client.llen(task.name)) + int(client.hlen("unacked"))


def forget_jobs(task: Task) -> None:
    redis.Redis.from_url(task.addresses["redis"]).delete(task.name, "unacked", "unacked_index")

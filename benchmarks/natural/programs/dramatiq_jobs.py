"""Dramatiq on Redis: `.send`, and a worker of one process with threads."""

import sys
from functools import partial

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.natural.meter import Meter
from benchmarks.natural.programs.handling import count_one, note
from benchmarks.natural.programs.threads import run_in_threads
from benchmarks.natural.task import Task, given_task
from benchmarks.peers.workload import check_count

WARM_UP = 20
TASK = given_task()
broker = RedisBroker(url=TASK.addresses["redis"])
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=TASK.name)  # type: ignore[untyped-decorator]
def nothing(number: int) -> None:
    note(number)


@dramatiq.actor(queue_name=TASK.name)  # type: ignore[untyped-decorator]
def count(number: int) -> None:
    count_one()
    note(number)


# Enqueueing


def send(task: Task, meter: Meter) -> None:
    _warm_up()
    with meter.measuring():
        for value in meter.each(task.values()):
            nothing.send(value.decode())
    _check_and_forget(task)


def send_at_once(task: Task, meter: Meter) -> None:
    def send_each(values: list[bytes]) -> None:
        for value in meter.each(values):
            nothing.send(value.decode())

    _warm_up()
    run_in_threads([partial(send_each, share) for share in task.shares()], meter)
    _check_and_forget(task)


def _warm_up() -> None:
    for _ in range(WARM_UP):
        nothing.send("warm")


def _check_and_forget(task: Task) -> None:
    check_count(jobs_left(task) - WARM_UP, task.count, "enqueued and there")
    forget_jobs(task)


# Workers


def enqueue_jobs(task: Task) -> None:
    actor = {"nothing": nothing, "count": count}[task.handler]
    for number in range(task.count):
        actor.send(number)


def worker_command(task: Task) -> list[str]:
    threads = str(task.at_once)
    return [sys.executable, "-m", "dramatiq", __name__, "--processes", "1", "--threads", threads]


def jobs_left(task: Task) -> int:
    """Dramatiq keeps the text of a job until it is acked."""
    return int(broker.client.hlen(f"dramatiq:{task.name}.msgs"))


def forget_jobs(task: Task) -> None:
    broker.flush(task.name)

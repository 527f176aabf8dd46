"""RabbitMQ through pika's blocking connection: a durable queue, persistent messages, confirms, an ack for each.

A connection of pika belongs to one thread, so publishing at once takes a connection for each thread.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pika

from benchmarks.natural.meter import Meter
from benchmarks.natural.programs.threads import run_in_threads
from benchmarks.natural.task import Task, check_found
from benchmarks.peers.workload import check_count

WARM_UP = 20
PREFETCH = 500
FILLED_SECONDS_MAX = 30.0
PERSISTENT = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent.value)


@contextmanager
def connected(task: Task) -> Iterator[Any]:
    with pika.BlockingConnection(pika.URLParameters(task.addresses["rabbitmq"])) as connection:
        yield connection.channel()


@contextmanager
def new_queue(task: Task) -> Iterator[Any]:
    with connected(task) as channel:
        channel.queue_declare(task.name, durable=True)
        yield channel
        channel.queue_delete(task.name)


def publish_each(channel: Any, queue: str, values: Iterator[bytes]) -> None:
    for value in values:
        channel.basic_publish("", queue, value, PERSISTENT)


def warm_up(channel: Any, task: Task) -> None:
    channel.confirm_delivery()
    for _ in range(WARM_UP):
        channel.basic_publish("", task.name, b"warm", PERSISTENT)


def messages_in(channel: Any, task: Task) -> int:
    return int(channel.queue_declare(task.name, passive=True).method.message_count)


# Publishing


def publish(task: Task, meter: Meter) -> None:
    with new_queue(task) as channel:
        warm_up(channel, task)
        with meter.measuring():
            publish_each(channel, task.name, meter.each(task.values()))
        check_count(messages_in(channel, task) - WARM_UP, task.count, "confirmed and there")


def publish_from_connections(task: Task, meter: Meter) -> None:
    """Each in a thread of its own."""
    with new_queue(task) as first, ExitStack() as stack:
        channels = [stack.enter_context(connected(task)) for _ in range(task.at_once)]
        for channel in channels:
            warm_up(channel, task)
        works = [
            partial(publish_each, channel, task.name, meter.each(share))
            for channel, share in zip(channels, task.shares(), strict=True)
        ]
        run_in_threads(works, meter)
        check_count(messages_in(first, task) - WARM_UP * task.at_once, task.count, "confirmed and there")


# Consuming


def ack_each(task: Task, meter: Meter) -> None:
    found: list[bytes] = []
    with new_queue(task) as channel:
        fill(channel, task)
        with meter.measuring():
            channel.basic_qos(prefetch_count=PREFETCH)
            for method, _, body in channel.consume(task.name):
                found.append(body)
                channel.basic_ack(method.delivery_tag)
                if len(found) == task.count:
                    break
            channel.cancel()
        check_found(found, task)
        check_count(messages_in(channel, task), 0, "left over")


def fill(channel: Any, task: Task) -> None:
    """Without confirms, and so it looks until all are there."""
    for value in task.values():
        channel.basic_publish("", task.name, value, PERSISTENT)
    deadline = time.monotonic() + FILLED_SECONDS_MAX
    while messages_in(channel, task) < task.count and time.monotonic() < deadline:
        time.sleep(0.05)
    check_count(messages_in(channel, task), task.count, "there")

"""goqueue without an event loop, as its page of the client shows it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.natural.meter import Meter
from benchmarks.natural.programs.on_trio import FLUSH_EACH, WARM_UP, options_of
from benchmarks.natural.programs.threads import run_in_threads
from benchmarks.natural.task import Task, check_found
from benchmarks.peers.workload import check_count
from goqueue import blocking


@contextmanager
def new_topic(task: Task) -> Iterator[blocking.Client]:
    with blocking.connect(task.addresses["goqueue"]) as client:
        client.create_topic(task.name, partitions=1)
        yield client
        client.delete_topic(task.name)


def check_published(client: blocking.Client, task: Task) -> None:
    [partition] = client.topic(task.name).partitions
    check_count(partition.end - WARM_UP, task.count, "published and there")


@contextmanager
def warm_producer(client: blocking.Client, task: Task) -> Iterator[blocking.Producer]:
    with client.producer(task.name, acks=task.acks) as producer:
        for _ in range(WARM_UP):
            producer.send(b"warm")
        yield producer


# Publishing


def send(task: Task, meter: Meter) -> None:
    with new_topic(task) as client:
        with warm_producer(client, task) as producer, meter.measuring():
            for value in meter.each(task.values()):
                producer.send(value)
        check_published(client, task)


def send_at_once(task: Task, meter: Meter) -> None:
    def send_each(values: list[bytes]) -> None:
        for value in meter.each(values):
            producer.send(value)

    with new_topic(task) as client:
        with warm_producer(client, task) as producer:
            run_in_threads([partial(send_each, share) for share in task.shares()], meter)
        check_published(client, task)


def send_nowait(task: Task, meter: Meter) -> None:
    with new_topic(task) as client:
        with warm_producer(client, task) as producer, meter.measuring():
            for number, value in enumerate(task.values(), start=1):
                producer.send_nowait(value)
                if number % FLUSH_EACH == 0:
                    producer.flush()
            producer.flush()
        check_published(client, task)


# Consuming


def ack_each(task: Task, meter: Meter) -> None:
    with new_topic(task) as client:
        fill(client, task)
        found = []
        with meter.measuring(), client.consumer(task.name, group=task.name, **options_of(task)) as consumer:
            for message in consumer:
                found.append(message.value)
                message.ack()
                if len(found) == task.count:
                    break
        check_found(found, task)
        check_acked(client, task)


def fill(client: blocking.Client, task: Task) -> None:
    with client.producer(task.name) as producer:
        producer.send_many(list(task.values()))


def check_acked(client: blocking.Client, task: Task) -> None:
    """Acks that nobody waited for may still be under way."""
    with blocking.fail_after(10):
        while lag_of(client, task):
            time.sleep(0.02)
    client.delete_group(task.name)


def lag_of(client: blocking.Client, task: Task) -> int:
    return sum(each.lag + each.in_flight for each in client.group(task.name).partitions)

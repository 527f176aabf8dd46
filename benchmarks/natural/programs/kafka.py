"""Kafka through confluent-kafka: `produce` and `flush` for each message, with the usual acks: of all replicas."""

from functools import partial
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.natural.meter import Meter
from benchmarks.natural.programs.threads import run_in_threads
from benchmarks.natural.task import Task
from benchmarks.peers.workload import Wrong, check_count

WARM_UP = 20
SECONDS_MAX = 30.0


def produce(task: Task, meter: Meter) -> None:
    producer = _warm_producer(task)
    with meter.measuring():
        for value in meter.each(task.values()):
            _produce_one(producer, task, value)
    _check_and_forget(task)


def produce_at_once(task: Task, meter: Meter) -> None:
    """All threads share one producer."""

    def produce_each(values: list[bytes]) -> None:
        for value in meter.each(values):
            _produce_one(producer, task, value)

    producer = _warm_producer(task)
    run_in_threads([partial(produce_each, share) for share in task.shares()], meter)
    _check_and_forget(task)


def _produce_one(producer: Any, task: Task, value: bytes) -> None:
    producer.produce(task.name, value, on_delivery=_refuse_failure)
    producer.flush()


def _refuse_failure(error: Any, _: Any) -> None:
    if error is not None:
        raise Wrong(f"a message was not confirmed: {error}")


def _warm_producer(task: Task) -> Any:
    admin = AdminClient(_config(task))  # while it is there, its futures are kept
    for future in admin.create_topics([NewTopic(task.name, 1, 1)]).values():
        future.result(SECONDS_MAX)
    producer = Producer(_config(task))
    for _ in range(WARM_UP):
        _produce_one(producer, task, b"warm")
    return producer


def _check_and_forget(task: Task) -> None:
    consumer = Consumer({**_config(task), "group.id": task.name})
    low, high = consumer.get_watermark_offsets(TopicPartition(task.name, 0), SECONDS_MAX)
    consumer.close()
    check_count(high - low - WARM_UP, task.count, "confirmed and there")
    admin = AdminClient(_config(task))
    for future in admin.delete_topics([task.name]).values():
        future.result(SECONDS_MAX)


def _config(task: Task) -> dict[str, str]:
    return {"bootstrap.servers": task.addresses["kafka"]}

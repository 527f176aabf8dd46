"""The sink: publishes the rows of a table.

Its columns are in columns.py; the option `topic` wins over a column of this name, as with Kafka's connector. Each
task publishes its rows and has them confirmed (fsynced) before it ends: at least once, as there. A task that is
repeated publishes its rows again. Exactly once needs transactions of the broker, which `Attempt` will identify.

Faults are raised before a task starts where possible: columns, options, the topic of the option, a missing broker.
A running stream waits for a broker no longer than its tasks do; see `_check_stream`.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from goqueue.errors import InvalidConfig, Unavailable
from goqueue.spark.connecting import CONNECT_SECONDS_MAX, connected, connected_in_task
from goqueue.spark.options import SinkOptions
from goqueue.spark.sink.columns import check_columns
from goqueue.spark.sink.publishing import publish_all
from goqueue.spark.worker import in_task

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's properties of a stream's task."""
STREAM_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """Identifies the writer of a row, for exactly once later."""

    application: str
    """The option, else Spark's query id, which outlives restarts."""
    batch_id: int
    """The option, else the stream's."""
    task: int
    """Spark's partition id."""
    attempt: int
    """Spark's attempt number: rises with every repeat of the task."""


@dataclass
class WrittenTask(WriterCommitMessage):
    """A task's report to the driver; `commit` and `abort` get one from each task that succeeded."""

    messages: int
    """The number of messages, all confirmed by the broker."""
    attempt: Attempt | None = None
    """None for a batch write without a name: its repeat cannot be recognised."""


class GoQueueWriter(DataSourceArrowWriter):
    """Created in a process beside the driver and pickled to every task and to its commit: it has no client."""

    def __init__(self, schema: StructType, options: SinkOptions, *, overwrite: bool) -> None:
        self._options = options
        if overwrite:
            raise InvalidConfig('a topic is not overwritten: rows are added to it; write with mode("append")')
        check_columns(schema, topic_is_given=options.topic is not None)
        _check_broker(options, CONNECT_SECONDS_MAX)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WrittenTask:
        """Runs in a task: publishes all rows, and returns once all are confirmed."""
        return _write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, once every task succeeded. Everything is published by then; transactions will end here."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when a task failed for good. Messages of other tasks stay, as with Kafka's connector."""


class GoQueueStreamWriter(DataSourceStreamArrowWriter):
    """As for a batch; its commit is called on a new instance, not on the one that was pickled to tasks.

    Spark passes `overwrite` for a query in complete mode: all rows of its result are published each time, as with
    Kafka's connector.
    """

    def __init__(self, schema: StructType, options: SinkOptions, *, overwrite: bool) -> None:  # noqa: ARG002
        self._options = options
        check_columns(schema, topic_is_given=options.topic is not None)
        _check_stream(options)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WrittenTask:
        return _write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's)
        """On the driver, once every task of this micro-batch succeeded."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, when a task failed for good."""


# Before any task starts


def _check_broker(options: SinkOptions, seconds_max: float) -> None:
    """Checks that the broker answers and has the topic of the option; topics of a column are checked row by row."""
    with connected(options.url, seconds_max=seconds_max) as client:
        if options.topic is not None:
            client.topic(options.topic)


def _check_stream(options: SinkOptions) -> None:
    """Called for each micro-batch, and once more when it is committed, where an error would have it written twice:
    so the tasks wait for a broker that is away for a moment, and report it.
    """
    with suppress(Unavailable):
        _check_broker(options, STREAM_LOOK_SECONDS)


# In a task


def _write(options: SinkOptions, batches: "Iterator[pa.RecordBatch]") -> WrittenTask:
    in_task()
    attempt = attempt_of(options)
    with connected_in_task(options.url) as client:
        return WrittenTask(publish_all(client, options.topic, batches), attempt)


def attempt_of(options: SinkOptions) -> Attempt | None:
    """The attempt of the current task."""
    context = TaskContext.get()
    assert context is not None, "a task has a context"
    application = options.application or context.getLocalProperty(QUERY_ID)
    batch_id = options.batch_id if options.batch_id is not None else context.getLocalProperty(BATCH_ID)
    if application is None or batch_id is None:
        return None
    return Attempt(application, int(batch_id), context.partitionId(), context.attemptNumber())

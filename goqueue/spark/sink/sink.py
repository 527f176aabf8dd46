"""A table that becomes messages.

Its columns are those of `sinkcolumns`; the option `topic` wins over a column of this name, as with Kafka's
connector. Each task publishes its rows and has them confirmed (fsynced) before it ends: at least once, as there. A
task that is repeated writes its rows again. Exactly once needs the broker's transactions, and `Attempt` is what
they will be known by.

What can be known before a task starts is told then: columns, options, the topic of the option, whether there is a
broker. A stream that is running waits for a broker no longer than its tasks do; see `_check_stream`.
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
"""What Spark tells a task of a stream."""
STREAM_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """By whom a row was written: the seam for exactly once."""

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
    """What a task tells the driver; `commit` and `abort` get one from each that ended well."""

    messages: int
    """Confirmed by the broker, every one."""
    attempt: Attempt | None = None
    """None of a batch write without a name: nobody could know its repeat."""


class GoQueueWriter(DataSourceArrowWriter):
    """Made in a process beside the driver and pickled to every task and to that of its commit: no client here."""

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
        """On the driver, once every task ended well. All is published by then; transactions will end here."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when a task failed for good. What others published stays, as with Kafka's connector."""


class GoQueueStreamWriter(DataSourceStreamArrowWriter):
    """As that of a batch; its commit is asked of one made anew, not of the one that was pickled to tasks.

    Spark says `overwrite` for a query in complete mode: all rows of its result are published each time, as with
    Kafka's connector.
    """

    def __init__(self, schema: StructType, options: SinkOptions, *, overwrite: bool) -> None:  # noqa: ARG002
        self._options = options
        check_columns(schema, topic_is_given=options.topic is not None)
        _check_stream(options)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WrittenTask:
        return _write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's)
        """On the driver, once every task of this micro-batch ended well."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, when a task failed for good."""


# Before any task starts


def _check_broker(options: SinkOptions, seconds_max: float) -> None:
    """Whether it answers and has the topic of the option; those of a column are each row's own business."""
    with connected(options.url, seconds_max=seconds_max) as client:
        if options.topic is not None:
            client.topic(options.topic)


def _check_stream(options: SinkOptions) -> None:
    """For each micro-batch, and once more when it is committed, where an error would have it written twice: so a
    broker that is away for a moment is for the tasks to wait for, and to tell of.
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
    """That of the task in which it is asked."""
    context = TaskContext.get()
    assert context is not None, "a task has a context"
    application = options.application or context.getLocalProperty(QUERY_ID)
    batch_id = options.batch_id if options.batch_id is not None else context.getLocalProperty(BATCH_ID)
    if application is None or batch_id is None:
        return None
    return Attempt(application, int(batch_id), context.partitionId(), context.attemptNumber())

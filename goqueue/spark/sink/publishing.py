"""Publishes the rows of one task: queued run by run, confirmed every few megabytes.

So the broker works while the next rows are read, and a task's memory is bounded however many rows it has: the
record batch from Spark, and its unconfirmed rows and those of earlier ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from goqueue import blocking
from goqueue.blocking.inside import send_all_nowait
from goqueue.core.names import check_publishable
from goqueue.errors import InvalidMessage, InvalidName, RowRefused, UnknownPartition, UnknownTopic
from goqueue.spark.sink.runs import SendRun, refused, runs_of

if TYPE_CHECKING:
    import pyarrow as pa

SLICE_BYTES = 2 << 20
UNCONFIRMED_BYTES_MAX, UNCONFIRMED_ROWS_MAX = 8 << 20, 50_000
THE_ROWS_FAULT = (InvalidMessage, InvalidName, UnknownPartition, UnknownTopic)


def publish_all(client: blocking.Client, topic: str | None, batches: "Iterable[pa.RecordBatch]") -> int:
    """Returns the number of messages published; all are confirmed. `topic` wins over the column."""
    with ExitStack() as producers:
        publishing = Publishing(client, topic, producers)
        for batch in batches:
            publishing.add(batch)
        publishing.confirm()
    return publishing.confirmed


class Publishing:
    def __init__(self, client: blocking.Client, topic: str | None, producers: ExitStack) -> None:
        self._client = client
        self._topic = topic
        self._open = producers
        self._producers: dict[str, blocking.Producer] = {}
        self._queued_rows = self._queued_bytes = 0
        self.confirmed = 0

    def add(self, batch: "pa.RecordBatch") -> None:
        """Queue all rows of a batch. `RowRefused` names the first that cannot be a message."""
        for part in _slices_of(batch):
            self._add_slice(part)
            if self._queued_bytes >= UNCONFIRMED_BYTES_MAX or self._queued_rows >= UNCONFIRMED_ROWS_MAX:
                self.confirm()

    def confirm(self) -> None:
        """Wait for all queued messages; `PublishFailed` if some failed."""
        for producer in self._producers.values():
            producer.flush()
        self.confirmed += self._queued_rows
        self._queued_rows = self._queued_bytes = 0

    def _add_slice(self, part: "pa.RecordBatch") -> None:
        before = self.confirmed + self._queued_rows
        by_topic: dict[str, list[SendRun]] = {}
        try:
            for run in runs_of(part, self._topic):
                by_topic.setdefault(run.topic, []).append(run)
            for topic, runs in by_topic.items():
                self._queue(topic, runs)
        except RowRefused as error:
            row = before + int(error.details["row"])
            raise RowRefused(f"row {row:,} of this task (from 0): {error.message}", row=row) from None
        self._queued_rows += part.num_rows
        self._queued_bytes += part.nbytes

    def _queue(self, topic: str, runs: Sequence[SendRun]) -> None:
        try:
            calls = ((run.values, run.keys, run.priorities, run.options) for run in runs)
            send_all_nowait(self._producer_of(topic), calls)
        except THE_ROWS_FAULT as error:
            run = runs[int(error.details.get("call", 0))]
            raise refused(run.first + int(error.details.get("number", 0)), error.message) from None

    def _producer_of(self, topic: str) -> blocking.Producer:
        producer = self._producers.get(topic)
        if producer is None:
            # Rows are confirmed before that many are queued: the producer's own limit is never reached.
            made = self._client.producer(check_publishable(topic), buffer_messages=UNCONFIRMED_ROWS_MAX * 2)
            producer = self._producers[topic] = self._open.enter_context(made)
        return producer


def _slices_of(batch: "pa.RecordBatch") -> "Iterator[pa.RecordBatch]":
    """Parts of a few megabytes, of rows as large as these are on average."""
    rows = max(1, min(UNCONFIRMED_ROWS_MAX, SLICE_BYTES * batch.num_rows // max(1, batch.nbytes)))
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)

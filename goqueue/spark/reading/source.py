"""A topic as a table, read once.

The driver plans: it asks for the topics' UUIDs and ends, and each range of offsets becomes one or more tasks
(`minPartitions`, and by size). A task connects and returns Arrow record batches, decoded without a Python object
for each message. All queries on one `load()` share the plan and so see the same messages; that is also why filters
are not pushed down (docs/decisions/2026-11-17-spark-filters.md).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from goqueue.blocking.inside import now, slices
from goqueue.client.reading.slices import SliceRange
from goqueue.errors import GoQueueError
from goqueue.spark.connecting import connected, connected_in_task
from goqueue.spark.json.arrow import ArrowReading
from goqueue.spark.options import SourceOptions
from goqueue.spark.reading.columns import record_batches
from goqueue.spark.reading.planning import plan_batch
from goqueue.spark.reading.ranges import OffsetRange
from goqueue.spark.reading.rows import WantedRows
from goqueue.spark.schema import KNOWN, arrow_schema, record_from
from goqueue.spark.worker import in_task
from goqueue.types import Microseconds

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """The range of one task. The time is that of the plan, so that a repeated task returns the same rows."""

    def __init__(self, offsets: OffsetRange, planned_at: Microseconds) -> None:
        super().__init__(None)
        self.offsets = offsets
        self.planned_at = planned_at


class GoQueueReader(DataSourceReader):
    """Created where the query is planned, and pickled to every task: it has no client."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task. Raises for unknown topics, partitions without a start, and without a broker."""
        in_task()
        try:
            with connected(self._options.url) as client:
                return [RangePartition(each, now(client)) for each in plan_batch(client, self._options)]
        except GoQueueError as error:
            raise error.with_traceback(None) from None  # Spark would show the traceback; the message says enough

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Runs in a task: the rows of one range of offsets, in their order."""
        return read_range(partition, self._schema, self._options)


def read_range(
    partition: InputPartition | None, schema: StructType, options: SourceOptions
) -> "Iterator[pa.RecordBatch]":
    """Without ranges Spark still starts one task, which does nothing."""
    if not isinstance(partition, RangePartition):
        return
    in_task()
    one, arrow = partition.offsets, arrow_schema(schema)
    wanted = WantedRows(one.topic, one.partition, one.start, one.end, partition.planned_at)
    places = SliceRange(one.topic, one.uuid, one.partition, one.start, one.end)
    at_once = _at_once(arrow, options)
    with connected_in_task(options.url, options.patience_seconds) as client:
        for found in slices(client, places, fail_on_data_loss=options.fail_on_data_loss):
            yield from record_batches(found.data, replace(wanted, start=found.start), arrow, at_once)


def _at_once(schema: "pa.Schema", options: SourceOptions) -> ArrowReading | None:
    if options.json_schema is None:
        return None
    return ArrowReading(record_from(options.json_schema), schema.field(KNOWN).type)

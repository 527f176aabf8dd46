"""A topic as a table that grows.

offsets.py has the arithmetic of a stream's offsets; this file connects it with the broker and Spark. A topic that
was created again and messages lost to retention are found by comparing the offset with the broker's answer, and are
an error or are skipped by `failOnDataLoss`. New partitions, and new topics that match a pattern, begin at their
start. The query waits for a broker that is away for less than half a minute.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from goqueue import blocking
from goqueue.blocking.inside import now
from goqueue.spark.connecting import connected
from goqueue.spark.options import SourceOptions
from goqueue.spark.reading.offsets import (
    Backlog,
    Key,
    QueryPosition,
    QueryPositions,
    backlogs,
    from_json,
    key_of,
    next_places,
    offsets_by_topic,
    ranges_between,
    readable,
    refuse_other_messages,
    to_json,
    to_look_at,
)
from goqueue.spark.reading.planning import refuse_strangers, sized, stream_start
from goqueue.spark.reading.progress import QueryProgress
from goqueue.spark.reading.ranges import split
from goqueue.spark.reading.source import RangePartition, read_range
from goqueue.spark.reading.topics import Reach, epoch_at, reaches, reaches_left
from goqueue.types import Offset

if TYPE_CHECKING:
    import pyarrow as pa


def rows_min(limit: ReadLimit) -> int:
    return limit.min_rows if isinstance(limit, ReadMinRows) else 0


class GoQueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance lives in a process beside the driver as long as the query, and keeps its client; others are
    pickled to the tasks, which only call `read`. So the client is opened when first needed, not in the constructor.
    """

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options
        self._open: ExitStack | None = None
        self._kept_client: blocking.Client | None = None
        self._initial: dict[str, Any] | None = None
        self._latest: dict[str, Any] | None = None
        self._targets: dict[Key, Offset] | None = None
        """The ends of a run that reads only the messages that existed at its beginning."""
        self._progress = QueryProgress(options.group)
        self._looked_at: dict[Key, int] = {}
        """The epoch in which a partition's log was last checked to be the one that was read."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (these names are Spark's)
        """The begin of a query without a checkpoint. Spark asks twice, and must get the same answer."""
        if self._initial is None:
            found = reaches(self._client, self._options)
            refuse_strangers(self._options.start, "startingOffsets", found)
            self._initial = to_json(
                {
                    key_of(each): QueryPosition(each.epoch, stream_start(self._client, self._options, each))
                    for each in found
                }
            )
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch; `start` itself if there is nothing new. All before `start` is done."""
        places = from_json(start)
        waiting = self._waiting(places)
        self._tell(places)
        if self._targets is None and sum(each.count for each in waiting) < rows_min(limit):
            return start
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(next_places(waiting, rows_max))

    def _waiting(self, places: dict[Key, QueryPosition]) -> list[Backlog]:
        found = self._reaches()
        self._refuse_other_messages(places, found)
        self._latest = to_json({key_of(each): QueryPosition(each.epoch, each.end) for each in found})
        return backlogs(places, found, fail_on_data_loss=self._options.fail_on_data_loss, targets=self._targets)

    def _refuse_other_messages(self, places: QueryPositions, found: Sequence[Reach]) -> None:
        """Checks the log of each partition, once after each start of the broker."""
        if not self._options.fail_on_data_loss:
            return
        for reach, place in to_look_at(places, found):
            if self._looked_at.get(key_of(reach)) != reach.epoch:
                refuse_other_messages(reach, place, epoch_at(self._client, reach, place.offset - 1))
                self._looked_at[key_of(reach)] = reach.epoch

    def _reaches(self) -> list[Reach]:
        """Without deleted topics; if that is an error, it names how far they were read."""
        return reaches_left(self._client, self._options)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the partitions, for the query's progress: those of the last request."""
        return self._latest

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._targets = {key_of(each): each.end for each in self._reaches()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one micro-batch; always the same rows for the same offsets."""
        ranges = ranges_between(from_json(start), from_json(end))
        if not ranges:
            return []
        found, client = self._reaches(), self._client
        self._refuse_other_messages(from_json(end), found)
        kept = readable(ranges, found, fail_on_data_loss=self._options.fail_on_data_loss)
        pieces = split(sized(client, kept), self._options.min_partitions or 1)
        return [RangePartition(each, now(client)) for each in pieces]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Runs in a task, as for a batch."""
        return read_range(partition, self._schema, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Everything up to `end` is done. A query goes on from its checkpoint, not from this report."""
        self._tell(from_json(end))

    def _tell(self, places: QueryPositions) -> None:
        self._progress.tell(self._client, offsets_by_topic(places))

    def stop(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = self._kept_client = None

    @property
    def _client(self) -> blocking.Client:
        if self._kept_client is None:
            self._open = ExitStack()
            way = connected(self._options.url, patience_seconds=self._options.patience_seconds)
            self._kept_client = self._open.enter_context(way)
        return self._kept_client

"""The ingest of topics into a table of Parquet files: `goqueue spark ingest`.

A streaming query whose checkpoint holds its position; Spark writes each micro-batch to a folder of its own, and a
commit of ours makes it part of the table (tablefolder.py), exactly once: Spark repeats a micro-batch of which it
does not know that it was done, and a repeated one finds its commit.

With a schema each message becomes typed columns or, if it does not fit, a row of the quarantine: the first read of
the topic writes the messages that are known to fit at once, and counts the others; only if there are some is it
read again, for them. Without a schema rows are messages as they are.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from goqueue.blocking import Client
from goqueue.errors import GoQueueError, InvalidConfig
from goqueue.spark.connecting import connected
from goqueue.spark.errors import our_error, reason_of
from goqueue.spark.files import Files
from goqueue.spark.format.datasource import FORMAT
from goqueue.spark.ingest.checkpoint import QueryCheckpoint
from goqueue.spark.ingest.claims import Claim
from goqueue.spark.ingest.evolution import evolved
from goqueue.spark.ingest.fromregistry import FoundVersion, FromRegistry, SubjectVersions, found_version
from goqueue.spark.ingest.merging import Merging, merge_folder, write_merged
from goqueue.spark.ingest.rows import TableRows, quarantine_columns, raw_rows, typed_rows
from goqueue.spark.ingest.tablefolder import CHECKPOINT, DATE_COLUMN, Commit, TableFolder
from goqueue.spark.ingest.versioned import VersionedRows
from goqueue.spark.options import JSON_SCHEMA, SourceOptions, source_options
from goqueue.spark.reading.planning import STARTING, refuse_strangers, stream_start
from goqueue.spark.reading.progress import tell_at_the_end
from goqueue.spark.reading.topics import Reach, reaches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OFFSETS_PER_TRIGGER = 1_000_000
FILES_MAX = 16
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.variant.allowDuplicateKeys": "false",
    "spark.sql.codegen.hugeMethodLimit": "8000",  # Java compiles no larger one
    "spark.sql.maxConcurrentOutputFileWriters": "16",  # else rows are sorted by day before they are written
}


@dataclass(frozen=True, slots=True)
class Ingest:
    """The options of an ingest."""

    url: str
    topics: Sequence[str]
    path: str
    schema: Mapping[str, Any] | FromRegistry | None = None
    """A JSON Schema, or where the broker's registry has it."""
    checkpoint: str | None = None
    max_offsets_per_trigger: int = OFFSETS_PER_TRIGGER
    group: str | None = None
    starting: Mapping[str, str] = field(default_factory=dict)
    """`startingOffsets` or `startingTimestamp`, used if there is no checkpoint yet. Default: everything."""
    fail_on_data_loss: bool = True
    follow_seconds: float | None = None
    """None: ends with the messages that exist now. Else it follows, with this many seconds for each micro-batch."""
    files_max: int = FILES_MAX
    patience_seconds: int | None = None
    """Limit of the time for which the broker may be away; None: as for every read."""


@dataclass(slots=True)
class IngestSummary:
    """The counts of one run."""

    path: str
    quarantine: str
    checkpoint: str
    expected: int = 0
    """The number of offsets to read when it began."""
    rows: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    """Counts by reason."""
    batches: int = 0
    files: int = 0
    merges: int = 0
    seconds: float = 0.0
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)
    """The next offset to read, by topic and partition."""
    schema: dict[str, Any] | None = None
    """Subject, version and id of a schema of the registry."""

    @property
    def messages(self) -> int:
        return self.rows + self.quarantined.total()

    @property
    def messages_per_second(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        figures = {"messages": self.messages, "messages_per_second": round(self.messages_per_second, 1)}
        return {**said, "quarantined": dict(self.quarantined), **figures}


Watch = Callable[[IngestSummary], None]


def ingest(spark: "SparkSession", work: Ingest, watch: Watch = lambda _: None) -> IngestSummary:
    """Run to the end, or until it is interrupted, in a session with goqueue registered. `watch` is called about
    once a second.
    """
    table = TableFolder(Files(spark, work.path), work.path)
    claim = Claim(spark, table)
    run = _Run(spark, work, table, claim, watch)
    run.look_at_topics()
    _take(claim, table)
    try:
        return run.run()
    finally:
        claim.release()


def _take(claim: Claim, table: TableFolder) -> None:
    """The claim is the first write, so it shows whether the folder is writable."""
    try:
        claim.take()
    except Py4JJavaError as error:
        raise InvalidConfig(
            f"nothing can be written to {table.path}: {reason_of(error)}. Give a folder that Spark may write to"
        ) from None


@contextmanager
def _settings_of_ours(spark: "SparkSession") -> Iterator[None]:
    """For a query that starts meanwhile, which keeps a copy: columns must not depend on the session's time zone."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            spark.conf.set(name, str(kept))


class _Run:
    def __init__(self, spark: "SparkSession", work: Ingest, table: TableFolder, claim: Claim, watch: Watch) -> None:
        self._spark = spark
        self._work = work
        self._table = table
        self._claim = claim
        self._watch = watch
        self._checkpoint = QueryCheckpoint(spark, table.files.whole(work.checkpoint or table.path + CHECKPOINT))
        self._found = _found(work)
        self._schema: Any = work.schema if self._found is None else self._found.document()
        self._rows = self._rows_read()
        self._columns = self._rows.columns
        self._failure: BaseException | None = None
        self._summary = IngestSummary(table.path, table.quarantine, self._checkpoint.path)
        self._summary.schema = None if self._found is None else self._found.about()

    def _rows_read(self) -> TableRows:
        ending = f"e{uuid4().hex}"
        if self._found is not None:
            versions = SubjectVersions(partial(connected, self._work.url), self._found)
            return VersionedRows(self._spark, versions, ending)
        return raw_rows() if self._schema is None else typed_rows(self._spark, self._schema, ending)

    def run(self) -> IngestSummary:
        self._prepare()
        self._table.recover()
        begin = self._now()
        with _settings_of_ours(self._spark):
            query = self._start()
        try:
            self._accompany(query, begin)
        finally:
            query.stop()
            self._summary.seconds = self._now() - begin
            self._summary.offsets = self._checkpoint.reached()
            self._tell_progress()
        return self._summary

    # Checks of the topics and of the existing table

    def look_at_topics(self) -> None:
        """Unknown topics are an error before anything is written."""
        options, reached = source_options(self._options(), streaming=True), self._checkpoint.reached()
        with connected(self._work.url) as client:
            found = reaches(client, options)
            if not reached:
                self._check_begin(client, options, found)
        begins = [max(each.start, reached.get(each.topic, {}).get(str(each.partition), 0)) for each in found]
        self._summary.expected = sum(max(0, each.end - begin) for each, begin in zip(found, begins, strict=True))

    def _check_begin(self, client: Client, options: SourceOptions, found: Sequence[Reach]) -> None:
        """Check a given start."""
        refuse_strangers(options.start, STARTING, found)
        for each in found:
            stream_start(client, options, each, STARTING)

    def _prepare(self) -> None:
        about, topics = self._table.about.latest(), sorted(self._work.topics)
        mode = "raw" if self._work.schema is None else "typed"
        if about is None:
            self._check_nothing_there()
            about = {
                "format": 1,
                "topics": topics,
                "mode": mode,
                "checkpoint": self._checkpoint.path,
                "query": None,
            }
        else:
            self._check_the_same(about, topics, mode)
            self._columns = evolved(StructType.fromJson(about["columns"]), self._columns)
        wanted = {**about, "columns": self._columns.jsonValue(), "schema": self._summary.schema}
        if about != wanted:
            self._table.about.add(wanted)

    def _check_nothing_there(self) -> None:
        if self._table.has_rows_of_others():
            raise InvalidConfig(f"{self._table.path} has files that no ingest has written; give an empty folder")
        if self._checkpoint.query_id() is not None:
            raise InvalidConfig(f"the checkpoint {self._checkpoint.path} is that of another table; give another")

    def _check_the_same(self, about: Mapping[str, Any], topics: list[str], mode: str) -> None:
        where = self._table.path
        if about["topics"] != topics:
            raise InvalidConfig(f"{where} is the table of {', '.join(about['topics'])}, not of {', '.join(topics)}")
        if about["mode"] != mode:
            raise InvalidConfig(f"{where} was begun {'without' if mode == 'typed' else 'with'} a schema")
        known, found = about["query"], self._checkpoint.query_id()
        is_other = about["checkpoint"] != self._checkpoint.path
        if is_other or (known is not None and known != found):
            raise InvalidConfig(
                f"{where} goes on only with its checkpoint {about['checkpoint']}, and "
                f"{'another is given' if is_other else 'that is gone'}: its messages would come twice. "
                "To begin anew write to another table"
            )

    # The query

    def _start(self) -> "StreamingQuery":
        reader = self._spark.readStream.format(FORMAT)
        for name, value in self._options().items():
            reader = reader.option(name, value)
        writer = reader.load().writeStream.foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", self._checkpoint.spark_folder)
        if self._work.follow_seconds is None:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._work.follow_seconds:g} seconds").start()

    def _options(self) -> dict[str, str]:
        options = {
            "url": self._work.url,
            "subscribe": ",".join(self._work.topics),
            "maxOffsetsPerTrigger": str(self._work.max_offsets_per_trigger),
            "failOnDataLoss": str(self._work.fail_on_data_loss).lower(),
            "startingOffsets": "earliest",
            "includeHeaders": "true",
        }
        if self._work.group is not None:
            options["group"] = self._work.group
        if self._work.patience_seconds is not None:
            options["patienceSeconds"] = str(self._work.patience_seconds)
        if self._rows.is_at_once:
            options[JSON_SCHEMA] = json.dumps(self._schema)
        if "startingTimestamp" in self._work.starting:
            del options["startingOffsets"]
        return {**options, **self._work.starting}

    def _accompany(self, query: "StreamingQuery", begin: float) -> None:
        self._watch(self._summary)
        while not self._has_ended(query):
            self._claim.renew()
            self._summary.seconds = self._now() - begin
            self._watch(self._summary)

    def _has_ended(self, query: "StreamingQuery") -> bool:
        try:
            return bool(query.awaitTermination(1))
        except PySparkException as error:
            raise _telling(self._failure or error) from None

    def _tell_progress(self) -> None:
        """Once more at the end: a stopped query has not reported its last micro-batch."""
        if self._work.group is not None and self._summary.offsets:
            tell_at_the_end(self._work.url, self._work.group, self._summary.offsets)

    # One micro-batch

    def _batch(self, batch: "DataFrame", number: int) -> None:
        """Called by Spark, in a thread of its own. Spark gets a short error: for a stopped query it matches the
        text with a regular expression that overflows Java's stack on long text, and a terminal would show a page.
        """
        try:
            self._take(batch, number)
        except BaseException as error:
            self._failure = self._failure or error
            raise RuntimeError(f"micro-batch {number} failed") from None

    def _take(self, batch: "DataFrame", number: int) -> None:
        commit = self._table.take(number, lambda: self._write(batch, number), self._claim.check)
        self._count(commit)
        self._merge(batch.sparkSession, commit)

    def _write(self, batch: "DataFrame", number: int) -> Commit:
        """Write to `staging`, and return the commit."""
        staged = self._table.new_staging()
        names = f"{number:010d}-{self._query_id()[:8]}"
        written = self._rows.write(batch, f"{staged}/rows", f"{staged}/quarantine")
        moves = self._table.moves(f"{staged}/rows", self._table.path, names)
        moves += self._table.moves(f"{staged}/quarantine", self._table.quarantine, names)
        return Commit(moves, [staged], written.rows, written.quarantined)

    def _query_id(self) -> str:
        """The id of the checkpoint's query; from the first micro-batch on the table belongs to it alone."""
        found, about = self._checkpoint.query_id(), self._table.about.latest()
        assert found is not None
        if about["query"] is None:
            self._table.about.add({**about, "query": found})
        return found

    def _count(self, commit: Commit) -> None:
        self._summary.batches += 1
        self._summary.rows += commit.rows
        self._summary.quarantined.update(commit.quarantined)
        self._summary.files += len(commit.moves)

    def _merge(self, spark: "SparkSession", commit: Commit) -> None:
        merging = Merging(self._work.files_max)
        for folder in sorted({target.rpartition("/")[0] for _, target in commit.moves}):
            is_main = folder.startswith(f"{self._table.path}/")
            columns = self._columns if is_main else quarantine_columns()
            write = partial(write_merged, spark, _without_date(columns))
            while merge_folder(self._table, folder, merging, write, self._claim.check):
                self._summary.merges += 1

    def _now(self) -> float:
        jvm: Any = self._spark.sparkContext._jvm
        return float(jvm.java.lang.System.nanoTime()) / 1e9


def _found(work: Ingest) -> FoundVersion | None:
    if not isinstance(work.schema, FromRegistry):
        return None
    subject = work.schema.subject_for(work.topics)
    with connected(work.url) as client:
        return found_version(client, subject, work.schema.version)


def _without_date(columns: StructType) -> StructType:
    """Without the date, which is in the folder's name."""
    return StructType([each for each in columns.fields if each.name != DATE_COLUMN])


def _telling(error: BaseException) -> BaseException:
    """goqueue's error from a stack trace, if there is one."""
    return error if isinstance(error, GoQueueError) else our_error(str(error)) or error

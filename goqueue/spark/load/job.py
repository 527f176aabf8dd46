"""The load of files: a group of files at a time, entered in the checkpoint once all its rows are confirmed.

At least once: after a run that was killed, the next one begins with the group that was under way, so rows of this
group may be published twice; those of earlier groups are not read again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegralType, MapType, StringType, StructType

from goqueue.errors import InvalidConfig
from goqueue.spark.load.files import LoadCheckpoint, LoadFile, files_at, format_of, groups_of, literally
from goqueue.spark.optionvalues import nearest
from goqueue.spark.schema import KEY, PRIORITY, VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

GROUP_BYTES = 128 << 20
READING: Mapping[str, Mapping[str, str]] = {
    "parquet": {},
    "csv": {"header": "true", "mode": "FAILFAST", "quote": '"', "escape": '"'},
    "json": {"mode": "FAILFAST"},
}
"""Fields that cannot be read are an error: by default Spark would make them null. A quote in a CSV field is
doubled, as in RFC 4180 and in most such files; by default Spark would look for a backslash before it.
"""
OVER_LINES = "multiLine"
EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""A time keeps its microseconds as JSON; by default Spark would cut them off."""


@dataclass(frozen=True, slots=True)
class Job:
    url: str
    path: str
    topic: str
    format: str | None = None
    """parquet, csv or json; None: by the names of the files."""
    key: str | None = None
    value: str | None = None
    """The column that is the value; None: the whole row, as JSON."""
    priority: str | None = None
    schema: str | None = None
    """The columns as an SQL declaration; None: those of the files."""
    reading: Mapping[str, str] = field(default_factory=dict)
    """Further options of Spark's reader."""
    checkpoint: str | None = None
    group_bytes: int = GROUP_BYTES


@dataclass(slots=True)
class Loaded:
    files: int = 0
    rows: int = 0
    bytes: int = 0
    """Bytes of the files."""
    files_before: int = 0
    """The number of files that earlier runs have loaded."""


Progress = Callable[[int], object]


def load(spark: "SparkSession", job: Job, begin: Progress, advance: Progress) -> Loaded:
    """`begin` gets the number of bytes to load, `advance` those that were loaded."""
    files, checkpoint = files_at(spark, job.path), LoadCheckpoint(spark, job.checkpoint)
    pending = checkpoint.without_loaded(files, job.topic)
    done = Loaded(files_before=len(files) - len(pending))
    if not pending:
        return done
    reading = Reading(spark, job, files)
    begin(sum(file.size for file in pending))
    for group in groups_of(pending, job.group_bytes):
        size = sum(file.size for file in group)
        done.rows += _publish(reading.messages(group), job)
        checkpoint.add(group, job.topic)
        done.files, done.bytes = done.files + len(group), done.bytes + size
        advance(size)
    return done


def _publish(messages: "DataFrame", job: Job) -> int:
    """Returns the number of messages, counted during the write."""
    counted = Observation()
    counting = messages.observe(counted, sql.count(sql.lit(1)).alias("rows"))
    counting.write.format("goqueue").mode("append").option("url", job.url).option("topic", job.topic).save()
    return int(counted.get["rows"])


class Reading:
    """Files as tables of messages, all of one schema."""

    def __init__(self, spark: "SparkSession", job: Job, files: Sequence[LoadFile]) -> None:
        self._spark = spark
        self._job = job
        self._format = job.format or format_of(files)
        self._options = {**READING[self._format], **_base(job.path, files), **job.reading}
        self._schema = self._table(files, job.schema).schema
        self._columns = self._message_columns()

    def messages(self, files: Sequence[LoadFile]) -> "DataFrame":
        over_lines = {OVER_LINES: "true"} if self._go_over_lines(files) else {}
        return self._table(files, self._schema, over_lines).select(*self._columns)

    def _go_over_lines(self, files: Sequence[LoadFile]) -> bool:
        """Whether there may be a line break between quotes: a line then has an odd number of these. Such files are
        not split among tasks, so it is checked and not assumed; if the option is given, it decides.
        """
        given = {name.lower(): text for name, text in self._options.items()}
        quote = given.get("quote", "")
        if self._format != "csv" or not quote or OVER_LINES.lower() in given:
            return False
        lines = self._spark.read.text([literally(file.path) for file in files])
        quotes = sql.length("value") - sql.length(sql.replace("value", sql.lit(quote), sql.lit("")))
        return not lines.where(quotes % 2 == 1).isEmpty()

    def _table(
        self,
        files: Sequence[LoadFile],
        schema: str | StructType | None,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> "DataFrame":
        """Without a schema it is inferred from the files: from all of them if they are JSON."""
        reader = self._spark.read.format(self._format).options(**self._options, **more)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load([literally(file.path) for file in files])

    def _message_columns(self) -> "list[Column]":
        job = self._job
        columns = [self._whole_row() if job.value is None else self._as_bytes(job.value).alias(VALUE)]
        if job.key is not None:
            columns.append(self._as_bytes(job.key).alias(KEY))
        if job.priority is not None:
            columns.append(self._as_priority(job.priority).alias(PRIORITY))
        return columns

    def _whole_row(self) -> "Column":
        names = [sql.col(_quoted(name)) for name in self._schema.names]
        return sql.to_json(sql.struct(*names), {"ignoreNullFields": "false", **EXACT}).alias(VALUE)

    def _as_bytes(self, name: str) -> "Column":
        """Bytes and text as they are, nested values as JSON, all others as Spark prints them."""
        column, kind = sql.col(_quoted(name)), self._type_of(name)
        if isinstance(kind, BinaryType | StringType):
            return column
        if isinstance(kind, StructType | ArrayType | MapType):
            return sql.to_json(column, EXACT)
        return column.cast("string")

    def _as_priority(self, name: str) -> "Column":
        kind = self._type_of(name)
        if not isinstance(kind, IntegralType | StringType):
            raise InvalidConfig(f"{name} is {kind.simpleString()}; a priority is 0 to 4, or a name")
        return sql.col(_quoted(name))

    def _type_of(self, name: str) -> DataType:
        if name not in self._schema.names:
            meant = nearest(name, tuple(self._schema.names))
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(self._schema.names)}"
            raise InvalidConfig(f"the files have no column {name}; {hint}")
        return self._schema[name].dataType


def _base(path: str, files: Sequence[LoadFile]) -> dict[str, str]:
    """The path below which directories like day=2026-01-01 are columns."""
    is_file = len(files) == 1 and files[0].path.endswith(path.rstrip("/").rpartition("/")[2])
    return {} if is_file or literally(path) != path else {"basePath": path}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

"""The rows of an ingested table: messages as they are, or typed columns and a quarantine beside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's own pages do)
from pyspark.sql.types import DateType, StringType, StructField, StructType

from goqueue.errors import InvalidConfig
from goqueue.spark.ingest.tablefolder import DATE_COLUMN
from goqueue.spark.json.arrow import can_be_at_once
from goqueue.spark.json.columns import Parsing, keeps_limits, type_of
from goqueue.spark.json.types import patterns_of, record_of
from goqueue.spark.schema import (
    HEADERS,
    KEY,
    KNOWN,
    OFFSET,
    PARTITION,
    PRIORITY,
    TIMESTAMP,
    TOPIC,
    VALUE,
    source_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RAW = (KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP, PRIORITY, HEADERS)
"""Older tables have no headers; their rows have null there."""
BESIDE = (TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, PRIORITY)
"""In a typed table each has a _ before its name."""
MESSAGE = (*BESIDE, VALUE, HEADERS)
REASON = "reason"
SCHEMA_NOTE = "goqueue.schema"
"""In the metadata of `_topic` in each file: the version of the registry by which its rows were read."""
_INNER = ("_goqueue_fits", "_goqueue_parsed", "_goqueue_reason")
_FITS, _PARSED, _REASON = _INNER


def _beside(name: str) -> str:
    """The name of a source column beside those of a schema. Headers are internal: `_headers` may be one of the
    schema's."""
    return "_goqueue_headers" if name == HEADERS else f"_{name}"


RESERVED = frozenset({DATE_COLUMN, KNOWN, *_INNER, *map(_beside, MESSAGE)})


@dataclass(frozen=True, slots=True)
class WrittenRows:
    rows: int
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """Counts by reason."""


class TableRows(Protocol):
    @property
    def columns(self) -> StructType:
        """The columns; the last one is the day, which names the folders."""

    @property
    def is_at_once(self) -> bool:
        """Whether the source has to say which messages fit the schema."""

    def write(self, batch: "DataFrame", target: str, quarantine: str) -> WrittenRows: ...


def _dated(columns: list[StructField]) -> StructType:
    return StructType([*columns, StructField(DATE_COLUMN, DateType())])


def _date() -> "Column":
    """The day in UTC, which is the session's time zone."""
    return F.to_date(F.col(TIMESTAMP)).alias(DATE_COLUMN)


def _save(rows: "DataFrame", target: str) -> None:
    rows.write.mode("append").partitionBy(DATE_COLUMN).parquet(target)


# Messages as they are


@dataclass(frozen=True)
class _Raw:
    columns: StructType
    is_at_once: bool = False

    def write(self, batch: "DataFrame", target: str, quarantine: str) -> WrittenRows:  # noqa: ARG002 (everything fits)
        counted = Observation()
        _save(batch.observe(counted, F.count(F.lit(1)).alias("rows")).select(*RAW, _date()), target)
        return WrittenRows(counted.get["rows"])


def raw_rows() -> TableRows:
    return _Raw(_dated(_of_source(RAW)))


def _of_source(names: tuple[str, ...], prefix: str = "") -> list[StructField]:
    given = source_schema(include_headers=True)
    return [StructField(prefix + name, given[name].dataType) for name in names]


def quarantine_columns() -> StructType:
    return _dated([*_of_source(RAW), StructField(REASON, StringType())])


# Typed columns


def _as_it_is(column: "Column") -> "Column":
    return column


@dataclass
class TypedRows:
    """Messages that are known to fit at once are written first; the rest is read again and walked. If the rest is
    large, the next batches are walked from the beginning.
    """

    columns: StructType
    parsing: Parsing
    is_at_once: bool
    fields: "Sequence[Column]"
    """Those of the table, made from those of the schema."""
    document: "Callable[[Column], Column]" = _as_it_is
    """Where the JSON lies in a value."""
    note: Mapping[str, Any] = field(default_factory=dict)
    """Goes into the metadata of the files."""

    def write(self, batch: "DataFrame", target: str, quarantine: str) -> WrittenRows:
        renamed = [F.col(name).alias(_beside(name)) for name in MESSAGE]
        if not self.is_at_once:
            return self._write_walked(batch.select(*renamed, _date()), target, quarantine)
        known = self._known(batch.select(*renamed, _date(), KNOWN))
        done, left = self._write_known(known, target)
        if not left:
            return WrittenRows(done)
        self.is_at_once = left <= done
        rest = known.where(~F.col(_FITS)).select(*map(_beside, MESSAGE), DATE_COLUMN)
        walked = self._write_walked(rest, target, quarantine)
        found = walked.rows + sum(walked.quarantined.values())
        assert found == left, "the topic gave other messages when it was read again"
        return WrittenRows(done + walked.rows, walked.quarantined)

    # In steps that Spark compiles to one; a column of one step is computed once for the next.

    def _known(self, rows: "DataFrame") -> "DataFrame":
        record, values = self.parsing.record, F.col(KNOWN)
        typed = rows.select("*", *(values.getField(field.name).alias(field.name) for field in record.fields))
        return typed.withColumn(_FITS, values.isNotNull() & keeps_limits(record, values))

    def _write_known(self, known: "DataFrame", target: str) -> tuple[int, int]:
        """The number of rows written, and of those left."""
        counted = Observation()
        counts = (F.count_if(F.col(_FITS)).alias("done"), F.count_if(~F.col(_FITS)).alias("left"))
        _save(known.observe(counted, *counts).where(F.col(_FITS)).select(*self._row()), target)
        return counted.get["done"], counted.get["left"]

    def _write_walked(self, renamed: "DataFrame", target: str, quarantine: str) -> WrittenRows:
        counted, judged = Observation(), self._judged(renamed)
        counts = (F.count(F.lit(1)).alias("messages"), F.count(_REASON).alias("unfit"))
        _save(judged.observe(counted, *counts).where(F.col(_REASON).isNull()).select(*self._row()), target)
        unfit = counted.get["unfit"]
        reasons = self._quarantine(judged, quarantine) if unfit else {}
        assert sum(reasons.values()) == unfit, "the topic gave other messages when it was read again"
        return WrittenRows(counted.get["messages"] - unfit, reasons)

    def _judged(self, renamed: "DataFrame") -> "DataFrame":
        value, parsed = self.document(F.col(f"_{VALUE}")), F.col(_PARSED)
        documents = renamed.withColumn(_PARSED, self.parsing.parsed(value))
        typed = documents.select("*", *self.parsing.columns(parsed))
        return typed.withColumn(_REASON, self.parsing.reason(value, parsed))

    def _row(self) -> "list[Column]":
        topic = F.col(f"_{TOPIC}").alias(f"_{TOPIC}", metadata=dict(self.note))
        beside = (F.col(f"_{name}") for name in BESIDE if name != TOPIC)
        return [*self.fields, topic, *beside, F.col(DATE_COLUMN)]

    def _quarantine(self, judged: "DataFrame", target: str) -> dict[str, int]:
        unfit = judged.where(F.col(_REASON).isNotNull())
        columns = [F.col(_beside(name)).alias(name) for name in RAW]
        _save(unfit.select(*columns, F.col(_REASON).alias(REASON), DATE_COLUMN), target)
        return _reasons_in(judged.sparkSession, target)


def typed_rows(spark: "SparkSession", schema: Mapping[str, Any], ending: str) -> TypedRows:
    record = record_of(schema, RESERVED)
    for pattern in patterns_of(record):
        _check_pattern(spark, pattern)
    struct = type_of(record)
    assert isinstance(struct, StructType)
    columns = _dated([*struct.fields, *_of_source(BESIDE, "_")])
    fields = [F.col(f"`{each.name}`") for each in record.fields]
    return TypedRows(columns, Parsing(record, ending), can_be_at_once(record), fields)


def quarantine_all(batch: "DataFrame", reason: "Column", target: str) -> WrittenRows:
    """Messages as the source has them; there are some."""
    _save(batch.select(*RAW, reason.alias(REASON), _date()), target)
    return WrittenRows(0, _reasons_in(batch.sparkSession, target))


def _reasons_in(spark: "SparkSession", target: str) -> dict[str, int]:
    counts = spark.read.schema(quarantine_columns()).parquet(target).groupBy(REASON).count()
    return {row[REASON]: row["count"] for row in counts.collect()}


def _check_pattern(spark: "SparkSession", pattern: str) -> None:
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 (it comes with PySpark)

    jvm: Any = spark.sparkContext._jvm
    try:
        jvm.java.util.regex.Pattern.compile(pattern)
    except Py4JJavaError as error:
        raise InvalidConfig(
            f"the schema's pattern {pattern!r} is not a regular expression of Java: "
            f"{str(error.java_exception.getMessage()).splitlines()[0]}"
        ) from None

"""The rows of a table whose schema is a version of the registry: each message is read by the version that it names.

Most messages name the version of the run, or none, and are read as with a schema of a file. The same read counts
the others. If there are some, they are read again: once to find which versions they name, and once for each of
these, by its own columns, which become those of the table by their names. What names no version of the subject goes
to the quarantine.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's own pages do)
from pyspark.sql.types import StructType

from goqueue.errors import InvalidConfig
from goqueue.spark.ingest.aligning import aligned_fields, misfits
from goqueue.spark.ingest.fromregistry import FoundVersion, SubjectVersions
from goqueue.spark.ingest.naming import fault_of, named, payload
from goqueue.spark.ingest.rows import (
    SCHEMA_NOTE,
    TypedRows,
    WrittenRows,
    quarantine_all,
    typed_rows,
)
from goqueue.spark.json.columns import type_of
from goqueue.spark.schema import HEADERS, VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NAMED = "_goqueue_named"


class VersionedRows:
    def __init__(self, spark: "SparkSession", versions: SubjectVersions, ending: str) -> None:
        self._spark = spark
        self._versions = versions
        self._ending = ending
        self._own = replace(self._typed(versions.own), document=payload, note=_note(versions.own))
        self._others: dict[int, TypedRows | str] = {}
        """By the number of the version; text says why messages cannot be read by it."""

    @property
    def columns(self) -> StructType:
        return self._own.columns

    @property
    def is_at_once(self) -> bool:
        return self._own.is_at_once

    def write(self, batch: "DataFrame", target: str, quarantine: str) -> WrittenRows:
        """Each version has folders of its own in `target` and `quarantine`."""
        known = batch.withColumn(NAMED, named(F.col(HEADERS), F.col(VALUE)))
        is_other = F.coalesce(~_is_one_of(self._versions.own.names), F.lit(False))
        is_stranger = F.coalesce(~_is_one_of(self._versions.by_name()), F.lit(False))
        counted = Observation()
        counts = (F.count_if(is_other).alias("others"), F.count_if(is_stranger).alias("strangers"))
        own = self._own.write(
            known.observe(counted, *counts).where(~is_other), f"{target}/own", f"{quarantine}/own"
        )
        if not counted.get["others"]:
            return own
        if counted.get["strangers"]:
            self._versions.look_again()
        parts = list(self._write_others(known.where(is_other), counted.get["others"], target, quarantine))
        found = sum(each.rows + sum(each.quarantined.values()) for each in parts)
        assert found == counted.get["others"], "the topic gave other messages when it was read again"
        return _total([own, *parts])

    def _write_others(self, others: "DataFrame", count: int, target: str, quarantine: str) -> Iterator[WrittenRows]:
        by_name = self._versions.by_name()
        met = others.where(_is_one_of(by_name)).groupBy(NAMED).count().collect()
        for found in {id(each): each for each in (by_name[row[NAMED]] for row in met)}.values():
            yield self._write_version(found, others.where(_is_one_of(found.names)), target, quarantine)
        if sum(row["count"] for row in met) < count:
            why = fault_of(F.col(NAMED), self._versions.subject)
            yield quarantine_all(others.where(~_is_one_of(by_name)), why, f"{quarantine}/strangers")

    def _write_version(self, found: FoundVersion, batch: "DataFrame", target: str, quarantine: str) -> WrittenRows:
        rows, folder = self._rows_of(found), f"version-{found.described.version}"
        if isinstance(rows, str):
            return quarantine_all(batch, F.lit(rows), f"{quarantine}/{folder}")
        return rows.write(batch, f"{target}/{folder}", f"{quarantine}/{folder}")

    # Other versions

    def _rows_of(self, found: FoundVersion) -> TypedRows | str:
        number = found.described.version
        if number not in self._others:
            self._others[number] = self._made(found)
        return self._others[number]

    def _made(self, found: FoundVersion) -> TypedRows | str:
        try:
            typed = self._typed(found)
        except InvalidConfig as error:
            return f"{found.shown}: {error.message}"
        have, want = _struct_of(typed), _struct_of(self._own)
        if faults := list(misfits(have, want)):
            return f"{found.shown} has other types: {'; '.join(faults)}"
        fields = aligned_fields(have, want)
        return replace(typed, is_at_once=False, fields=fields, document=payload, note=_note(found))

    def _typed(self, found: FoundVersion) -> TypedRows:
        return typed_rows(self._spark, found.document(), self._ending)


def _is_one_of(names: "Iterable[str]") -> "Column":
    """Null where nothing is named."""
    return F.col(NAMED).isin(list(names))


def _struct_of(rows: TypedRows) -> StructType:
    struct = type_of(rows.parsing.record)
    assert isinstance(struct, StructType)
    return struct


def _note(found: FoundVersion) -> dict[str, object]:
    return {SCHEMA_NOTE: found.about()}


def _total(parts: list[WrittenRows]) -> WrittenRows:
    quarantined = Counter[str]()
    for each in parts:
        quarantined.update(each.quarantined)
    return WrittenRows(sum(each.rows for each in parts), dict(quarantined))

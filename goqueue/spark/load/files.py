"""The files of a load: how they are found, their formats, and which are done.

The done files are kept as a small table of JSON in the checkpoint, a directory that Spark can write: here, in HDFS
or in an object store. A group of files is entered once all its rows are confirmed, so a restart repeats at most the
one group that was under way.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException

from goqueue.errors import InvalidConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv",),
    "json": (".json", ".jsonl", ".ndjson"),
}
"""The formats by the ends of file names."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".deflate")
NOT_FOUND = "PATH_NOT_FOUND"
ENTRY = "topic string, path string, size bigint, modified_ms bigint"
GLOBS = re.compile(r"[*?{}\[\]\\]")


class LoadFile(NamedTuple):
    path: str
    size: int
    modified_ms: int


def files_at(spark: "SparkSession", path: str) -> list[LoadFile]:
    """The files of a path, a directory or a pattern, sorted by name. Their contents are not read."""
    try:
        found = spark.read.format("binaryFile").load(path)
        rows = found.selectExpr("path", "length", "unix_millis(modificationTime) as modified_ms").collect()
    except AnalysisException as error:
        if error.getCondition() == NOT_FOUND:
            raise InvalidConfig(f"there is nothing at {path}") from None
        raise
    return sorted(LoadFile(row.path, row.length, row.modified_ms) for row in rows)


def format_of(files: Iterable[LoadFile]) -> str:
    """The format by the names; `InvalidConfig` when they name none, or differ."""
    found: dict[str | None, str] = {}
    for file in files:
        found.setdefault(_format_of(file.path), file.path)
    if None in found:
        raise InvalidConfig(f"the name of {found[None]} does not tell its format; say it with --format")
    if len(found) > 1:
        raise InvalidConfig(
            f"there are files of {' and '.join(sorted(map(str, found)))}; load one format at a time"
        )
    [known] = found
    assert known is not None
    return known


def _format_of(path: str) -> str | None:
    name = path.lower()
    for end in COMPRESSED:
        name = name.removesuffix(end)
    return next((known for known, ends in FORMATS.items() if name.endswith(ends)), None)


def groups_of(files: Iterable[LoadFile], bytes_max: int) -> Iterator[list[LoadFile]]:
    """In order, as many together as fit; a larger file alone."""
    group: list[LoadFile] = []
    for file in files:
        if group and sum(each.size for each in group) + file.size > bytes_max:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def literally(path: str) -> str:
    """A path that is no pattern, whatever characters it has."""
    return GLOBS.sub(lambda found: "\\" + found[0], path)


class LoadCheckpoint:
    """The files that were loaded, and their topic."""

    def __init__(self, spark: "SparkSession", directory: str | None) -> None:
        self._spark = spark
        self._directory = directory

    def without_loaded(self, files: Sequence[LoadFile], topic: str) -> list[LoadFile]:
        """The files to load. `InvalidConfig` when the checkpoint is for another topic, or a file has changed."""
        loaded = self._loaded(topic)
        for file in files:
            if loaded.get(file.path, file) != file:
                raise InvalidConfig(
                    f"{file.path} has changed since it was loaded; give it another name to load all of it again"
                )
        return [file for file in files if file.path not in loaded]

    def add(self, files: Iterable[LoadFile], topic: str) -> None:
        if self._directory is not None:
            entries = self._spark.createDataFrame([(topic, *file) for file in files], ENTRY)
            entries.coalesce(1).write.mode("append").json(self._directory)

    def _loaded(self, topic: str) -> dict[str, LoadFile]:
        rows = self._rows()
        if others := {row_topic for row_topic, _ in rows} - {topic}:
            raise InvalidConfig(
                f"the checkpoint {self._directory} is that of a load to {min(others)}, not to {topic}; give another"
            )
        return {file.path: file for _, file in rows}

    def _rows(self) -> list[tuple[str, LoadFile]]:
        if self._directory is None:
            return []
        try:
            rows = self._spark.read.schema(ENTRY).json(self._directory).collect()
        except AnalysisException as error:
            if error.getCondition() == NOT_FOUND:
                return []
            raise
        return [(row.topic, LoadFile(row.path, row.size, row.modified_ms)) for row in rows]

"""Files through Hadoop's FileSystem, so that a table may be wherever Spark can write.

It relies only on what every file system guarantees: a file that is renamed is there whole or not at all, and a
listing shows what was written before.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNFINISHED, JSON = ".tmp", ".json"


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: str
    name: str
    size: int
    is_folder: bool


class Files:
    """The files of the file system of `path`. Paths are absolute and name their file system."""

    def __init__(self, spark: "SparkSession", path: str) -> None:
        context: Any = spark.sparkContext
        configuration = context._jsc.hadoopConfiguration()
        self._path_class: Any = context._jvm.org.apache.hadoop.fs.Path
        self._files = self._path_class(path).getFileSystem(configuration)

    def whole(self, path: str) -> str:
        return str(self._files.makeQualified(self._path_class(path)).toString()).rstrip("/")

    def exists(self, path: str) -> bool:
        return bool(self._files.exists(self._path_class(path)))

    def in_folder(self, path: str) -> list[FoundFile]:
        """Sorted by name; empty if there is no such folder."""
        if not self.exists(path):
            return []
        found = [_found(status) for status in self._files.listStatus(self._path_class(path))]
        return sorted(found, key=lambda each: each.name)

    def below(self, path: str) -> Iterator[FoundFile]:
        """All files in this folder and its subfolders."""
        for each in self.in_folder(path):
            if each.is_folder:
                yield from self.below(each.path)
            else:
                yield each

    def make_folder(self, path: str) -> None:
        self._files.mkdirs(self._path_class(path))

    def remove(self, path: str) -> None:
        """Remove a file or a folder with its contents; a missing one is ignored."""
        self._files.delete(self._path_class(path), True)

    def move(self, source: str, target: str) -> None:
        """Move within this file system. The target must not exist."""
        self.make_folder(target.rpartition("/")[0])
        if not self._files.rename(self._path_class(source), self._path_class(target)):
            raise OSError(f"{source} cannot be moved to {target}")

    def read_text(self, path: str) -> str:
        stream = self._files.open(self._path_class(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write_json(self, path: str, content: Any) -> None:
        """Write a new file: whole, or not at all when the process is killed meanwhile."""
        aside = f"{path}.{uuid4().hex}{UNFINISHED}"
        stream = self._files.create(self._path_class(aside), True)
        try:
            stream.write(bytearray(json.dumps(content).encode()))
            stream.hsync()
        finally:
            stream.close()
        self.move(aside, path)


class Versions:
    """A small JSON value that changes, as files 0000000001.json and on: the last one counts.

    To rename a file over another is atomic on some file systems only; a new name is on all.
    """

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder

    def latest(self) -> Any:
        """None if there is no file."""
        numbers = self._numbers()
        return json.loads(self._files.read_text(self._path(numbers[-1]))) if numbers else None

    def add(self, content: Any) -> None:
        numbers = self._numbers()
        self._files.write_json(self._path((numbers or [0])[-1] + 1), content)
        for number in numbers:
            self._files.remove(self._path(number))

    def _numbers(self) -> list[int]:
        names = [each.name for each in self._files.in_folder(self._folder)]
        return [int(name.removesuffix(JSON)) for name in names if name.endswith(JSON)]

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:010d}{JSON}"


def _found(status: Any) -> FoundFile:
    path = status.getPath()
    return FoundFile(str(path.toString()), str(path.getName()), int(status.getLen()), bool(status.isDirectory()))

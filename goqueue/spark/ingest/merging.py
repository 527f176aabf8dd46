"""Merges small files of a day into one: each micro-batch leaves some, and a reader opens them all.

The merged file is written to `staging`; then one commit names it and the files that it replaces (tablefolder.py).
After a kill at any moment the next run finishes it or knows nothing of it. For a moment a reader may see both, as
in any folder of Parquet files that is written to.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.spark.files import FoundFile
from goqueue.spark.ingest.tablefolder import PARQUET, Commit, TableFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

MIB = 1024 * 1024
SMALL_BYTES = 32 * MIB
MERGED_BYTES_MAX = 128 * MIB


@dataclass(frozen=True, slots=True)
class Merging:
    files_max: int
    """Limit of small files in a folder; with one more they are merged."""
    small_bytes: int = SMALL_BYTES
    merged_bytes_max: int = MERGED_BYTES_MAX

    def chosen(self, files: Iterable[FoundFile]) -> list[FoundFile]:
        """The files of one folder to merge now; none if there are few."""
        small = [each for each in files if each.name.endswith(PARQUET) and each.size < self.small_bytes]
        if len(small) <= self.files_max:
            return []
        chosen, size = list[FoundFile](), 0
        for each in small:
            size += each.size
            if size > self.merged_bytes_max:
                break
            chosen.append(each)
        return chosen if len(chosen) > 1 else []


Write = Callable[[Sequence[FoundFile], str], None]
"""Writes the rows of files to a folder."""


def merge_folder(
    table: TableFolder, folder: str, merging: Merging, write: Write, check: Callable[[], None]
) -> bool:
    """Returns whether there was something to merge. `check` is called before the table is changed."""
    chosen = merging.chosen(table.files.in_folder(folder))
    if not chosen:
        return False

    def merged(name: str) -> Commit:
        staged = table.new_staging()
        write(chosen, staged)
        written = [each for each in table.files.below(staged) if each.name.endswith(PARQUET)]
        targets = [f"{folder}/part-{name}-{number:05d}{PARQUET}" for number in range(len(written))]
        moves = [(each.path, target) for each, target in zip(written, targets, strict=True)]
        return Commit(moves, [*(each.path for each in chosen), staged])

    table.replace(merged, check)
    return True


def write_merged(spark: "SparkSession", columns: "StructType", files: Sequence[FoundFile], staged: str) -> None:
    """With the columns of the table, as older files lack some. One task, which holds one row group at a time."""
    rows = spark.read.schema(columns).parquet(*(each.path for each in files))
    rows.coalesce(1).write.parquet(staged)

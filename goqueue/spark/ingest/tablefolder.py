"""A table of Parquet files that holds each message once, whenever its writer is killed.

    orders/                              the table
        log_date=2026-11-17/             one folder for each day, by the log's time in UTC
            part-0000000012-….parquet    of micro-batch 12, or a merge
        _goqueue/                        which readers of Parquet pass over, as all that begins with _
            table/                       columns, topics, checkpoint
            claims/                      who writes now
            commits/                     what is to be moved into the table, and what is to be removed
            staging/                     files that are not in the table yet
    orders_quarantine/                   the same for messages that do not fit; no part of the table

A change of the table is first written to `staging`, then recorded in one small file of `commits`, then done: files
are moved in, and files that they replace are removed. A writer that is killed before the commit leaves nothing but
files in `staging`, which the next run removes. One that is killed after it leaves a change that the next run
finishes: each step can be repeated. Spark repeats a micro-batch that it does not know to be done, with the same
number; one that has a commit is only finished.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import uuid4

from goqueue.spark.files import JSON, Files, Versions

DATE_COLUMN = "log_date"
OWN_FOLDER, QUARANTINE, CHECKPOINT = "_goqueue", "_quarantine", "_checkpoint"
PARQUET = ".parquet"
BATCH, MERGE = "batch-", "merge-"


@dataclass(frozen=True, slots=True)
class Commit:
    """A change of the table that is decided."""

    moves: list[tuple[str, str]]
    """Paths in `staging`, and their targets in a table."""
    removes: list[str] = field(default_factory=list)
    rows: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """Counts by reason."""


class TableFolder:
    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = files.whole(path)
        self.quarantine = self.path + QUARANTINE
        self._own = f"{self.path}/{OWN_FOLDER}"
        self.about = Versions(files, f"{self._own}/table")
        self.claims = f"{self._own}/claims"

    def has_rows_of_others(self) -> bool:
        return any(each.name != OWN_FOLDER for each in self.files.in_folder(self.path))

    def new_staging(self) -> str:
        """Never a folder of an earlier run: its tasks may still write there."""
        return f"{self._own}/staging/{uuid4().hex}"

    # Changes

    def take(self, number: int, write: Callable[[], Commit], check: Callable[[], None]) -> Commit:
        """Make a micro-batch part of the table. One that was taken before is only finished, and not written again.

        Spark begins a micro-batch when the one before is done for good, so earlier commits can be removed.
        `check` is called before the change is decided.
        """
        name = f"{BATCH}{number:010d}"
        for each in self.names_told():
            if each.startswith(BATCH) and each < name:
                self.forget(each)
        commit = self.told(name)
        if commit is None:
            commit = write()
            check()
            self.tell(name, commit)
        self.finish(name)
        return commit

    def replace(self, write: Callable[[str], Commit], check: Callable[[], None]) -> None:
        """Replace some files by others. `write` gets a name for them."""
        name = f"{MERGE}{uuid4().hex}"
        commit = write(name)
        check()
        self.tell(name, commit)
        self.finish(name)
        self.forget(name)

    # Commits

    def tell(self, name: str, commit: Commit) -> None:
        """Write the commit: from here on the change will be made, by this run or the next."""
        self.files.write_json(self._commit(name), asdict(commit))

    def told(self, name: str) -> Commit | None:
        if not self.files.exists(self._commit(name)):
            return None
        said: dict[str, Any] = json.loads(self.files.read_text(self._commit(name)))
        return Commit(**{**said, "moves": [(source, target) for source, target in said["moves"]]})

    def finish(self, name: str) -> None:
        """Carry out the commit, or the rest of it. A source that is missing was moved already."""
        commit = self.told(name)
        assert commit is not None
        for source, target in commit.moves:
            if self.files.exists(source):
                self.files.move(source, target)
        for path in commit.removes:
            self.files.remove(path)

    def forget(self, name: str) -> None:
        self.files.remove(self._commit(name))

    def names_told(self) -> list[str]:
        names = [each.name for each in self.files.in_folder(f"{self._own}/commits")]
        return [name.removesuffix(JSON) for name in names if name.endswith(JSON)]

    def recover(self) -> None:
        """Finish the changes that an earlier run has decided, and remove those that it has not."""
        for name in self.names_told():
            self.finish(name)
            if name.startswith(MERGE):
                self.forget(name)
        self.files.remove(f"{self._own}/staging")

    def _commit(self, name: str) -> str:
        return f"{self._own}/commits/{name}{JSON}"

    # Files

    def moves(self, staged: str, root: str, name: str) -> list[tuple[str, str]]:
        """The moves of the files that Spark wrote to `staged`, by day, into a table with names of ours."""
        found = [each for each in self.files.below(staged) if each.name.endswith(PARQUET)]
        return [
            (each.path, f"{root}/{each.path.rsplit('/', 2)[1]}/part-{name}-{number:05d}{PARQUET}")
            for number, each in enumerate(found)
        ]

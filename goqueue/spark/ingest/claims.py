"""One writer for a table at a time, on any file system.

A writer leaves a note, and then looks for the notes of others: if two come at once, both see the other's and give
up, which is safe. A note is stale when its process has ended, which is visible on the same machine, or when it was
not renewed for two minutes. A writer that was wrongly taken for dead finds its note removed, and ends before it
changes the table.
"""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from goqueue.errors import TableInUse
from goqueue.spark.files import Versions
from goqueue.spark.ingest.tablefolder import TableFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STALE_MS = 120_000
RENEW_MS = 15_000
PATIENCE_MS = 5_000
"""Limit of the wait for the other: Java ends a moment after a program that was killed."""
LOOK_AGAIN_MS = 250


class Claim:
    def __init__(self, spark: "SparkSession", table: TableFolder) -> None:
        self._java: Any = spark.sparkContext._jvm.java  # type: ignore[union-attr]
        self._table = table
        self._folder = f"{table.claims}/{uuid4().hex}"
        self._note = Versions(table.files, self._folder)
        self._renewed = 0

    def take(self) -> None:
        """Claim the table. `TableInUse` when another ingest writes."""
        self._write()
        waited = 0
        while (other := self._other()) is not None:
            if waited >= PATIENCE_MS:
                self.release()
                raise TableInUse(
                    f"{self._table.path} is being written by another ingest (process {other['process']} on "
                    f"{other['host']}). One table has one writer; end that one, or write elsewhere"
                )
            self._java.lang.Thread.sleep(LOOK_AGAIN_MS)
            waited += LOOK_AGAIN_MS

    def renew(self) -> None:
        """Call it often: it writes only when it is time to."""
        if self._now() - self._renewed > RENEW_MS:
            self.check()
            self._write()

    def check(self) -> None:
        """Call it before the table is changed."""
        if self._note.latest() is None:
            raise TableInUse(f"another ingest has taken over {self._table.path}; this one has ended itself")

    def release(self) -> None:
        self._table.files.remove(self._folder)

    def _write(self) -> None:
        self._renewed = self._now()
        process = self._java.lang.ProcessHandle.current()
        note = {"host": self._host(), "process": process.pid(), "started": self._started(process)}
        self._note.add({**note, "renewed_ms": self._renewed})

    def _other(self) -> dict[str, Any] | None:
        """The note of another writer that is alive; stale notes are removed."""
        for each in self._table.files.in_folder(self._table.claims):
            if each.path == self._folder or each.name == self._folder.rpartition("/")[2]:
                continue
            note: dict[str, Any] | None = Versions(self._table.files, each.path).latest()
            if note is not None and self._is_alive(note):
                return note
            if note is not None:  # else it is just being written, or empty
                self._table.files.remove(each.path)
        return None

    def _is_alive(self, note: dict[str, Any]) -> bool:
        if note["host"] == self._host():
            process = self._java.lang.ProcessHandle.of(note["process"])
            return bool(process.isPresent()) and self._started(process.get()) == note["started"]
        return bool(self._now() - note["renewed_ms"] < STALE_MS)

    def _host(self) -> str:
        """The machine's own name, which needs no network."""
        return str(self._java.lang.System.getenv("HOSTNAME") or self._java.net.InetAddress.getLoopbackAddress())

    @staticmethod
    def _started(process: Any) -> str:
        return str(process.info().startInstant().toString())

    def _now(self) -> int:
        return int(self._java.lang.System.currentTimeMillis())

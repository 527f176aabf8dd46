"""The schema registry on disk: the log `__schemas`.

What was answered is claimed durably before the answer, not only durable: schemas change rarely, and a claim costs
one more sync. So a damaged end is always recognised as damage, and never taken for a torn tail, which would let ids
be given again that messages carry already.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress

import trio

from goqueue.core.names import SCHEMAS_LOG
from goqueue.core.schemas.entries import RegistryEntry
from goqueue.core.schemas.moment import RegistryMoment
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.errors import DiskFull, TooManyFiles, UnknownFormat
from goqueue.storage.directory.datadirectory import recovery_command
from goqueue.storage.directory.folders import LOGS
from goqueue.storage.directory.pieces import LongList, pieces_of
from goqueue.storage.directory.recordlog import RecordLog
from goqueue.storage.directory.schemafiles import SchemaFiles
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices
from goqueue.types import Microseconds, Offset

SCHEMAS = f"{LOGS}/{SCHEMAS_LOG}"
"""Below the data directory; its one partition is 0."""


class StoredSchemas:
    def __init__(self, log: RecordLog, registry: SchemaRegistry, reports: Sequence[str] = ()) -> None:
        self._log = log
        self._changing = trio.Lock()
        self._undurable: deque[tuple[Offset, RegistryEntry]] = deque()
        self.registry = registry
        """As all entries make it that were written, also those that are not durable yet."""
        self.reports = reports

    @classmethod
    async def open(cls, volume: Volume, data: str) -> "StoredSchemas":
        """`UnknownFormat` when it is damaged or gone, or was written by a newer goqueue."""
        if not volume.disk.is_directory(f"{data}/{SCHEMAS}") and SchemaFiles(volume, data).highest():
            raise UnknownFormat(
                f"the schema registry is gone: there are files of schemas, and {data}/{SCHEMAS} is missing; put it "
                f"back, or run `{recovery_command(data, 'schemas')}`, which gives no id again"
            )
        log, found = await RecordLog.open(volume, f"{data}/{SCHEMAS}/0")
        try:
            registry, slices = SchemaRegistry(), Slices()
            for record in found.records:
                registry.apply(record)
                await slices.step()
        except BaseException:
            log.abandon()
            raise
        return cls(log, registry, found.reports)

    def changing(self) -> AbstractAsyncContextManager[None]:
        """For the time from a decision to its entry: nobody else writes meanwhile."""
        return self._changing

    async def write(self, entry: RegistryEntry, now: Microseconds) -> None:
        """Applied at once, durable after `commit`: nobody is answered before. On a full disk nothing changes."""
        assert self._changing.locked(), "what was decided may be different by now"
        place = self._log.written
        await self._log.append([entry], now)
        self._undurable.append((place, entry))
        self.registry.apply(entry)

    async def commit(self) -> list[RegistryEntry]:
        """Make everything durable, and claim it; returns the entries that became so, in order, each once."""
        if not self._log.is_durable:
            await self._log.commit()
        if not self._log.is_claimed:
            with suppress(DiskFull, TooManyFiles):  # durable it is; the next one claims it too
                await self._log.checkpoint()
        durable, became = self._log.durable, list[RegistryEntry]()
        while self._undurable and self._undurable[0][0] < durable:
            became.append(self._undurable.popleft()[1])
        return became

    @property
    def has_grown(self) -> bool:
        return self._log.has_grown

    async def shrink(self, now: Microseconds) -> None:
        """Let a snapshot stand for all entries. Changes wait until it is written."""
        async with self._changing:
            slices = Slices()
            pieces = await packed(self.registry.moment(), slices)
            with suppress(DiskFull, TooManyFiles):
                await self._log.replace_in_slices(pieces, now, slices)

    async def close(self) -> None:
        await self._log.close()

    def abandon(self) -> None:
        self._log.abandon()


async def packed(moment: RegistryMoment, slices: Slices) -> list[bytes]:
    """The snapshot of this moment, in pieces."""
    schemas = LongList("schemas", len(moment.schemas), moment.plain_schemas())
    subjects = LongList("subjects", len(moment.subjects), moment.plain_subjects())
    pieces = list[bytes]()
    for piece in pieces_of(moment.frame(), schemas, subjects):
        pieces.append(piece)
        await slices.step()
    return pieces

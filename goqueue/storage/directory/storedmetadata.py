"""The metadata of a broker on disk: the log `__metadata`, and the register of groups of earlier versions.

Earlier versions kept the groups in a journal of their own. It is imported once, in steps that a crash may separate:

    the register is read, and not changed
    a snapshot with its groups is written to the metadata, durably
    the register is renamed to `registry.imported`

As long as the metadata speaks of no groups, a start imports the register. Later it only sets aside one that is
still there. A damaged register is imported as far as it is sound, and marked as doubtful durably: the broker looks
for the groups that it lacks in the partitions (actors/groups/adoption.py), if not in this life then in the next. A
register of an unknown version is left as it is: then no group can be used, and the topics go on.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import msgpack

from goqueue.core.groups.registry import GroupRegistry
from goqueue.core.metadata.metadata import BrokerMetadata, group_record, with_groups
from goqueue.core.topics.metadata import MetadataRecord
from goqueue.errors import Closed, DiskFull, StorageError, TooManyFiles, UnknownFormat
from goqueue.storage.directory.recordlog import LoadedRecords, RecordLog
from goqueue.storage.directory.topiclist import LIST
from goqueue.storage.journals.groups import GROUPS, has_old_register, read_old_register, set_aside
from goqueue.storage.log.volume import Volume
from goqueue.types import Microseconds


class StoredMetadata:
    def __init__(self, volume: Volume, data: str, log: RecordLog, found: LoadedRecords) -> None:
        self._volume = volume
        self._data = data
        self._log = log
        self._why_no_groups: StorageError | None = None
        self.metadata = BrokerMetadata()
        for record in found.records:
            self.metadata.apply(record)
        self.reports = found.reports
        """What was lost or cut when it was opened, and what was imported."""

    @classmethod
    async def open(cls, volume: Volume, data: str, now: Microseconds) -> "StoredMetadata":
        """`UnknownFormat` when it is damaged, or was written by a newer goqueue."""
        log, found = await RecordLog.open(volume, f"{data}/{LIST}/0")
        try:
            stored = cls(volume, data, log, found)
            await stored._take_old_register(now)
        except BaseException:
            log.abandon()
            raise
        if found.torn:
            await stored._doubt_groups(now)
        volume.journals.enter(GROUPS, stored._packed_groups)
        return stored

    async def _take_old_register(self, now: Microseconds) -> None:
        if not has_old_register(self._volume, self._data):
            return
        if not self.metadata.has_groups:
            try:
                await self._import_old_register(now)
            except (UnknownFormat, DiskFull) as error:
                self._why_no_groups = error
                return
        for old, kept in await set_aside(self._volume, self._data):
            self.reports.append(f"the groups of {old} are part of the metadata now; it is kept as {kept}")

    async def _import_old_register(self, now: Microseconds) -> None:
        """On a full disk with the help of the reserve: the space of the records before it is free afterwards."""
        found = await read_old_register(self._volume, self._data)
        snapshot = with_groups(self.metadata.topics.snapshot(), found.registry.snapshot())
        await self._volume.reserve.with_room(partial(self._log.replace, snapshot, now))
        self.metadata.apply(snapshot)
        self.reports += found.reports

    async def _doubt_groups(self, now: Microseconds) -> None:
        """The torn end may have held entries of the second before it. That is known only now, so it is written."""
        self.metadata.groups.is_doubtful = True
        if self.metadata.has_groups:
            with suppress(DiskFull):
                await self.write([group_record(self.metadata.groups.doubt())], now)
                await self._log.commit()

    @property
    def why_no_groups(self) -> str:
        """Why no group can be used; empty when groups can."""
        return "" if self._why_no_groups is None else self._why_no_groups.message

    @property
    def groups(self) -> GroupRegistry:
        """Raises the reason when no group can be used."""
        if self._why_no_groups is not None:
            raise UnknownFormat(self._why_no_groups.message)
        return self.metadata.groups

    async def write(self, records: Sequence[MetadataRecord], now: Microseconds) -> None:
        """Applied at once, durable after `commit`: nobody is answered before. On a full disk nothing changes."""
        await self._log.append(records, now)
        for record in records:
            self.metadata.apply(record)

    async def commit(self) -> bool:
        """Make everything durable; returns whether something is to be claimed."""
        if not self._log.is_durable:
            await self._log.commit()
        return not self._log.is_claimed

    async def claim(self, now: Microseconds) -> None:
        """Claim durably what is durable, so that a start knows what it lost; a log that has grown becomes a
        snapshot, which claims it too. Changes may go on meanwhile: they follow it."""
        with suppress(Closed, DiskFull, TooManyFiles):  # the next claim, or the close, claims it too
            if self._log.has_grown:
                await self._log.replace(self.metadata.snapshot(), now)
            else:
                await self._log.checkpoint()

    def _packed_groups(self) -> bytes | None:
        """For a backup; None when no group can be used."""
        if self._why_no_groups is not None:
            return None
        packed: bytes = msgpack.packb(self.metadata.groups.snapshot())
        return packed

    async def close(self) -> None:
        self._volume.journals.leave(GROUPS, self._packed_groups)
        await self._log.close()

    def abandon(self) -> None:
        self._volume.journals.leave(GROUPS, self._packed_groups)
        self._log.abandon()

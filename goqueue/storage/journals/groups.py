"""The groups of a node on disk: the journal `{data}/groups/registry`, one entry for each change.

An unknown group would be created again with another id, and all its progress would be lost (G13). So losses are
reported: the broker then looks for groups in the ledgers of the partitions, which name them
(actors/groups/adoption.py). Only an unknown version stops the start.
"""

import msgpack

from goqueue.core.groups.registry import GroupRegistry, RegistryEntry
from goqueue.errors import UnknownFormat
from goqueue.storage.journals.file import Replay
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume

GROUPS, REGISTRY = "groups", "registry"
COMPACTED_FROM = 1024 * 1024
GROWTH_MAX = 4
"""The journal is compacted once it is larger than `COMPACTED_FROM`, and this many times the last snapshot."""


class StoredRegistry:
    def __init__(self, volume: Volume, journal: Journal, registry: GroupRegistry, reports: list[str]) -> None:
        self.reports = reports
        """What was lost or cut when it was opened, and where the copy lies."""
        self._volume = volume
        self._journal = journal
        self._compacted_size = journal.size
        self.registry = registry
        volume.journals.enter(GROUPS, self.snapshot)

    @classmethod
    async def open(cls, volume: Volume, data: str) -> "StoredRegistry":
        journal, found = await Journal.open(volume, f"{data}/{GROUPS}", REGISTRY)
        try:
            registry, passed_over = replayed(found)
            if passed_over:
                found.reports.append(f"{passed_over} entries of {data}/{GROUPS}/{REGISTRY} speak of lost groups")
            return cls(volume, journal, registry, found.reports)
        except BaseException:
            journal.abandon()
            raise

    def write(self, entry: RegistryEntry) -> None:
        """Applied at once, durable after `commit`: nobody is answered before. On a full disk nothing changes."""
        self._journal.append([msgpack.packb(entry)])
        self.registry.apply(entry)

    async def commit(self) -> None:
        await self._journal.commit()

    def claim(self) -> None:
        """Say how much is durable, so that a start knows what it lost."""
        self._journal.claim()

    @property
    def wants_compaction(self) -> bool:
        return self._journal.size > max(COMPACTED_FROM, GROWTH_MAX * self._compacted_size)

    def snapshot(self) -> bytes:
        """The state that replaces all entries."""
        packed: bytes = msgpack.packb(self.registry.snapshot())
        return packed

    async def compact(self) -> None:
        snapshot = self.snapshot()
        await self._journal.compact(snapshot)
        self._compacted_size = len(snapshot)

    async def close(self) -> None:
        self._volume.journals.leave(GROUPS, self.snapshot)
        await self._journal.close()

    def abandon(self) -> None:
        self._volume.journals.leave(GROUPS, self.snapshot)
        self._journal.abandon()


def replayed(found: Replay) -> tuple[GroupRegistry, int]:
    """The register, and the number of entries that did not fit since others were lost before them."""
    registry, passed_over = GroupRegistry(), 0
    for payload in [*([found.snapshot] if found.snapshot is not None else []), *found.entries]:
        entry = _unpacked(payload)
        if found.lost and not registry.fits(entry):
            passed_over += 1
        else:
            registry.apply(entry)
    return registry, passed_over


def _unpacked(payload: bytes) -> object:
    try:
        return msgpack.unpackb(payload)
    except (ValueError, msgpack.UnpackException) as error:
        raise UnknownFormat("an entry of the groups is not msgpack") from error

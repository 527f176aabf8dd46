"""The register of groups as earlier versions wrote it: a journal of its own, beside a list of topics only."""

from collections.abc import Sequence

import msgpack
from crc32c import crc32c

from goqueue.core.groups.registry import GroupRegistry, RegistryEntry
from goqueue.core.metadata.metadata import BrokerMetadata
from goqueue.storage.directory.recordlog import RecordLog
from goqueue.storage.journals.file import FrameKind, encode_frame
from goqueue.storage.journals.groups import GROUPS, REGISTRY
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import mounted

OLD_REGISTER = f"/data/{GROUPS}/{REGISTRY}"
LIST = "/data/logs/__metadata/0"


def entries_of(*names: str) -> list[RegistryEntry]:
    """Groups with these names, numbered from 0 on."""
    return [GroupRegistry().make(name, number) for number, name in enumerate(names)]


async def write_old_register(volume: Volume, entries: Sequence[RegistryEntry], *, is_orderly: bool = True) -> None:
    """Each entry committed on its own, and all of them claimed; with a mark at its end if the stop was orderly."""
    journal, _ = await Journal.open(volume, f"/data/{GROUPS}", REGISTRY)
    for entry in entries:
        journal.append([msgpack.packb(entry)])
        await journal.commit()
    journal.claim()
    if is_orderly:
        await journal.close()
    else:
        journal.abandon()


async def write_copied_journal(volume: Volume, directory: str, name: str, snapshot: bytes) -> int:
    """A journal in a backup of an earlier version, a single frame; returns its checksum."""
    await volume.make_directories(directory)
    await volume.replace(directory, name, [encode_frame(FrameKind.SNAPSHOT, 0, 1, snapshot)])
    return crc32c(snapshot)


async def as_earlier_backup(disk: SimulatedDisk, path: str) -> None:
    """Turn a backup into one of an earlier version, whose groups are in a journal."""
    async with mounted(disk) as volume:
        log, found = await RecordLog.open(volume, f"{path}/logs/__metadata/0")
        [snapshot] = found.records
        assert isinstance(snapshot, dict)
        await write_copied_journal(volume, f"{path}/{GROUPS}", REGISTRY, msgpack.packb(snapshot.pop("groups")))
        await log.replace(snapshot, 0)
        await log.close()


async def as_before_the_import(
    disk: SimulatedDisk, *, is_orderly: bool = False, more: Sequence[RegistryEntry] = ()
) -> bool:
    """Turn the directory into one of an earlier version: groups out of the metadata, into a journal.

    `more`: entries behind those that are known. False if the metadata speak of no groups, or not of all of
    them.
    """
    async with mounted(disk) as volume:
        log, found = await RecordLog.open(volume, LIST)
        metadata = BrokerMetadata()
        for record in found.records:
            metadata.apply(record)
        if not metadata.has_groups or metadata.groups.is_doubtful:
            await log.close()
            return False
        await log.replace(metadata.topics.snapshot(), 0)
        await log.close()
        for name in disk.list(f"/data/{GROUPS}") if disk.is_directory(f"/data/{GROUPS}") else []:
            disk.remove(f"/data/{GROUPS}/{name}")
        await write_old_register(volume, [*_entries(metadata.groups), *more], is_orderly=is_orderly)
    return True


def _entries(groups: GroupRegistry) -> list[RegistryEntry]:
    """As they could have been said one by one."""
    said = [entry for group in groups for entry in _said_of(groups, group.name)]
    return [*said, *([groups.snapshot()] if groups.leaving() else [])]


def _said_of(groups: GroupRegistry, name: str) -> list[RegistryEntry]:
    group = groups.group(name)
    entries = [groups.remake(name, group.id), groups.reserve(name, group.generation)]
    if group.settings is not None:
        entries.append(groups.fix(name, group.settings))
    for topic in group.topics.values():
        entries.append(groups.begin(name, topic))
        entries.append(groups.attach(name, topic.name, topic.uuid, topic.attached))
    return [*entries, groups.remember(name, group.members)]

"""Compares the groups in the metadata with the ledgers of the partitions: each names what the other has lost.

A running broker may create or delete a group between two reads. So everything is read twice, and only what is wrong
both times is reported.
"""

import json
from collections.abc import Iterator
from uuid import UUID

from goqueue.core.groups.registry import GroupRegistry
from goqueue.errors import StorageError
from goqueue.storage.directory.folders import IDENTITY, IDENTITY_SIZE_MAX
from goqueue.storage.directory.topiclist import LIST, read_topic_list
from goqueue.storage.journals.claim import read_claim
from goqueue.storage.journals.file import Replay, replay
from goqueue.storage.journals.groups import has_old_register, read_old_register
from goqueue.storage.journals.journal import JOURNAL_SIZE_MAX
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import FOLDER, JOURNAL, ids_in, ids_in_journal
from goqueue.storage.snapshotlog.reading import read_records
from goqueue.storage.verification.findings import Finding, FindingKind


async def check_groups(volume: Volume, data: str, folders: list[str]) -> list[Finding]:
    """`folders` are those of the partitions. What cannot be read is not compared."""
    found = await _Look(volume, data, folders).run()
    if not found:
        return []
    again = await _Look(volume, data, folders).run()
    return [finding for finding in found if finding in again]


class _Look:
    def __init__(self, volume: Volume, data: str, folders: list[str]) -> None:
        self._volume = volume
        self._data = data
        self._folders = folders

    async def run(self) -> list[Finding]:
        try:
            registry = await self._registry()
        except StorageError:
            return []  # its own check says why
        findings = list[Finding]()
        for folder in self._folders:
            ledgers = await self._ledgers(folder)
            if ledgers is not None:
                findings += self._lost_ledgers(registry, folder, ledgers, await self._uuid(folder))
                findings += self._lost_groups(registry, folder, ledgers)
        return findings

    async def _registry(self) -> GroupRegistry:
        """The groups in the metadata, or those that the next start imports."""
        listed = await read_topic_list(self._volume, f"{self._data}/{LIST}/0")
        if listed.metadata.has_groups or not has_old_register(self._volume, self._data):
            return listed.metadata.groups
        return (await read_old_register(self._volume, self._data)).registry

    async def _journal(self, path: str) -> Replay:
        """The journal as a start would replay it."""
        claim = await read_claim(self._volume, path)
        try:
            data = await self._volume.read_whole(path, JOURNAL_SIZE_MAX)
        except FileNotFoundError:
            return Replay()
        return replay(data, claim=claim)

    async def _ledgers(self, folder: str) -> dict[str, int] | None:
        try:
            if self._volume.disk.is_directory(f"{folder}/{FOLDER}"):
                return ids_in((await read_records(self._volume, f"{folder}/{FOLDER}")).items)
            return ids_in_journal(await self._journal(f"{folder}/{JOURNAL}"))
        except StorageError:
            return None

    async def _uuid(self, folder: str) -> UUID | None:
        try:
            data = await self._volume.read_whole(f"{folder}/{IDENTITY}", IDENTITY_SIZE_MAX)
            return UUID(json.loads(data)["uuid"])
        except (FileNotFoundError, StorageError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def _lost_ledgers(
        self, registry: GroupRegistry, folder: str, ledgers: dict[str, int], uuid: UUID | None
    ) -> Iterator[Finding]:
        *_, topic, number = folder.split("/")
        for group in registry:
            seen = group.topics.get(topic)
            is_expected = (
                seen is not None and seen.uuid == uuid and number.isdecimal() and int(number) < seen.attached
            )
            if is_expected and ledgers.get(group.name) != group.id:
                text = (
                    f"the ledger of group {group.name} is lost; at the next start the group begins at the earliest"
                )
                yield Finding(FindingKind.LOST_LEDGER, f"{folder}/{FOLDER}", text)

    def _lost_groups(self, registry: GroupRegistry, folder: str, ledgers: dict[str, int]) -> Iterator[Finding]:
        leaving = {(group.name, group.id) for group in registry.leaving()}
        for name, group_id in ledgers.items():
            if registry.find(name) is None and (name, group_id) not in leaving:
                text = f"it lacks group {name}, whose ledger is in {folder}; the next start adopts the group"
                yield Finding(FindingKind.LOST_GROUP, f"{self._data}/{LIST}/0", text)

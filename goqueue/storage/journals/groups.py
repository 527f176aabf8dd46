"""The register of groups as earlier versions kept it: the journal `{data}/groups/registry`.

Groups are part of the metadata now. A start reads the old register once, writes its groups to the metadata durably,
and then sets the file aside (storage/directory/storedmetadata.py). Nothing here changes the journal itself.

An unknown group would be created again with another id, and all its progress would be lost (G13). So losses are
reported: the broker then looks for groups in the ledgers of the partitions, which name them
(actors/groups/adoption.py). An unknown version raises `UnknownFormat`.
"""

from dataclasses import dataclass, field

import msgpack

from goqueue.core.groups.registry import GroupRegistry
from goqueue.errors import UnknownFormat
from goqueue.storage.journals.claim import SUFFIX, read_claim
from goqueue.storage.journals.file import NEW, Replay, replay
from goqueue.storage.journals.journal import JOURNAL_SIZE_MAX, Journal
from goqueue.storage.log.volume import TEMPORARY, Volume

GROUPS, REGISTRY = "groups", "registry"
IMPORTED = ".imported"


@dataclass(frozen=True, slots=True)
class OldRegister:
    registry: GroupRegistry
    """Doubtful if anything was lost or cut."""
    reports: list[str] = field(default_factory=list)
    """What was lost or cut."""


def has_old_register(volume: Volume, data: str) -> bool:
    return Journal.is_there(volume, f"{data}/{GROUPS}", REGISTRY)


async def read_old_register(volume: Volume, data: str) -> OldRegister:
    """Its groups, as far as they are sound. Changes nothing on disk."""
    path, disk = f"{data}/{GROUPS}/{REGISTRY}", volume.disk
    claim = await read_claim(volume, path)
    is_new = not claim and not disk.exists(path)  # created and never committed: nothing in it was promised
    source = path + NEW if is_new else path
    contents = await volume.read_whole(source, JOURNAL_SIZE_MAX) if disk.exists(source) else b""
    found = replay(contents, claim=claim, is_new=is_new)
    registry, passed_over = replayed(found)
    reports = _reports(source, found, passed_over)
    if reports:
        registry.apply(registry.doubt())
    return OldRegister(registry, reports)


def _reports(path: str, found: Replay, passed_over: int) -> list[str]:
    reports = [f"{path} {lost}" for lost in found.lost]
    if found.torn_size:
        reports.append(f"{path} had a torn tail of {found.torn_size} bytes, which nobody was promised")
    if passed_over:
        reports.append(f"{passed_over} entries of {path} speak of lost groups")
    return reports


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


async def set_aside(volume: Volume, data: str) -> list[tuple[str, str]]:
    """Rename the old register, once its groups are durable elsewhere; returns old and new names. Its claim goes."""
    folder, disk, kept = f"{data}/{GROUPS}", volume.disk, list[tuple[str, str]]()
    for old in (f"{folder}/{REGISTRY}", f"{folder}/{REGISTRY}{NEW}"):
        if disk.exists(old):
            kept.append((old, f"{folder}/{_free_name(volume, folder)}"))
            disk.rename(*kept[-1])
    for suffix in (SUFFIX, TEMPORARY):
        if disk.exists(f"{folder}/{REGISTRY}{suffix}"):
            disk.remove(f"{folder}/{REGISTRY}{suffix}")
    await volume.sync(directories=[folder])
    return kept


def _free_name(volume: Volume, folder: str) -> str:
    """No earlier one is overwritten (G13)."""
    number, name = 1, f"{REGISTRY}{IMPORTED}"
    while volume.disk.exists(f"{folder}/{name}"):
        number += 1
        name = f"{REGISTRY}-{number}{IMPORTED}"
    return name

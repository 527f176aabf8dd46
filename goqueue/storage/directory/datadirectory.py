"""The data directory: held by one process, marked with its format, its cluster and its node.

{data}/lock        locked while a process uses the directory; names its pid
{data}/meta.json   {"format": 1, "cluster": UUID, "node": id, "crc32c": of these}; every format has its number there
{data}/logs/{topic}/{partition}/…
{data}/incomplete  while a backup or a restore is being written here, and after one that was cut short
{data}/recovered-topics, {data}/recovered-schemas  while `goqueue recover` works, and after one that was cut short
"""

import json
from dataclasses import dataclass
from random import Random
from typing import NamedTuple
from uuid import UUID

from crc32c import crc32c

from goqueue.core.names import METADATA_LOG, SCHEMAS_LOG
from goqueue.environment import DirectoryLock
from goqueue.errors import IncompleteCopy, UnknownFormat
from goqueue.storage.checkedjson import is_sound, pack
from goqueue.storage.directory.foreign import foreign_directory, foreign_names
from goqueue.storage.log.volume import Volume

FORMAT = 1
LOCK, META, INCOMPLETE = "lock", "meta.json", "incomplete"
RECOVERED_TOPICS = "recovered-topics"
"""The rebuilt list of topics, until it replaces the old one."""
RECOVERED_SCHEMAS = "recovered-schemas"
RECOVERIES = ((RECOVERED_TOPICS, METADATA_LOG, "topics"), (RECOVERED_SCHEMAS, SCHEMAS_LOG, "schemas"))
"""The folder of each recovery, the log that it replaces, and the command's word for it."""
META_SIZE_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Meta:
    cluster: UUID
    node: str


@dataclass(frozen=True, slots=True)
class DataDirectory:
    path: str
    meta: Meta
    is_new: bool
    """There were no data in it before."""
    reports: tuple[str, ...]
    """For the operator: what was not as expected, and what the broker did about it."""
    _lock: DirectoryLock

    @classmethod
    async def open(cls, volume: Volume, path: str, *, node: str, random: Random) -> "DataDirectory":
        """Lock the directory, and create it when it is new. A failed start leaves no lock behind."""
        await _check_not_foreign(volume, path)
        await volume.make_directories(path)
        lock = volume.disk.lock(f"{path}/{LOCK}")
        try:
            _check_complete(volume, path)
            _check_recovered(volume, path)
            found = await _read_meta(volume, path)
            meta, reports = found.meta or Meta(_new_uuid(random), node), found.reports
            if found.meta is None:
                await write_meta(volume, path, meta)
        except BaseException:
            lock.release()
            raise
        return cls(path, meta, found.is_new, reports, lock)

    def log_directory(self, topic: str, partition: int) -> str:
        return f"{self.path}/logs/{topic}/{partition}"

    def release(self) -> None:
        self._lock.release()


async def _check_not_foreign(volume: Volume, path: str) -> None:
    """Before anything is written. A directory that a sound mark names as a broker's may have other files."""
    names = foreign_names(volume, path)
    is_marked = bool(names) and volume.disk.exists(f"{path}/{META}")
    if names and not (is_marked and _parse(path, await _meta_bytes(volume, path))):
        raise foreign_directory(path, names)


def _check_complete(volume: Volume, path: str) -> None:
    """Half a copy must not be served: messages that are missing would be missing for good."""
    if volume.disk.exists(f"{path}/{INCOMPLETE}"):
        raise IncompleteCopy(
            f"{path} holds a backup or a restore that is under way or was cut short; "
            "remove all that is in it and run it again, or choose another directory"
        )


def _check_recovered(volume: Volume, path: str) -> None:
    """Between the two renames of a recovery there is no log: all topics would count as unknown, all ids as free."""
    for beside, log, what in RECOVERIES:
        if volume.disk.exists(f"{path}/{beside}") and not volume.disk.exists(f"{path}/logs/{log}"):
            command = f"{recovery_command(path, what)} --write"
            raise UnknownFormat(f"the recovery of the {what} in {path} was cut short; run `{command}`")


def recovery_command(path: str, what: str = "topics") -> str:
    return f"goqueue recover {what} --data {path}"


def _new_uuid(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)


class _FoundMeta(NamedTuple):
    meta: Meta | None = None
    is_new: bool = False
    reports: tuple[str, ...] = ()


async def _read_meta(volume: Volume, path: str) -> _FoundMeta:
    """What the directory is marked with; a mark that is damaged is set aside."""
    if volume.disk.exists(f"{path}/{META}"):
        data = await _meta_bytes(volume, path)
        meta = _parse(path, data)
        if meta is not None:
            return _FoundMeta(meta)
        kept = f"{META}.{crc32c(data):08x}.damaged"  # named by its contents: no copy replaces another
        await volume.replace(path, kept, [data])
        report = f"{path}/{META} was damaged; it is kept as {kept} and a new one was written"
    elif volume.disk.is_directory(f"{path}/logs"):
        report = f"{path}/{META} was missing beside existing logs; a new one was written"
    else:
        return _FoundMeta(is_new=True)
    return _FoundMeta(reports=(report,))


async def _meta_bytes(volume: Volume, path: str) -> bytes:
    if volume.disk.size(f"{path}/{META}") > META_SIZE_MAX:
        raise UnknownFormat(f"{path}/{META} is too large to be goqueue's; look what else uses the folder")
    return await volume.read_whole(f"{path}/{META}", META_SIZE_MAX)


async def write_meta(volume: Volume, path: str, meta: Meta) -> None:
    fields = {"format": FORMAT, "cluster": str(meta.cluster), "node": meta.node}
    await volume.replace(path, META, [pack(fields, indent=2)])


def _parse(path: str, data: bytes) -> Meta | None:
    """The contents, or None when it is damaged. The format is checked first: another one may have other fields."""
    try:
        fields = json.loads(data)
        written_format = fields["format"]
        if written_format != FORMAT:
            raise UnknownFormat(f"{path} has format {written_format}; this goqueue reads format {FORMAT}")
        return Meta(UUID(fields["cluster"]), str(fields["node"])) if is_sound(fields) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None

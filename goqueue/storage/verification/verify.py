"""Checks whether everything in a data directory is as it was written, without changing anything in it.

Files are opened for reading only and no lock is taken, so it also works beside a running broker. Log files are read
window by window; memory holds one window and the findings.
"""

import json
from collections.abc import Iterator
from uuid import UUID

from goqueue.environment import Disk
from goqueue.errors import StorageError, UnknownFormat
from goqueue.storage.checkedjson import is_sound
from goqueue.storage.directory.datadirectory import FORMAT, INCOMPLETE, LOCK, META, META_SIZE_MAX
from goqueue.storage.directory.folders import IDENTITY, IDENTITY_SIZE_MAX
from goqueue.storage.disk.reserve import RESERVE
from goqueue.storage.journals.claim import SUFFIX
from goqueue.storage.journals.groups import IMPORTED
from goqueue.storage.journals.journal import DAMAGED, TORN
from goqueue.storage.log.segment import LOG
from goqueue.storage.log.volume import TEMPORARY, Volume
from goqueue.storage.snapshotlog.ledgers import FOLDER
from goqueue.storage.verification.delaycheck import check_delays, is_delay_index
from goqueue.storage.verification.findings import Finding, FindingKind, JournalReport, PartitionReport, Report
from goqueue.storage.verification.groupcheck import check_groups
from goqueue.storage.verification.journalcheck import check_claim, check_journal
from goqueue.storage.verification.partitioncheck import belongs_to_partition, check_partition, holds_partition
from goqueue.storage.verification.schemacheck import check_schemas
from goqueue.storage.verification.segmentcheck import ScanProgress
from goqueue.storage.verification.topiccheck import check_topics

LOGS, DELETED = "logs", "deleted"
DEPTH_MAX = 8
"""Maximum depth of nested folders that are searched; the layout needs three."""


class NoProgress:
    def begin(self, total_bytes: int) -> None:
        pass

    def advance(self, read_bytes: int) -> None:
        pass


async def verify(disk: Disk, path: str, progress: ScanProgress | None = None) -> Report:
    """Check a data directory, or the folder of one partition. `UnknownFormat` when it is neither."""
    return await _Verification(disk, path.rstrip("/") or "/", progress or NoProgress()).run()


class _Verification:
    def __init__(self, disk: Disk, path: str, progress: ScanProgress) -> None:
        self._disk = disk
        self._path = path
        self._progress = progress
        self._volume = Volume(disk, open_files_max=1)
        self._partitions: list[PartitionReport] = []
        self._companions: list[PartitionReport] = []
        self._journals: list[JournalReport] = []
        self._others: list[Finding] = []

    async def run(self) -> Report:
        folders = self._partition_folders()
        files = list(_files(self._disk, self._path))
        self._progress.begin(sum(self._size(file) for file in files if file.endswith(LOG)))
        try:
            await self._check(folders, files)
        finally:
            self._volume.close()
        logs = tuple(self._partitions), tuple(self._companions)
        return Report(self._path, *logs, tuple(self._journals), tuple(self._others))

    def _partition_folders(self) -> list[str]:
        if not self._disk.is_directory(self._path):
            raise UnknownFormat(f"there is no directory {self._path}; give the data directory of a broker")
        names = self._disk.list(self._path)
        if holds_partition(names):
            return [self._path]
        if not {LOGS, META, LOCK} & set(names):
            raise UnknownFormat(
                f"{self._path} is neither a data directory (with {META} or {LOGS} in it) nor a partition's folder; "
                "give the directory that a broker was started with"
            )
        topics = self._folders_in(f"{self._path}/{LOGS}")
        return [partition for topic in topics for partition in self._folders_in(topic)]

    def _folders_in(self, directory: str) -> list[str]:
        names = self._disk.list(directory) if self._disk.is_directory(directory) else []
        return [f"{directory}/{name}" for name in names if self._disk.is_directory(f"{directory}/{name}")]

    def _size(self, path: str) -> int:
        try:
            return self._disk.size(path)
        except (StorageError, FileNotFoundError):
            return 0  # the check itself will say what is wrong with it

    async def _check(self, folders: list[str], files: list[str]) -> None:
        if self._path not in folders:
            await self._check_meta()
            self._others += await check_topics(self._volume, self._path)
            self._others += await check_schemas(self._volume, self._path)
        for folder in folders:
            await self._check_log(folder, self._partitions)
            if self._disk.is_directory(f"{folder}/{FOLDER}"):
                await self._check_log(f"{folder}/{FOLDER}", self._companions)
        for file in files:
            await self._check_file(file)
        if self._path not in folders:
            self._others += await check_groups(self._volume, self._path, folders)

    async def _check_log(self, folder: str, reports: list[PartitionReport]) -> None:
        try:
            reports.append(await check_partition(self._volume, folder, self._progress))
        except FileNotFoundError:
            text = "the folder was removed before it could be read"
            self._others.append(Finding(FindingKind.REMOVED_MEANWHILE, folder, text))
        except StorageError as error:
            self._others.append(Finding(FindingKind.UNREADABLE, folder, error.message))

    async def _check_file(self, path: str) -> None:
        """A file that belongs to no log: a journal, or a part that a start set aside, or nothing of interest."""
        name = path.rpartition("/")[2]
        if name.endswith((TORN, DAMAGED)):
            text = "a start set these bytes aside; look at them with `goqueue log dump`, then remove the file"
            self._others.append(Finding(FindingKind.KEPT_ASIDE, path, text))
        elif name.endswith(IMPORTED):
            text = "its contents were imported when the broker was upgraded; remove the file when all is well"
            self._others.append(Finding(FindingKind.KEPT_ASIDE, path, text))
        elif path == f"{self._path}/{RESERVE}":
            return
        elif path == f"{self._path}/{INCOMPLETE}":
            text = "a backup or restore into this directory was not finished; make it again, into an empty one"
            self._others.append(Finding(FindingKind.INCOMPLETE, path, text))
        elif name == IDENTITY:
            await self._check_identity(path)
        elif name.endswith(SUFFIX):
            finding = await check_claim(self._volume, path)
            self._others += [finding] if finding is not None else []
        elif is_delay_index(path):
            self._others += await check_delays(self._volume, path)
        elif not belongs_to_partition(name) and name not in (LOCK, META):
            journal = await check_journal(self._volume, path)
            self._journals += [journal] if journal is not None else []

    async def _check_identity(self, path: str) -> None:
        try:
            finding = _fault_in_identity(path, await self._volume.read_whole(path, IDENTITY_SIZE_MAX))
        except FileNotFoundError:
            return  # its topic was deleted meanwhile
        except StorageError as error:
            finding = Finding(FindingKind.UNREADABLE, path, error.message)
        self._others += [finding] if finding is not None else []

    async def _check_meta(self) -> None:
        path = f"{self._path}/{META}"
        try:
            finding = _fault_in_meta(path, await self._volume.read_whole(path, META_SIZE_MAX))
        except FileNotFoundError:
            text = "it is not there; the next start writes one, with a new cluster id"
            finding = Finding(FindingKind.META_MISSING, path, text)
        except StorageError as error:
            finding = Finding(FindingKind.UNREADABLE, path, error.message)
        self._others += [finding] if finding is not None else []


def _fault_in_meta(path: str, data: bytes) -> Finding | None:
    try:
        fields = json.loads(data)
        if fields["format"] != FORMAT:
            text = f"format {fields['format']!r} is unknown; read it with the goqueue that wrote it"
            return Finding(FindingKind.UNKNOWN_FORMAT, path, text)
        UUID(fields["cluster"]), fields["node"]
        if is_sound(fields):
            return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    text = "it cannot be read; the next start keeps it aside and writes one, with a new cluster id"
    return Finding(FindingKind.META_DAMAGED, path, text)


def _fault_in_identity(path: str, data: bytes) -> Finding | None:
    try:
        fields = json.loads(data)
        UUID(fields["uuid"])
        if is_sound(fields):
            return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    text = "it cannot be read; the folder is taken to be its topic's; remove the file, and a start writes it anew"
    return Finding(FindingKind.IDENTITY_DAMAGED, path, text)


def _files(disk: Disk, directory: str, depth: int = 0) -> Iterator[str]:
    """Every file in the tree, except temporary ones and those of deleted topics."""
    try:
        names = disk.list(directory)
    except (StorageError, FileNotFoundError):
        return  # the check of a partition reports its unreadable folder
    for name in names:
        path = f"{directory}/{name}"
        if not disk.is_directory(path):
            if not name.endswith(TEMPORARY):
                yield path
        elif depth < DEPTH_MAX and not (depth == 0 and name == DELETED):
            yield from _files(disk, path, depth + 1)

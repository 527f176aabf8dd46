"""Whose a directory is, before the broker writes the first byte into it.

A data directory by a wrong name is often a directory of something else: a home, a project, a mount point. It is
recognised by names that goqueue does not use, while nothing that goqueue writes is there: neither a sound
`meta.json` nor an internal log nor a folder of a partition. What is found so is left as it is. Dot files and
`lost+found` belong to everybody, and additional files beside goqueue's own do no harm.
"""

from collections.abc import Sequence

from goqueue.core.names import INTERNAL_LOGS
from goqueue.errors import ForeignDirectory
from goqueue.storage.directory.folders import DELETED, IDENTITY, LOGS, STRAY
from goqueue.storage.log.recovery import SEGMENT_NAME
from goqueue.storage.log.volume import TEMPORARY, Volume

OF_EVERYBODY = "lost+found"
UNFINISHED = frozenset({"incomplete", "recovered-topics", "recovered-schemas"})
OWN = frozenset({"lock", "meta.json", DELETED, STRAY, "groups", "reserve", "schemas"})
DAMAGED = ".damaged"
NAMES_SHOWN_MAX = 3


def foreign_names(volume: Volume, path: str) -> list[str]:
    """The files of others, if there are some and no logs of a broker."""
    names = volume.disk.list(path) if volume.disk.is_directory(path) else []
    if not UNFINISHED.isdisjoint(names):
        return []  # another error says what is under way in it
    foreign = [name for name in names if _is_foreign(volume, path, name)]
    return foreign if foreign and not _has_logs(volume, path) else []


def foreign_directory(path: str, names: Sequence[str]) -> ForeignDirectory:
    return ForeignDirectory(
        f"{path} has files that are not goqueue's ({_some_of(names)}), and no data of a broker; nothing in it was "
        "touched: name a new or an empty directory with --data"
    )


def _is_foreign(volume: Volume, path: str, name: str) -> bool:
    if name.startswith(".") or name == OF_EVERYBODY or name.removesuffix(TEMPORARY) in OWN:
        return False
    if name == LOGS and volume.disk.is_directory(f"{path}/{name}"):
        return bool(volume.disk.list(f"{path}/{name}"))  # an empty one may be from the first moment of a start
    return not (name.startswith("meta.json.") and name.endswith(DAMAGED))


def _has_logs(volume: Volume, path: str) -> bool:
    """Whether an internal log is there, or a partition's folder with its signature or a segment."""
    disk, logs = volume.disk, f"{path}/{LOGS}"
    if not disk.is_directory(logs):
        return False
    topics = disk.list(logs)
    return not INTERNAL_LOGS.isdisjoint(topics) or any(
        _is_partition(volume, f"{logs}/{topic}/{number}")
        for topic in topics
        for number in _names_in(volume, f"{logs}/{topic}")
    )


def _names_in(volume: Volume, path: str) -> list[str]:
    return volume.disk.list(path) if volume.disk.is_directory(path) else []


def _is_partition(volume: Volume, folder: str) -> bool:
    return any(name == IDENTITY or SEGMENT_NAME.fullmatch(name) for name in _names_in(volume, folder))


def _some_of(names: Sequence[str]) -> str:
    shown = ", ".join(ascii(name) for name in names[:NAMES_SHOWN_MAX])
    return shown if len(names) <= NAMES_SHOWN_MAX else f"{shown} and {len(names) - NAMES_SHOWN_MAX} more"

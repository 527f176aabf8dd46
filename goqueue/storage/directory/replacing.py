"""Puts a new internal log in the place of a damaged one, which is set aside and never deleted (G13).

The new log is written beside the old one. A crash at any step leaves the old log or the new one in use, or neither
and the new one ready: then no broker starts, and the next recovery finishes the work.
"""

from collections.abc import Awaitable, Callable

from goqueue.storage.directory.folders import LOGS, STRAY
from goqueue.storage.log.volume import Volume


async def replace_log(
    volume: Volume, data: str, log: str, beside: str, write: Callable[[str], Awaitable[None]]
) -> str | None:
    """`write` is given the folder of the new log, in `beside`. Returns where the old one was moved. The caller
    holds the directory's lock."""
    disk, new, current = volume.disk, f"{data}/{beside}", f"{data}/{LOGS}/{log}"
    if disk.exists(current) or not disk.exists(new):  # else an earlier recovery ended after the first rename
        _clear(volume, new)
        await write(f"{new}/0")
    aside = await _set_aside(volume, data, log) if disk.exists(current) else None
    await volume.make_directories(f"{data}/{LOGS}")
    disk.rename(new, current)
    volume.forget_folders(new)
    await volume.sync(directories=[data, f"{data}/{LOGS}"])
    return aside


def _clear(volume: Volume, new: str) -> None:
    """Remove what a recovery left that was cut short before the first rename."""
    for name in volume.disk.list(f"{new}/0") if volume.disk.is_directory(f"{new}/0") else []:
        volume.disk.remove(f"{new}/0/{name}")


async def _set_aside(volume: Volume, data: str, log: str) -> str:
    await volume.make_directories(f"{data}/{STRAY}")
    number = 1
    while volume.disk.exists(f"{data}/{STRAY}/{log}-{number}"):
        number += 1
    aside = f"{STRAY}/{log}-{number}"
    volume.disk.rename(f"{data}/{LOGS}/{log}", f"{data}/{aside}")
    await volume.sync(directories=[f"{data}/{LOGS}", f"{data}/{STRAY}"])
    return aside

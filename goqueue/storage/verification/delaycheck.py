"""Checks the delay index of a partition, and lists its entries.

The log is the truth, so a damaged index is only a warning: it costs the next start some time. An index that was cut
between two entries looks as if it had never been longer, and is as true as it was then.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TypeAlias

import trio

from goqueue.core.delays.pending import DelayChange
from goqueue.errors import StorageError, UnknownFormat
from goqueue.storage.delays.entries import (
    ENTRY_SIZE,
    HEADER_SIZE,
    PIECE_SIZE,
    DelayReplay,
    decode_entries,
    is_header,
)
from goqueue.storage.delays.index import NAME
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import Finding, FindingKind

ANEW = "the next start makes it anew from the log"


@dataclass(frozen=True, slots=True)
class DelayRow:
    """An entry of a delay index."""

    position: int
    entry: DelayChange
    is_carried: bool


DelayRows: TypeAlias = AsyncGenerator[DelayRow | Finding, None]


def is_delay_index(path: str) -> bool:
    return path.rpartition("/")[2] == NAME


async def check_delays(volume: Volume, path: str) -> list[Finding]:
    """What is wrong with the index; nothing if it is gone."""
    try:
        return [row async for row in delay_rows(volume, path) if isinstance(row, Finding)]
    except FileNotFoundError:
        return []
    except StorageError as error:
        return [Finding(FindingKind.UNREADABLE, path, error.message)]


async def delay_rows(volume: Volume, path: str) -> DelayRows:
    """The entries up to the first that a start would not use, and then the finding."""
    file = volume.disk.open(path, writable=False)
    position, found = HEADER_SIZE, DelayReplay()
    try:
        if not is_header(bytes(await file.read(0, HEADER_SIZE))):
            yield Finding(FindingKind.INDEX_DAMAGED, path, f"its header is not sound; {ANEW}", 0, file.size())
            return
        while piece := bytes(await file.read(position, PIECE_SIZE)):
            before = found.count
            is_sound = found.take(piece)
            for number, (entry, is_carried) in enumerate(decode_entries(piece, found.count - before)):
                yield DelayRow(position + number * ENTRY_SIZE, entry, is_carried)
            if not is_sound:
                begin = position + (found.count - before) * ENTRY_SIZE
                text = "from here on it is not sound; the next start cuts it off, and reads the log instead"
                yield Finding(FindingKind.INDEX_DAMAGED, path, text, begin, file.size())
                return
            position += len(piece)
            await trio.lowlevel.checkpoint()  # reads from memory do not wait, and others want to run
        if found.applied_to is None:
            yield Finding(FindingKind.INDEX_DAMAGED, path, f"nothing says how far it goes; {ANEW}", 0, position)
    except UnknownFormat as error:
        yield Finding(FindingKind.UNKNOWN_FORMAT, path, error.message, 0, file.size())
    finally:
        file.close()

"""A page of delayed messages as they are listed: each with key, priority and id of its original.

The originals are read in pieces, and only these are kept: a page of a thousand messages of 16 MiB takes
no more memory than one of small ones. A page ends early if its keys are long or much was read for it, so that an
answer stays small and comes soon; but it has at least one entry, if there is any. So only the last page is empty.
"""

from collections.abc import Sequence

import trio

from goqueue.actors.delays.requests import DelayedView
from goqueue.core.delays.pending import DelayChange, DelayState
from goqueue.core.groups.deadletter import one_record
from goqueue.core.records.record import MESSAGE_ID_HEADER
from goqueue.storage.delays.scan import read_originals
from goqueue.storage.log.log import Log
from goqueue.types import Priority

PIECE_BYTES_MAX = 4 * 1024 * 1024
PIECES_MAX = 16
KEY_BYTES_MAX = 512 * 1024


async def delayed_views(log: Log, changes: Sequence[DelayChange]) -> list[DelayedView]:
    """As many of these changes, which are in the order of offsets, as fit into a page."""
    views: list[DelayedView] = []
    key_bytes = pieces = 0
    while len(views) < len(changes) and pieces < PIECES_MAX:
        waiting = changes[len(views) :]
        found, unread_from = await read_originals(log, [change.offset for change in waiting], PIECE_BYTES_MAX)
        for change in waiting:
            if change.offset >= unread_from:
                break
            view = _view(change, found.get(change.offset))
            key_bytes += len(view.key or b"")
            if key_bytes > KEY_BYTES_MAX and views:
                return views
            views.append(view)
        pieces += 1
        await trio.lowlevel.checkpoint()  # reads from memory do not wait, and others want to run
    return views


def _view(change: DelayChange, record: bytes | None) -> DelayedView:
    original = None if record is None else one_record(record)
    is_pending = change.state is DelayState.PENDING
    return DelayedView(
        change.offset,
        change.state,
        change.time if is_pending else None,
        None if is_pending else change.time,
        change.at if change.state is DelayState.DELIVERED else None,
        original.priority if original is not None else Priority.NORMAL,
        original.key if original is not None else None,
        original.headers.get(MESSAGE_ID_HEADER) if original is not None else None,
    )

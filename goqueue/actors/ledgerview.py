"""Where a group begins in a log, and how far it has come."""

import trio

from goqueue.actors.grouprequests import LedgerView
from goqueue.core.deliverable import batches_in
from goqueue.core.deliverystart import Start
from goqueue.core.ledger import Ledger
from goqueue.environment import WallClock
from goqueue.errors import DamagedData, OffsetOutOfRange
from goqueue.storage.log import Log
from goqueue.types import Microseconds, Offset


async def start_in(log: Log, start: Start) -> Offset:
    """What lies outside the log is its nearer end."""
    if start.is_latest:
        return log.end_offset
    if start.time is not None:
        found = await log.offset_at_time(start.time)
        return log.high_watermark if found is None else found  # what nobody can see yet may be of a later time
    return max(log.log_start, min(start.offset or 0, log.end_offset))


async def view_of(ledger: Ledger, log: Log, clock: WallClock) -> LedgerView:
    """The lag counts those that nobody has looked at as if all of them were to be handed out."""
    oldest = await _append_time(log, ledger.committed)
    progress, end = ledger.progress(trio.current_time()), log.end_offset
    age = None if oldest is None else max(0, clock.now() - oldest) // 1_000
    return LedgerView(progress, end, progress.lag(end), age)


async def _append_time(log: Log, offset: Offset) -> Microseconds | None:
    """None when there is no message, or none that can be read."""
    if not log.log_start <= offset < log.high_watermark:
        return None
    try:
        found = await log.read(offset, 1)
    except (DamagedData, OffsetOutOfRange):
        return None
    return next((envelope.append_time for _, envelope in batches_in(memoryview(found.data))), None)

"""How many messages of each lane a group has before it that nobody has looked at.

All lanes together are known without a look at the log, and so is a lane that is alone. Of several, those whose
place is not far from the end are counted; one that is further back has the rest. Only where two or more are far
back, as behind a backlog of very many messages of all priorities, nobody knows.
"""

from collections.abc import Sequence

import trio

from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.shares import LANES, Counts
from goqueue.core.offsetset import OffsetSet
from goqueue.core.slices.lanecounts import count_lanes
from goqueue.errors import DamagedData, OffsetOutOfRange
from goqueue.storage.log.log import Log
from goqueue.types import Offset

NEAR_MAX = 100_000
"""Offsets, from a lane's place to the end of the log."""
READ_BYTES = 256 * 1024
"""At a time."""


async def count_fresh(ledger: Ledger, log: Log, hidden: OffsetSet) -> list[int | None]:
    """Of each lane; None: some. `hidden` are never handed out."""
    end, places = log.high_watermark, [ledger.fresh_in(lane) for lane in LANES]
    unseen = _count_unseen(ledger, end, hidden)
    there = [lane for lane in LANES if places[lane] < end and log.lanes_from(places[lane]) >> lane & 1]
    if len(there) == 1:
        return [unseen if lane in there else 0 for lane in LANES]
    far = [lane for lane in there if end - places[lane] > NEAR_MAX]
    counts = await _counted(log, [end if lane in far else place for lane, place in enumerate(places)], end, hidden)
    rest = max(0, unseen - sum(counts)) if len(far) == 1 else None
    return [rest if lane in far else counts[lane] for lane in LANES]


def _count_unseen(ledger: Ledger, end: Offset, hidden: OffsetSet) -> int:
    progress = ledger.progress(trio.current_time())
    passed_over = hidden.count(progress.next_fresh, end - 1)
    return max(0, end - progress.next_fresh - progress.ahead - passed_over)


async def _counted(log: Log, places: Sequence[Offset], end: Offset, hidden: OffsetSet) -> Counts:
    """By a look at all that lies behind these places, as far as it can be read."""
    counts, at = [0] * len(LANES), max(min(places), log.log_start)
    while at < end:
        try:
            found = await log.read(at, READ_BYTES)
        except DamagedData as error:
            at = error.end_offset
        except OffsetOutOfRange:  # it was removed meanwhile, from the front or from the end
            at = log.log_start if at < log.log_start else end
        else:
            count_lanes(found.data, places, hidden, counts)
            at = found.next_offset
    return counts

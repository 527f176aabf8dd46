"""Retention by acks: how far every group is done with a partition, and which group holds its oldest segment.

Progress may justify that messages are removed only once it is durable: a crash that brought older progress back
would find the messages gone (G5). And every group counts that reads the topic by the register. One whose ledger is
not here is about to begin, or its ledger was lost: it holds everything.
"""

from collections.abc import Iterator

import trio

from goqueue.actors.delivery.ledgers import Ledgers
from goqueue.actors.delivery.requests import SegmentHold, TopicReader, TopicReaders
from goqueue.core.log.merging import SegmentSpan
from goqueue.core.log.retention import GroupStanding, KeptSegments, kept_for, slowest_of
from goqueue.core.names import REDRIVE
from goqueue.storage.log.log import Log
from goqueue.types import Offset


class AckedRetention:
    __slots__ = ("_ledgers", "_log", "_readers")

    def __init__(self, ledgers: Ledgers, log: Log) -> None:
        self._ledgers = ledgers
        self._log = log
        self._readers: frozenset[TopicReader] = frozenset()
        """As of the last round of upkeep."""

    async def done_to(self, readers: TopicReaders) -> Offset | None:
        """Below this offset every group is durably done. None: nothing may be removed."""
        self._readers = readers.groups
        before = self._reached()
        oldest = next(iter(self._log.visible_segments()), None)
        if before is None or oldest is None or oldest.end_offset > before:
            return None
        await self._ledgers.commit()
        now = self._reached()  # meanwhile a group may have begun, or was reset
        return None if now is None else min(before, now, readers.end)

    def hold(self) -> SegmentHold | None:
        """What keeps the oldest finished segments; None when nothing does, or when acks do not decide."""
        if not self._log.config.retention_acked:
            return None
        slowest = slowest_of(self._standings()) or GroupStanding("", None)
        kept = kept_for(finished_spans(self._log), slowest.committed)
        if kept is None:
            return None
        return SegmentHold(slowest.group or None, slowest.committed, self._count_open(slowest, kept), kept)

    def _count_open(self, slowest: GroupStanding, kept: KeptSegments) -> int:
        if slowest.committed is None:
            return kept.last - kept.first + 1
        removed = self._ledgers.groups[slowest.group].ledger.removed_below(kept.last + 1)
        return 0 if removed is None else removed.unacked

    def _reached(self) -> Offset | None:
        slowest = slowest_of(self._standings())
        return None if slowest is None else slowest.committed

    def _standings(self) -> Iterator[GroupStanding]:
        found = self._ledgers.groups
        for name, here in found.items():
            if name != REDRIVE or self._is_redriving():
                yield GroupStanding(name, here.ledger.committed)
        for reader in self._readers:
            here_too = found.get(reader.name)
            if here_too is None or here_too.written.group_id != reader.id:
                yield GroupStanding(reader.name, None)

    def _is_redriving(self) -> bool:
        """A redrive needs what it has taken; what it has not chosen it leaves to others."""
        progress = self._ledgers.groups[REDRIVE].ledger.progress(trio.current_time())
        return bool(progress.in_flight or progress.leaving or progress.in_transfer)


def finished_spans(log: Log) -> list[SegmentSpan]:
    """The finished segments that readers see."""
    return [SegmentSpan(each.base_offset, each.end_offset, each.summary.size) for each in log.finished_segments()]

"""The offset at which a group begins on a partition, for the first time or because its ledger was lost.

The register knows which partitions had a ledger of the group. Where such a ledger is missing, the group begins at
the earliest offset: that repeats messages and skips none (G5). `offsets.json` is not used. It does not name the
topic's UUID, and it follows a reset seconds later, so its offset may lie behind messages that are not done. The
broker logs that offset, and an operator may reset the group to it.
"""

import logging

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import AttachGroup
from goqueue.actors.delivery.view import start_in
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.groups.start import parse_start
from goqueue.environment import WallClock
from goqueue.storage.directory.namedoffsets import shown_offset
from goqueue.storage.journals.ledgers import LostProgress
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume

logger = logging.getLogger("goqueue.ledgers")


class LedgerBeginning:
    def __init__(
        self, ledgers: Ledgers, volume: Volume, clock: WallClock, directory: str, counts: GroupCounts
    ) -> None:
        self._counts = counts
        self._ledgers = ledgers
        self._volume = volume
        self._clock = clock
        self._data, _, self._topic, number = directory.rsplit("/", 3)
        self._number = int(number)

    async def find_or_begin(self, log: Log, message: AttachGroup) -> GroupHere:
        here = self._ledgers.groups.get(message.group)
        if here is not None and here.written.group_id == message.group_id:
            return here
        return await self._begin(log, message)

    async def _begin(self, log: Log, message: AttachGroup) -> GroupHere:
        """A new ledger for this group. It replaces that of a deleted group of this name."""
        offset, lost = await start_in(log, parse_start(message.start)), None
        is_known = message.group in self._ledgers.groups
        if message.is_expected:
            offset, lost = log.log_start, await self._tell_lost(message, log)
        elif not is_known and self._ledgers.is_doubtful and offset > log.log_start:
            logger.warning("group %s may have been here and was lost: it begins at the earliest", message.group)
            offset, lost = log.log_start, LostProgress(self._clock.now())
        self._counts.ledgers_lost += lost is not None
        return self._ledgers.begin(
            message.group,
            message.group_id,
            message.settings,
            offset,
            group_settings=message.group_settings,
            lost=lost,
        )

    async def _tell_lost(self, message: AttachGroup, log: Log) -> LostProgress:
        shown = await shown_offset(self._volume, self._data, message.group, self._topic, self._number)
        logger.warning(
            "the ledger of group %s on %s/%d is lost: the group begins at offset %d, and messages come again; %s",
            message.group,
            self._topic,
            self._number,
            log.log_start,
            "where it stood is not known" if shown is None else f"it was last shown at offset {shown}",
        )
        return LostProgress(self._clock.now(), shown)

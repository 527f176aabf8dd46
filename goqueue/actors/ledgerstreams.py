"""A partition's part in streams: groups whose members read by themselves, in order, and commit how far they are.

Whoever commits owns the partition, as whoever takes does: an owner that is to let go of it owns it until it has.
"""

import trio

from goqueue.actors.grouprequests import CommitOffset, CommittedOffset
from goqueue.actors.handlers import answers
from goqueue.actors.ledgerbook import GroupHere
from goqueue.actors.ledgers import LedgerDesk
from goqueue.errors import GroupConflict, OffsetOutOfRange
from goqueue.types import Offset


class StreamDesk(LedgerDesk):
    @answers(CommitOffset)
    async def commit_offset(self, message: CommitOffset) -> None:
        here = self._check_may_commit(message)
        entry = here.ledger.commit(self._within_log(message.offset))
        if entry is not None:
            self._write(here, [entry], trio.current_time())

    def _check_may_commit(self, message: CommitOffset) -> GroupHere:
        if message.member is None:
            here = self.book.find(message.group)
        else:
            here = self._check_owner(message.group, message.member, message.generation, message.instance)
        if not here.is_stream:
            raise GroupConflict(
                f'group {here.name} has mode "queue": ack its messages, offsets are not committed',
                settings=["mode"],
            )
        return here

    def _within_log(self, offset: Offset) -> Offset:
        """What lies below the log is gone: then the group stands at its start."""
        start, end = self.log.log_start, self.log.end_offset
        if offset > end:
            raise OffsetOutOfRange(
                f"offset {offset} lies behind {end}, the end of {self._topic}/{self._number}; "
                "commit what is behind a message that was read",
                start=start,
                end=end,
            )
        return max(offset, start)

    @answers(CommittedOffset)
    async def committed_offset(self, message: CommittedOffset) -> Offset:
        return self.book.find(message.group).ledger.committed

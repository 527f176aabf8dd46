"""Streams on a partition: groups whose members fetch by themselves, in order, and commit offsets.

Only the owner of the partition may commit, as only the owner may take: an owner that has to give it up owns it
until it has.
"""

from dataclasses import dataclass

import trio

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers, StreamPosition
from goqueue.actors.delivery.requests import CommitOffset, CommittedOffset, StreamReader, StreamStanding
from goqueue.actors.delivery.writing import LedgerWriter
from goqueue.actors.runtime.handlers import answers
from goqueue.actors.runtime.messages import Reply
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.offsetset import Run
from goqueue.errors import DamagedData, GroupConflict, OffsetOutOfRange
from goqueue.storage.log.log import Log
from goqueue.types import Offset


@dataclass(eq=False, slots=True)
class GroupStreams:
    """A part of a partition."""

    ledgers: Ledgers
    log: Log
    partition: TopicPartition
    writer: LedgerWriter

    # The reader, to explain why nothing is delivered

    def note_fetch(self, reader: StreamReader | None, offset: Offset) -> None:
        here = self._read_by_owner(reader)
        if here is not None and here.tenure.member is not None:
            here.note_fetch(here.tenure.member, offset, trio.current_time())

    def note_fetch_wait(self, reader: StreamReader | None, deadline: float, reply: Reply[None]) -> None:
        here = self._read_by_owner(reader)
        if here is not None and here.tenure.member is not None:
            here.askers.note_wait(here.tenure.member, trio.current_time(), deadline, reply)

    def note_damage(self, reader: StreamReader | None, offset: Offset, damage: DamagedData) -> None:
        here = self._read_by_owner(reader)
        if here is not None:
            here.place = StreamPosition(offset, Run(damage.offset, damage.end_offset - 1))

    def _read_by_owner(self, reader: StreamReader | None) -> GroupHere | None:
        """None if the reader is not the owner: it may be late, or not tell the truth."""
        here = None if reader is None else self.ledgers.groups.get(reader.group)
        if here is None or reader is None or not here.is_stream:
            return None
        is_there = here.tenure.is_held_by(reader.member, reader.instance)
        return here if is_there and reader.member == here.tenure.member else None

    # Commits

    @answers(CommitOffset)
    async def commit_offset(self, message: CommitOffset) -> None:
        here = self._check_may_commit(message)
        entry = here.ledger.commit(self._within_log(message.offset))
        if entry is not None:
            self.writer.write(here, [entry], trio.current_time())

    def _check_may_commit(self, message: CommitOffset) -> GroupHere:
        here = self.ledgers.find(message.group)
        if message.member is not None:
            here.tenure.check(message.member, message.generation, message.instance, self.partition.label)
        if not here.is_stream:
            raise GroupConflict(
                f'group {here.name} has mode "queue": ack its messages, offsets are not committed',
                settings=["mode"],
            )
        return here

    def _within_log(self, offset: Offset) -> Offset:
        """An offset below the log's start is moved to it: the messages below are gone."""
        start, end = self.log.log_start, self.log.end_offset
        if offset > end:
            raise OffsetOutOfRange(
                f"offset {offset} lies behind {end}, the end of {self.partition.label}; "
                "commit what is behind a message that was read",
                start=start,
                end=end,
            )
        return max(offset, start)

    @answers(CommittedOffset)
    async def committed_offset(self, message: CommittedOffset) -> StreamStanding:
        ledger = self.ledgers.find(message.group).ledger
        return StreamStanding(ledger.committed, ledger.resets)

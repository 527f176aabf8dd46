"""What there is in dead-letter topics, and what was decided about it. It is read from boards and changes nothing.

A letter that readers see waits, unless the ledger of the redrives says otherwise. Most logs have a message at every
offset but the hidden ones; where compaction or damage has left gaps, the log is read.
"""

from collections.abc import Sequence
from itertools import pairwise

from goqueue.actors.deadletters.carrier import outline_of
from goqueue.actors.deadletters.requests import CountDeadLetters, DecidedLetters, FindLetterDecisions
from goqueue.actors.metadata.requests import ReadGroup
from goqueue.actors.partition.board import PartitionBoard, board_of
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost, answer
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import FindPartition, TopicOutline
from goqueue.core.groups.redrive import LetterCounts, latest
from goqueue.core.ledger.deadletters import Decision, LetterVerdict
from goqueue.core.ledger.operators import LedgerLetters
from goqueue.core.names import REDRIVE, dead_letter_topic
from goqueue.core.offsetset import OffsetSet
from goqueue.core.slices.deliverable import EVERYTHING, Reader, find_deliverable
from goqueue.environment import WallClock
from goqueue.errors import (
    DamagedData,
    OffsetOutOfRange,
    UnknownFormat,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.storage.log.log import Log
from goqueue.storage.slices import Slices
from goqueue.types import Microseconds, Offset

READ_BYTES = 256 * 1024


class Inbox:
    """A part of the node's `DeadLetterService`."""

    def __init__(self, topics: ActorRef, register: ActorRef, host: PartHost, clock: WallClock) -> None:
        self._topics = topics
        self._register = register
        self._host = host
        self.clock = clock

    @defers(CountDeadLetters)
    async def count(self, message: CountDeadLetters, reply: Reply[Sequence[LetterCounts]]) -> None:
        self._host.background(answer, reply, self._count, message)

    @defers(FindLetterDecisions)
    async def find(self, message: FindLetterDecisions, reply: Reply[Sequence[DecidedLetters]]) -> None:
        self._host.background(answer, reply, self._find, message)

    async def _count(self, asked: CountDeadLetters) -> Sequence[LetterCounts]:
        letters = await outline_of(self._topics, dead_letter_topic(asked.topic))
        return () if letters is None else await self.count_all(letters)

    async def count_all(self, letters: TopicOutline) -> list[LetterCounts]:
        """By partition."""
        had_ledgers, slices = await self._had_ledgers(letters), Slices()
        boards = [await self._board(letters, number) for number in range(letters.partitions)]
        return [
            await count_letters(board, slices, self.clock.now(), had_ledger=number < had_ledgers)
            for number, board in enumerate(boards)
        ]

    async def _had_ledgers(self, letters: TopicOutline) -> int:
        """The number of partitions, from the first on, that had a ledger of the redrives durably."""
        try:
            seen = (await self._register.call(ReadGroup(REDRIVE))).topics.get(letters.name)
        except (UnknownGroup, UnknownFormat):
            return 0
        return seen.attached if seen is not None and seen.uuid == letters.uuid else 0

    async def _board(self, letters: TopicOutline, number: int) -> PartitionBoard:
        return await board_of(await self._topics.call(FindPartition(letters.uuid, number)))

    async def _find(self, asked: FindLetterDecisions) -> Sequence[DecidedLetters]:
        name = dead_letter_topic(asked.topic)
        letters = await outline_of(self._topics, name)
        if letters is None:
            raise UnknownTopic(f"topic {asked.topic} has no dead letters; list the topics to see which there are")
        if asked.partition >= letters.partitions:
            raise UnknownPartition(f"topic {name} has partitions 0 to {letters.partitions - 1}")
        found = letters_in(await self._board(letters, asked.partition))
        return () if found is None else [DecidedLetters(*each) for each in _as_runs(found, asked.first, asked.last)]


def _as_runs(found: LedgerLetters, first: Offset, last: Offset) -> list[DecidedLetters]:
    return [DecidedLetters(decision, tuple(letters.runs())) for decision, letters in found.decided(first, last)]


def letters_in(board: PartitionBoard) -> LedgerLetters | None:
    """None: nothing was decided here."""
    here = board.ledgers.ledgers.groups.get(REDRIVE)
    return None if here is None else here.ledger.letters


async def count_letters(
    board: PartitionBoard, slices: Slices, now: Microseconds, *, had_ledger: bool = False
) -> LetterCounts:
    """`now` is wall time: what has expired is no message any more."""
    there = await visible_messages(board, slices, now)
    here = board.ledgers.ledgers.groups.get(REDRIVE)
    is_doubtful = had_ledger if here is None else here.written.lost is not None
    bounds = there.bounds
    if here is None or bounds is None:
        return LetterCounts(waiting=len(there), is_doubtful=is_doubtful)
    counts, waiting = LetterCounts(is_doubtful=is_doubtful), len(there)
    for decision, letters in here.ledger.letters.decided(*bounds):
        found = len(letters.common(there))
        if found:
            waiting -= found
            counts += _counted(decision, found)
    return counts + LetterCounts(waiting=waiting)


def _counted(decision: Decision, count: int) -> LetterCounts:
    """A letter that was put back was sent away from here, too."""
    if decision.verdict is LetterVerdict.DISMISSED:
        return LetterCounts(dismissed=count, dismissed_at=latest(decision.at, None))
    return LetterCounts(redriven=count, redriven_at=latest(decision.at, None))


async def visible_messages(board: PartitionBoard, slices: Slices, now: Microseconds) -> OffsetSet:
    """The offsets of all messages that readers see."""
    log = board.log
    start, end = log.log_start, log.high_watermark
    if start >= end:
        return OffsetSet()
    if not has_gaps(log):
        return OffsetSet([(start, end - 1)]).without(board.delays.hidden)
    return await _scanned(log, slices, Reader(REDRIVE, now))


def has_gaps(log: Log) -> bool:
    """Whether an offset may lack a readable message."""
    pairs = pairwise(log.visible_segments())
    return (
        log.thinned_to > log.log_start
        or bool(log.damage_met)
        or any(one.end_offset != other.base_offset for one, other in pairs)
    )


async def _scanned(log: Log, slices: Slices, reader: Reader) -> OffsetSet:
    found, at, end = OffsetSet(), log.log_start, log.high_watermark
    while at < end:
        await slices.step()
        try:
            piece = await log.read(at, READ_BYTES)
        except DamagedData as error:
            at = error.end_offset
        except OffsetOutOfRange:  # it was removed meanwhile, from the front or from the end
            at = log.log_start if at < log.log_start else end
        else:
            found.update(OffsetSet(find_deliverable(piece.data, at, EVERYTHING, reader).runs))
            at = max(piece.next_offset, at + 1)
    return found

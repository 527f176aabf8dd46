"""The partition's side of a transfer of dead letters from a group to the dead-letter topic.

A transfer has a sequence of its own, which is durable before its messages are handed to the carrier: so a repeated
append after a crash is answered with the first offset, and no other messages are ever taken for them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf

import trio

from goqueue.actors.delivery.gathering import READS_MAX, SPARSE_READ_BYTES
from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.repair import Mending
from goqueue.actors.delivery.requests import (
    ConfirmDeadLetters,
    DeadLetter,
    DeadLetters,
    DismissLetters,
    SendLettersAgain,
    TakeDeadLetters,
)
from goqueue.actors.delivery.writing import LedgerWriter
from goqueue.actors.runtime.handlers import answers, defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost, answer
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.ledger.deadletters import DeadRun
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.names import REDRIVE
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.records.batch import Producer
from goqueue.core.records.record import encode_record
from goqueue.core.slices.picking import picked_records
from goqueue.errors import DamagedData, OffsetOutOfRange
from goqueue.storage.log.log import Log
from goqueue.storage.log.openlogs import topic_of
from goqueue.storage.log.views import LogSlice
from goqueue.types import Offset

LEFT_THE_LOG = " (its content has left the log)"


@dataclass(eq=False, slots=True)
class DeadLetterTransfers:
    """A part of a partition."""

    ledgers: Ledgers
    log: Log
    host: PartHost
    writer: LedgerWriter
    mending: Mending
    counts: GroupCounts

    @defers(TakeDeadLetters)
    async def take(self, message: TakeDeadLetters, reply: Reply[DeadLetters | None]) -> None:
        self.host.background(answer, reply, self._next, self.ledgers.find(message.group), message)

    async def _next(self, here: GroupHere, message: TakeDeadLetters) -> DeadLetters | None:
        while self.ledgers.find(message.group) is here:
            letters = await under_way(here, self.log)
            if here.held_letters is not None:
                self.mending.watch(here)
                return None
            if letters is not None:
                await self.ledgers.commit()  # its sequence is never reused, even after a power loss
                return letters
            self.ledgers.note_removed(here, self.log.log_start)
            removals = here.removals
            chosen = await next_to_leave(here, self.log, message.messages_max, message.bytes_max)
            if chosen is None:
                return None
            if here.removals == removals and not self.mending.note(here, chosen.damages):
                self.writer.write(here, [transfer(here.ledger, chosen)], trio.current_time())
        return None

    @answers(ConfirmDeadLetters)
    async def confirm(self, message: ConfirmDeadLetters) -> None:
        """A repeat finds no transfer under way, and changes nothing."""
        here = self.ledgers.find(message.group)
        under_way = here.ledger.transfer_under_way
        if under_way is not None and under_way.sequence == message.sequence:
            done = here.ledger.transferred(under_way.sequence, message.decided, message.returned)
            self.writer.write(here, [done], trio.current_time())
            if message.group != REDRIVE:  # its letters leave the dead-letter topic
                topic = topic_of(self.log.directory)
                self.counts.of[message.group].dead_letters[topic] += under_way.size

    @defers(DismissLetters)
    async def dismiss(self, message: DismissLetters, reply: Reply[None]) -> None:
        here, now = self.ledgers.find(message.group), trio.current_time()
        entry, _ = here.ledger.letters.dismiss(now, message.nonce, message.runs, message.decided, message.note)
        self.writer.write(here, [] if entry is None else [entry], now)
        self.host.background(answer, reply, self.ledgers.commit)

    @answers(SendLettersAgain)
    async def send_again(self, message: SendLettersAgain) -> None:
        here = self.ledgers.find(message.group)
        entry = here.ledger.letters.send_again(message.letters, message.to)
        self.writer.write(here, [] if entry is None else [entry], trio.current_time())


async def under_way(here: GroupHere, log: Log) -> DeadLetters | None:
    """The whole transfer that is under way: the same messages, as many as the first time."""
    transfer = here.ledger.transfer_under_way
    if transfer is None:
        return None
    found = await _look_up(log, log.high_watermark, transfer.runs, reads_max=inf)
    here.held_letters = _held(here.ledger, found.damages)
    letters = [_letter(run, offset, found.records.get(offset)) for run in transfer.runs for offset in _offsets(run)]
    producer = Producer(here.written.producer_id, 0, transfer.sequence)
    return DeadLetters(tuple(letters), producer, transfer.sequence)


def _held(ledger: Ledger, damages: Iterable[DamagedData]) -> Run | None:
    """Dead letters that a repair may restore are not sent without their content; skipped ones are."""
    ranges = (Run(damage.offset, damage.end_offset - 1) for damage in damages)
    return next((each for each in ranges if ledger.in_transfer_within(each)), None)


def _letter(run: DeadRun, offset: Offset, record: bytes | None) -> DeadLetter:
    """Without content a dead letter keeps only its offset: whether it was sent before is not known here."""
    reason = run.reason if record is not None else run.reason + LEFT_THE_LOG
    record = encode_record(0, 0, b"") if record is None else record
    return DeadLetter(offset, record, run.attempts, run.first_delivery, run.last_delivery, reason, run.to)


@dataclass(frozen=True, slots=True)
class NextToLeave:
    gone: list[Run]
    """Dead letters that are no longer in the log."""
    leaving: list[Run]
    damages: list[DamagedData] = field(default_factory=list)


async def next_to_leave(here: GroupHere, log: Log, messages_max: int, bytes_max: int) -> NextToLeave | None:
    """Dead letters for the next transfer, within both limits, but at least one; None when none waits. Those behind
    the high watermark are not gone, and wait for a later transfer."""
    end = log.high_watermark
    runs = [run for run in here.ledger.next_dead_letters(messages_max) if run.last < end]
    if not runs:
        return None
    found = await _look_up(log, end, runs, reads_max=READS_MAX)
    looked_at = [offset for run in runs for offset in _offsets(run) if offset < found.looked_to]
    damaged = OffsetSet((each.offset, each.end_offset - 1) for each in found.damages)
    gone = [offset for offset in looked_at if offset not in found.records and offset not in damaged]
    return NextToLeave(_as_runs(gone), _as_runs(_fitting(found.records, bytes_max)), found.damages)


@dataclass(slots=True)
class _Found:
    records: dict[Offset, bytes] = field(default_factory=dict)
    looked_to: Offset = 0
    damages: list[DamagedData] = field(default_factory=list)


async def _look_up(log: Log, end: Offset, runs: Sequence[DeadRun], reads_max: float) -> _Found:
    """The records of these runs that the log has before `end`, in order, with at most `reads_max` reads."""
    found, reads = _Found(), 0
    for run in runs:
        at = run.first
        while at <= run.last:
            if reads >= reads_max:
                return found
            piece, reads = await _read(log, at, end), reads + 1
            if isinstance(piece, LogSlice):
                picked = picked_records(piece.data, OffsetSet([(at, run.last)]))
                found.records.update((offset, bytes(record)) for offset, record in picked)
            elif isinstance(piece, DamagedData):
                found.damages.append(piece)
            at = max(_end_of(piece), at + 1)
            found.looked_to = min(at, run.last + 1)
    return found


async def _read(log: Log, offset: Offset, end: Offset) -> LogSlice | DamagedData | OffsetOutOfRange:
    try:
        return await log.read(offset, SPARSE_READ_BYTES, end)
    except (DamagedData, OffsetOutOfRange) as error:  # out of range: removed by retention
        return error


def _end_of(found: LogSlice | DamagedData | OffsetOutOfRange) -> Offset:
    if isinstance(found, LogSlice):
        return found.next_offset
    return found.end_offset if isinstance(found, DamagedData) else int(found.details["start"])


def transfer(ledger: Ledger, chosen: NextToLeave) -> Entry:
    if chosen.gone:
        return ledger.pass_over(chosen.gone, "no longer in the log")
    return ledger.begin_transfer(ledger.next_sequence, chosen.leaving)


def _offsets(run: DeadRun) -> range:
    return range(run.first, run.last + 1)


def _as_runs(offsets: Iterable[Offset]) -> list[Run]:
    return list(OffsetSet(Run(offset, offset) for offset in offsets).runs())


def _fitting(found: dict[Offset, bytes], bytes_max: int) -> list[Offset]:
    size = 0

    def fits(item: tuple[Offset, bytes]) -> bool:
        nonlocal size
        size += len(item[1])
        return size <= bytes_max or size == len(item[1])

    return [offset for offset, _ in takewhile(fits, found.items())]

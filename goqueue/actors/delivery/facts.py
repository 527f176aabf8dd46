"""The facts about a group on a partition that explain why nothing is delivered."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

import trio

from goqueue.actors.delivery.acked import finished_spans
from goqueue.actors.delivery.ledgers import GroupHere, StreamPosition
from goqueue.actors.delivery.requests import LedgerFacts
from goqueue.core.groups.assignors import TopicPartition
from goqueue.core.ledger.damage import DamagedRun
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.log.retention import kept_for
from goqueue.core.offsetset import OffsetSet
from goqueue.core.slices.batchindex import key_at
from goqueue.core.why.facts import KeyBacklog, LaneWait, LastDelivery, LastMessage, OldestLease, PartitionFacts
from goqueue.core.why.words import shown_key
from goqueue.environment import WallClock
from goqueue.errors import DamagedData, OffsetOutOfRange
from goqueue.storage.log.log import Log
from goqueue.types import Microseconds, Offset, Priority

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLION = 1_000_000
LANE_WAIT_SECONDS_MIN = 1.0
KEY_READ_BYTES = 4 * 1024
"""Limit of the read for one key; a read returns at least the batch with the key."""


async def gather_facts(
    here: GroupHere, log: Log, name: TopicPartition, clock: WallClock, delays: "PendingDelays"
) -> LedgerFacts:
    """It reads one key from the log: groups know keys by their hashes only."""
    row, due = await _longest_backlog(here.ledger, log), await delays.next_due()
    wall = clock.now()
    found = _facts_of(here, log, name, delays, now=trio.current_time(), wall=wall)
    due_in = None if due is None else max(0, due - wall) / _MILLION
    return replace(found, partition=replace(found.partition, longest_backlog=row, next_due_in=due_in))


class PendingDelays(Protocol):
    """The delayed messages of a partition."""

    @property
    def pending(self) -> OffsetSet: ...

    @property
    def hidden(self) -> OffsetSet:
        """The offsets that are never delivered."""

    async def next_due(self) -> Microseconds | None: ...


def _facts_of(
    here: GroupHere, log: Log, name: TopicPartition, delays: PendingDelays, *, now: float, wall: Microseconds
) -> LedgerFacts:
    """`now` is Trio's time, `wall` the clock's. Offsets that no delivery has scanned all count as messages, except
    hidden ones."""
    ledger = here.ledger
    progress = ledger.progress(now)
    read_to = _read_to(here.place, progress.next_fresh, log.high_watermark)
    damaged = _damage_ahead(log, here.place, read_to) if here.is_stream else list(progress.damages)
    unread = sum(each.messages for each in damaged) if here.is_stream else 0
    first = damaged[0] if damaged else None
    hidden = delays.hidden
    passed_over = hidden.count(read_to, log.high_watermark - 1)
    fresh = max(0, log.high_watermark - read_to - unread - progress.ahead - passed_over)
    behind = ledger.count_behind_keys(now)
    last = here.last_delivery
    kept = kept_for(finished_spans(log), progress.committed) if log.config.retention_acked else None
    partition = PartitionFacts(
        *name,
        ready=progress.ready_again - behind + (0 if ledger.looks_no_further else fresh),
        fetched=read_to - progress.next_fresh - hidden.count(progress.next_fresh, read_to - 1),
        behind_keys=behind,
        not_looked_at=fresh if ledger.looks_no_further else 0,
        unsynced=log.end_offset - log.high_watermark,
        in_flight=progress.in_flight,
        not_begun=ledger.count_not_begun(),
        oldest_lease=_oldest_lease(ledger, now, wall),
        waiting=progress.waiting,
        next_retry_in=_until(ledger.next_retry(), now),
        leaving=progress.leaving + progress.in_transfer,
        alone_waits=ledger.plan(now, "", 1, is_busy=True).alone_waiting,
        delayed=len(delays.pending),
        damaged=sum(each.messages for each in damaged),
        damaged_at=None if first is None else first.first,
        damaged_file=None if first is None else first.path,
        stands_before_damage=here.is_stream and first is not None and first.first == read_to,
        kept_segments=0 if kept is None else kept.segments,
        kept_bytes=0 if kept is None else kept.size,
        last_message=_last_message(log, wall),
        last_delivery=None if last is None else LastDelivery(last[0], max(0.0, now - last[1])),
        lane_wait=_lane_wait(ledger, now),
    )
    return LedgerFacts(partition, ledger.in_flight_by_member(), ledger.held_alone(), here.askers.ago(now))


async def _longest_backlog(ledger: Ledger, log: Log) -> KeyBacklog | None:
    row = ledger.longest_backlog()
    if row is None:
        return None
    offset, waiting = row
    try:
        found = await log.read(offset, KEY_READ_BYTES)
    except (DamagedData, OffsetOutOfRange):
        return None
    key = key_at(found.data, offset)
    return None if key is None else KeyBacklog(shown_key(key), offset, waiting)


def _read_to(place: StreamPosition | None, next_fresh: Offset, end: Offset) -> Offset:
    """The offset to which a stream's owner has fetched; for queues, up to which messages were delivered."""
    return next_fresh if place is None else max(next_fresh, min(place.offset, end))


def _damage_ahead(log: Log, place: StreamPosition | None, offset: Offset) -> list[DamagedRun]:
    """The known damage from this offset on, which a stream cannot read."""
    known = {(each.offset, each.end_offset - 1): each.path for each in log.damage_met}
    if place is not None and place.damage is not None:
        known.setdefault((place.damage.first, place.damage.last), "")
    ahead = [(max(first, offset), min(last, log.high_watermark - 1), path) for (first, last), path in known.items()]
    return [DamagedRun(*each, each[1] - each[0] + 1) for each in sorted(ahead) if each[0] <= each[1]]


def _lane_wait(ledger: Ledger, now: float) -> LaneWait | None:
    """The longest wait of a lane; None if only one lane has messages, as it waits for no other."""
    waits = [(seconds, lane) for lane, seconds in enumerate(ledger.lane_waits(now)) if seconds is not None]
    if len(waits) < 2 or max(waits)[0] < LANE_WAIT_SECONDS_MIN:
        return None
    seconds, lane = max(waits)
    return LaneWait(Priority(lane).name.lower(), seconds)


def _oldest_lease(ledger: Ledger, now: float, wall: Microseconds) -> OldestLease | None:
    oldest = ledger.oldest_delivery()
    if oldest is None:
        return None
    ends = min((lease.deadline for lease in oldest.leases), default=now)
    return OldestLease(oldest.member, max(0, wall - oldest.wall) / _MILLION, max(0.0, ends - now))


def _last_message(log: Log, wall: Microseconds) -> LastMessage | None:
    if not log.append_time:
        return None
    return LastMessage(_readable(log.append_time), max(0, wall - log.append_time) / _MILLION)


def _readable(time: Microseconds) -> str:
    try:
        moment = EPOCH + timedelta(microseconds=time)
    except OverflowError:
        return f"{time} µs"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _until(due: float | None, now: float) -> float | None:
    return None if due is None else max(0.0, due - now)

"""Retention and compaction take out of the log how delays ended: none of these is ever found to be pending again.

The delay index is lost in these tests: what is pending is what the log says.
"""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from goqueue.config import LogConfig
from goqueue.core.delays.events import DelayedRecord, DelayEvent, cancel_batch
from goqueue.core.delays.firing import fired_batch
from goqueue.core.delays.pending import Delays
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.record import DELAY_BIT, encode_record
from goqueue.storage.compaction.bykey import compact_by_key
from goqueue.storage.compaction.retention import retain
from goqueue.storage.delays.scan import apply_delays
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import NOW, batch, open_log, path_of, publish, read_all

HOUR = 3_600_000_000
LATER = NOW + 1_000 * HOUR
CANCELLED, FIRED, PENDING = 0, 1, 2

Thin = Callable[[Log, OffsetSet], Awaitable[object]]


async def expire(log: Log, pending: OffsetSet) -> None:
    await retain(log, NOW + HOUR, pending)


async def keep_newest(log: Log, pending: OffsetSet) -> None:
    await compact_by_key(log, NOW, pending)


async def written(volume: Volume) -> Log:
    """Three that are delayed lie in the first segment; of two the second one says how they ended."""
    log = await open_log(volume, LogConfig(segment_bytes=2_000, retention_age=HOUR))
    for _ in (CANCELLED, FIRED, PENDING):
        await publish(log, batch(b"delayed", key=b"k", due=LATER))
    await publish(log, batch(bytes(1_200)))
    fired = fired_batch([(FIRED, encode_record(0, NOW, b"delayed", key=b"k", due=LATER))])
    await publish(log, cancel_batch(CANCELLED, NOW), fired, batch(bytes(1_500)))
    await publish(log, batch(b"newer", key=b"k"), batch(bytes(1_900)))
    await publish(log, batch(bytes(1_900)))
    await log.checkpoint()
    return log


async def pending_in(log: Log) -> list[int]:
    delays = Delays()
    delays.apply_all(await events_in(log))
    return list(delays.pending.offsets())


async def events_in(log: Log) -> list[DelayEvent]:
    found: list[DelayEvent] = []

    async def apply(events: Sequence[DelayEvent]) -> None:
        found.extend(events)

    await apply_delays(log, 0, apply)
    return found


@pytest.mark.parametrize("thin", [expire, keep_newest])
async def test_what_ended_goes_with_the_record_that_says_so(volume: Volume, thin: Thin) -> None:
    log = await written(volume)
    await thin(log, OffsetSet([(PENDING, PENDING)]))
    assert not {CANCELLED, FIRED} & {record.offset for record in await read_all(log)}
    assert b"delay-cancel" not in {record.key for record in await read_all(log)}
    assert await pending_in(log) == [PENDING]


@pytest.mark.parametrize("thin", [expire, keep_newest])
async def test_what_ended_and_lies_in_a_damaged_segment_stays_ended(
    volume: Volume, disk: SimulatedDisk, thin: Thin
) -> None:
    """G8: nothing is taken out of a damaged segment, so the record that says how it ended stays as well."""
    log = await written(volume)
    disk.flip_bit(path_of(0), disk.size(path_of(0)) - 100, 0)
    assert await pending_in(log) == [PENDING]
    await thin(log, OffsetSet([(PENDING, PENDING)]))
    assert await pending_in(log) == [PENDING]
    await thin(log, OffsetSet([(PENDING, PENDING)]))
    assert await pending_in(log) == [PENDING]


@pytest.mark.parametrize("thin", [expire, keep_newest])
async def test_a_delay_that_was_written_after_the_clock_was_set_back_keeps_its_due_time(
    volume: Volume, thin: Thin
) -> None:
    """Its neighbours in the batch go, and the clock that it counts from stays known."""
    log = await open_log(volume, LogConfig(segment_bytes=2_000, retention_age=HOUR))
    await publish(log, batch(b"before", key=b"k"))
    log.append([batch(b"waits", b"goes", key=b"k", due=DELAY_BIT | 7)], NOW - 50 * HOUR)
    log.append([batch(b"gone", key=b"k"), batch(bytes(1_700))], NOW - 50 * HOUR)
    await publish(log, batch(b"newer", key=b"k"), batch(bytes(1_900)))
    await publish(log, batch(bytes(1_900)))
    await log.checkpoint()
    await thin(log, OffsetSet([(1, 1)]))
    assert not {0, 2, 3} & {record.offset for record in await read_all(log)}
    assert await events_in(log) == [DelayedRecord(1, 1, NOW - 50 * HOUR + 7)]

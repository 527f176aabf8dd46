"""Bugs planted in delays. A world of delays that does not find them proves nothing."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from goqueue.actors.delays.delays import PartitionDelays
from goqueue.actors.delays.pending import DelayedMessages, Timer
from goqueue.actors.delays.requests import LoadTimers
from goqueue.actors.delays.timers import Timers
from goqueue.actors.node import broker
from goqueue.actors.partition import partition
from goqueue.actors.partition.appending import Appending
from goqueue.actors.partition.partition import Partition
from goqueue.core.delays import events as delayevents
from goqueue.core.delays.events import CANCEL, Cancelled, DelayEvent, Fired, Lapsed, Moved
from goqueue.core.delays.firing import Original
from goqueue.core.records.batch import Batch, Envelope
from goqueue.core.slices.deliverable import batches_in
from goqueue.storage.delays import scan as delayscan
from goqueue.storage.log import idrecall
from goqueue.types import Microseconds, Offset
from tests.sim.clients.world import ClientTally, ClientWorld
from tests.sim.delays.world import DelayWorld
from tests.sim.disk.bugs import replaced

SECOND = 1_000_000


class Buggy(DelayWorld):
    def bug(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    async def run(self) -> ClientTally:
        with self.bug():
            return await super().run()


class FiresEarly(Buggy):
    """By a second: each timer is set too early, and nobody looks at the clock again."""

    def bug(self) -> AbstractContextManager[None]:
        class Early(DelayedMessages):
            def note_appended(self, events: Iterable[DelayEvent]) -> None:
                super().note_appended([_earlier(event) for event in events])

        return replaced(partition, "DelayedMessages", Early)


def _earlier(event: DelayEvent) -> DelayEvent:
    return (
        event if isinstance(event, Cancelled | Fired | Lapsed) else event._replace(due=max(0, event.due - SECOND))
    )


class CountsFromTheAppendTime(Buggy):
    """The append time never falls: after the clock was set back, a delay of a second takes hours."""

    def bug(self) -> AbstractContextManager[None]:
        class FromTheAppendTime(Appending):
            def note_delays(self, batches: Sequence[Batch], bases: Sequence[Offset], _: Microseconds) -> None:
                super().note_delays(batches, bases, self._log.append_time)

        return replaced(Partition, "appending_class", FromTheAppendTime)


class CountsFromTheAppendTimeAtStart(Buggy):
    """Right while the broker runs; a start without an index finds another due time."""

    def bug(self) -> AbstractContextManager[None]:
        def without_lag(data: memoryview) -> Iterator[tuple[int, Envelope]]:
            return ((position, envelope._replace(clock_lag=0)) for position, envelope in batches_in(data))

        return replaced(delayscan, "batches_in", without_lag)


class AnswersCancelsBeforeSync(Buggy):
    """And nobody hurries the sync: it comes within a second."""

    def bug(self) -> AbstractContextManager[None]:
        class WithoutSync(Appending):
            def append_own(self, batch: Batch, fired: Sequence[Offset] = ()) -> Offset:
                if CANCEL not in bytes(batch.body):
                    return super().append_own(batch, fired)
                now = self._clock.now()
                [base] = self._log.append([batch], now)
                self.note_delays([batch], [base], now)
                self._keeper.note_written(batch.size, awaited=False)
                return self._log.high_watermark  # nothing is left to wait for

        return replaced(Partition, "appending_class", WithoutSync)


class KeepsIdsOfCancelled(Buggy):
    """Who publishes again with such an id is told of the cancelled message, and nothing is ever delivered."""

    def bug(self) -> AbstractContextManager[None]:
        class KeepingIds(Appending):
            def free_ids(self, events: Sequence[DelayEvent]) -> None:
                pass

        return replaced(Partition, "appending_class", KeepingIds)


class RecallsIdsOfCancelled(Buggy):
    """The same, after a start."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(idrecall, "delay_events", lambda *_: [])


class CancelsInMemoryOnly(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        class InMemory(PartitionDelays):
            async def change(self, batch: Batch) -> bool:
                [cancelled] = delayevents.delay_events(batch.attributes, 0, 0, batch.record_count, batch.body)
                if not isinstance(cancelled, Cancelled):
                    return await super().change(batch)
                end = self._log.high_watermark
                self._delayed.note_appended([cancelled._replace(at=end - 1)])
                self._delayed.show(end)
                return True

        return replaced(Partition, "delays_class", InMemory)


class ForgetsAtStart(Buggy):
    """What is found in the log at a start, of this kind, counts for nothing."""

    kind: type[Any]

    def bug(self) -> AbstractContextManager[None]:
        before, kind = delayevents.delay_events, self.kind

        def delay_events(*batch: Any) -> list[DelayEvent]:
            return [event for event in before(*batch) if not isinstance(event, kind)]

        return replaced(delayscan, "delay_events", delay_events)


class ForgetsWhatHasFired(ForgetsAtStart):
    kind = Fired


class ForgetsMovesAtRebuild(ForgetsAtStart):
    kind = Moved


class LoadsNoTimers(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        class Unloaded(Timers):
            async def load(self, message: LoadTimers) -> None:
                await super().load(LoadTimers(message.owner, array("Q"), array("Q"), message.more))

        return replaced(broker, "Timers", Unloaded)


class FiresInAnyOrder(Buggy):
    """What falls due at once comes in order of offsets."""

    def bug(self) -> AbstractContextManager[None]:
        class ByOffset(PartitionDelays):
            def originals(self, due: Sequence[Timer], found: dict[Offset, bytes]) -> list[Original]:
                return super().originals(sorted(due), found)

        return replaced(Partition, "delays_class", ByOffset)


PLANTED_AMONG_DELAYS: dict[str, type[ClientWorld]] = {
    "answers-cancels-before-sync": AnswersCancelsBeforeSync,
    "cancels-in-memory-only": CancelsInMemoryOnly,
    "counts-from-the-append-time": CountsFromTheAppendTime,
    "counts-from-the-append-time-at-start": CountsFromTheAppendTimeAtStart,
    "fires-early": FiresEarly,
    "fires-in-any-order": FiresInAnyOrder,
    "keeps-ids-of-cancelled": KeepsIdsOfCancelled,
    "recalls-ids-of-cancelled": RecallsIdsOfCancelled,
    "forgets-moves-at-rebuild": ForgetsMovesAtRebuild,
    "forgets-what-has-fired": ForgetsWhatHasFired,
    "loads-no-timers": LoadsNoTimers,
}

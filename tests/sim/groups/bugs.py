"""Bugs planted in the ledgers, their journal, the dead letters and the client. A world of groups must find each."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import trio

from goqueue.actors.deadletters import carrier as deadletters
from goqueue.actors.delivery import ledgers
from goqueue.actors.delivery.acked import AckedRetention
from goqueue.actors.delivery.delivery import GroupDelivery
from goqueue.actors.delivery.ledgers import Ledgers
from goqueue.actors.delivery.requests import TopicReaders
from goqueue.actors.groups import adoption as groupadoption
from goqueue.actors.groups import group
from goqueue.actors.groups.attachments import introduction
from goqueue.actors.metadata import metadata
from goqueue.actors.partition.requests import Produce
from goqueue.client.consuming import queue
from goqueue.client.consuming.stock import Stock
from goqueue.core.groups import rebalance, settings
from goqueue.core.groups.decisions import Decision
from goqueue.core.groups.effects import Effect, Tell
from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns, Standing
from goqueue.core.ledger.entries import Acked, Delivered, Entry, Expired, Nacked, Released
from goqueue.core.ledger.handout import HandOut
from goqueue.core.ledger.keys import Keyed
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.operators import LedgerDamage
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action, SettleRequest
from goqueue.core.log.retention import SegmentAge, count_expired
from goqueue.core.records.batch import Batch, Producer
from goqueue.storage.compaction import retention
from goqueue.storage.directory.storedmetadata import StoredMetadata
from goqueue.storage.log import recovery
from goqueue.storage.log.log import Log
from goqueue.storage.log.recoverypoint import RecoveryPoint, read_recovery_point
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog import ledgers as ledgerlog
from goqueue.storage.snapshotlog import snapshotlog
from goqueue.storage.snapshotlog.ledgers import FOLDER, LedgerLog, Payload, WrittenLedger
from goqueue.storage.snapshotlog.snapshotlog import SnapshotLog
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Microseconds, Offset
from tests.sim.clients import plan as clientplan
from tests.sim.clients.plan import Trouble
from tests.sim.clients.world import ClientTally, ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.disk.plan import Ending
from tests.sim.groups import plan
from tests.sim.groups.plan import Habit
from tests.sim.groups.world import GroupWorld


class Buggy(GroupWorld):
    def bug(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    async def run(self) -> ClientTally:
        with self.bug():
            return await super().run()


class LedgerBug(Buggy):
    """Planted in every ledger."""

    ledger_class: type[Ledger]

    def bug(self) -> AbstractContextManager[None]:
        return replaced(WrittenLedger, "ledger_class", self.ledger_class)


class SpeaksTooSoon(Buggy):
    """What was journaled last reaches the file only with what comes next."""

    kind: type[Entry]

    def bug(self) -> AbstractContextManager[None]:
        kind = self.kind

        class Late(LedgerLog):
            def __init__(self, log: SnapshotLog) -> None:
                super().__init__(log)
                self.late: list[Payload] = []

            def append(self, payloads: Sequence[Payload], wall: Microseconds) -> None:
                ready, self.late = [*self.late, *payloads], []
                while ready and ready[-1][3] and isinstance(Entry.from_plain(ready[-1][3]), kind):
                    self.late.insert(0, ready.pop())
                if ready:
                    super().append(ready, wall)

        return replaced(ledgers, "LedgerLog", Late)


class AnswersAcksBeforeJournal(SpeaksTooSoon):
    kind = Acked


class HandsOutBeforeJournal(SpeaksTooSoon):
    kind = Delivered


class LosesWhatExpires(LedgerBug):
    class ledger_class(Ledger):  # noqa: N801
        def apply(self, entry: Entry, now: float) -> None:
            super().apply(Acked(entry.nonce, entry.runs) if isinstance(entry, Expired) else entry, now)


class AcceptsStaleReceipts(LedgerBug):
    class ledger_class(Ledger):  # noqa: N801
        def ack(self, now: float, nonce: int, runs: Iterable[AttemptRun]) -> tuple[Acked | None, AttemptRuns]:
            entry, _ = super().ack(now, nonce, runs)
            return entry, ()


class RefusesRepeatedAcks(LedgerBug):
    class ledger_class(Ledger):  # noqa: N801
        def settle(self, now: float, asked: SettleRequest) -> tuple[Entry | None, AttemptRuns]:
            entry, stale = super().settle(now, asked)
            return entry, asked.runs if entry is None and asked.action is Action.ACK else stale


class OftenUnheard(GroupWorld):
    """What the broker says vanishes time and again, and clients repeat what they asked."""

    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        with replaced(clientplan, "DURING_A_LIFE", (Trouble.ANSWERS_VANISH,)):
            super().__init__(seed, without)


class RemembersOnlyAcks(OftenUnheard, LedgerBug):
    """A nack, reject or release that is said again after a lost answer is refused. Members seldom say one with
    much of its lease left, so here they say little else."""

    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        with replaced(plan, "DILIGENT", (Habit.NACK, Habit.NACK_WITH_DELAY, Habit.REJECT)):
            super().__init__(seed, without)

    class ledger_class(Ledger):  # noqa: N801
        def settle(self, now: float, asked: SettleRequest) -> tuple[Entry | None, AttemptRuns]:
            entry, stale = super().settle(now, asked)
            return entry, asked.runs if entry is None and asked.action is not Action.ACK else stale


class BuriesWithoutSequence(Buggy):
    """Each attempt to append dead letters is made under a number that nobody has journaled."""

    def bug(self) -> AbstractContextManager[None]:
        numbers = count(1)

        def produce(body: bytes, records: int, *, producer: Producer, **others: Any) -> Produce:
            return Produce(body, records, producer=Producer(1_000_000 + next(numbers), 0, 0), **others)

        return replaced(deadletters, "Produce", produce)


class PassesWhatWasNacked(LedgerBug):
    class ledger_class(Ledger):  # noqa: N801
        def apply(self, entry: Entry, now: float) -> None:
            super().apply(entry, now)
            for retry in entry.retries if isinstance(entry, Nacked) else ():
                for run in retry.runs:
                    self._state.lanes.settle(run.first, run.last)


class ForgetsDelays(LedgerBug):
    class ledger_class(Ledger):  # noqa: N801
        def nack(
            self, now: float, nonce: int, runs: Iterable[AttemptRun], _: float | None, reason: str
        ) -> tuple[Nacked | None, AttemptRuns]:
            return super().nack(now, nonce, runs, 0.0, reason)


class DeliversOnceTooOften(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        class Generous(LedgerSettings):
            def is_last(self, attempt: int) -> bool:
                return 0 < self.max_deliveries < attempt

        return replaced(settings, "LedgerSettings", Generous)


class NeverDeliversAlone(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        class Trusting(LedgerSettings):
            def goes_alone(self, _: Standing) -> bool:
                return False

        return replaced(settings, "LedgerSettings", Trusting)


class EndsLeasesEarly(LedgerBug):
    class ledger_class(Ledger):  # noqa: N801
        def apply(self, entry: Entry, now: float) -> None:
            super().apply(entry, now - entry.visibility / 2 if isinstance(entry, Delivered) else now)


class ForgetsWhatIsGivenBack(LedgerBug):
    class ledger_class(Ledger):  # noqa: N801
        def apply(self, entry: Entry, now: float) -> None:
            super().apply(Acked(entry.nonce, entry.runs) if isinstance(entry, Released) else entry, now)


class PromisesPartitionsTwice(Buggy):
    """A member is told that it has what the others have, too."""

    def bug(self) -> AbstractContextManager[None]:
        class Generous(rebalance.Group):
            def apply(self, now: float, decision: Decision) -> list[Effect]:
                effects = super().apply(now, decision)
                return [self.told(each.member) if isinstance(each, Tell) else each for each in effects]

            def told(self, member_id: str) -> Tell:
                everything = [member.assignment for member in self.view(0).members]
                return replace(super().told(member_id), assignment=frozenset().union(*everything))

        return replaced(rebalance, "Group", Generous)


class HandsOutBackwards(Buggy):
    """In the client, which has them in the right order."""

    def bug(self) -> AbstractContextManager[None]:
        class Backwards(Stock):
            def take(self, count_max: int) -> list[Any]:
                return super().take(count_max)[::-1]

        return replaced(queue, "Stock", Backwards)


class ForgetsKeysAtRestart(LedgerBug):
    """What was not settled when the broker ended is taken for messages without keys."""

    class ledger_class(Ledger):  # noqa: N801
        def learn_keys(self, _: Iterable[Keyed]) -> None:
            super().learn_keys(())


class IgnoresKeys(LedgerBug):
    class ledger_class(Ledger):  # noqa: N801
        lacks_keys = False  # so it never learns one


class FailsBehindTheJournal(LedgerBug):
    """Where only hidden messages follow those that are redelivered, the delivery is journaled, and then fails."""

    class ledger_class(Ledger):  # noqa: N801
        def handed_out(self, now: float, decided: HandOut) -> None:
            entry = (*decided.entries, None)[0]
            if isinstance(entry, Delivered) and not entry.fresh and entry.scanned_to > decided.plan.fresh_from:
                raise IndexError("planted")
            super().handed_out(now, decided)


class AdoptsNobody(Buggy):
    """A group that the register lost is made again by its next consumer, and begins anew."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(groupadoption, "adoptions", lambda *_, **__: ())


class ForgetsWhatWasClaimed(Buggy):
    """A companion log that is gone, or ends too early, looks as if it had never been more."""

    @contextmanager
    def bug(self) -> Iterator[None]:
        async def read_point(volume: Volume, directory: str) -> RecoveryPoint | None:
            return None if directory.endswith(f"/{FOLDER}") else await read_recovery_point(volume, directory)

        def introduced(*arguments: Any) -> Any:
            return replace(introduction(*arguments), is_expected=False)

        with replaced(recovery, "read_recovery_point", read_point), replaced(group, "introduction", introduced):
            yield


class ClaimsBeforeTheSync(Buggy):
    """A companion log says of its records that they are durable as soon as they are written."""

    def bug(self) -> AbstractContextManager[None]:
        class Hasty(Log):
            __slots__ = ()

            def append(self, batches: Sequence[Batch], now: Microseconds) -> list[int]:
                offsets = super().append(batches, now)
                self._durable = self._end
                return offsets

        return replaced(snapshotlog, "Log", Hasty)


class AnswersBeforeTheMetadata(Buggy):
    """Topics and groups are there for whoever asks, and not yet on the disk."""

    def bug(self) -> AbstractContextManager[None]:
        class Hasty(StoredMetadata):
            async def commit(self) -> bool:
                return False

        return replaced(metadata, "StoredMetadata", Hasty)


class ReplacesTooMuch(Buggy):
    """A snapshot takes the place of all records that are there when it is durable, not only of those before it."""

    def bug(self) -> AbstractContextManager[None]:
        class Greedy(SnapshotLog):
            __slots__ = ()

            async def replace(self, snapshot: Sequence[bytes], now: Microseconds) -> None:
                await super().replace(snapshot, now)
                await self._log.delete_before(self._log.high_watermark)

        return replaced(ledgerlog, "SnapshotLog", Greedy)


class SkipsWhatIsDamaged(LedgerBug):
    """What the log cannot read is passed over, and forgotten."""

    class ledger_class(Ledger):  # noqa: N801
        @property
        def damage(self) -> LedgerDamage:
            return Unnoticed(self._state)


class Unnoticed(LedgerDamage):
    def note(self, *_: object) -> None:
        return None


class RemovesOneSegmentTooMany(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        def too_many(segments: Sequence[SegmentAge], now: Microseconds, **limits: Any) -> int:
            more = limits["done_to"] is not None
            return min(count_expired(segments, now, **limits) + more, max(0, len(segments) - 1))

        return replaced(retention, "count_expired", too_many)


class OftenRemoves(GroupWorld):
    """Retention by acks wherever it can be, acks that are synced late, and a power cut at the end of every life."""

    def __init__(self, seed: int, without: Collection[int] = ()) -> None:
        with replaced(plan, "REMOVING_ODDS", 1.0):
            super().__init__(seed, without)

    async def run(self) -> ClientTally:
        with replaced(ledgers, "UNSYNCED_SECONDS_MAX", 30.0):
            return await super().run()

    async def _end(self, node: trio.Nursery, ending: Ending) -> SimulatedDisk:
        return await super()._end(node, Ending.POWER_CUT)


class RemovesBeforeAcksAreDurable(OftenRemoves, Buggy):
    def bug(self) -> AbstractContextManager[None]:
        class Hasty(AckedRetention):
            def __init__(self, here: Ledgers, log: Log) -> None:
                unsynced: Any = SimpleNamespace(groups=here.groups, commit=trio.lowlevel.checkpoint)
                super().__init__(unsynced, log)
                self.here, self.unsynced = here, unsynced

            async def done_to(self, readers: TopicReaders) -> Offset | None:
                self.unsynced.groups = self.here.groups
                return await super().done_to(readers)

        return replaced(GroupDelivery, "acked_class", Hasty)


PLANTED_AMONG_GROUPS: dict[str, type[ClientWorld]] = {
    "answers-acks-before-journal": AnswersAcksBeforeJournal,
    "answers-before-the-metadata": AnswersBeforeTheMetadata,
    "claims-before-the-sync": ClaimsBeforeTheSync,
    "replaces-too-much": ReplacesTooMuch,
    "hands-out-before-journal": HandsOutBeforeJournal,
    "loses-what-expires": LosesWhatExpires,
    "accepts-stale-receipts": AcceptsStaleReceipts,
    "refuses-repeated-acks": RefusesRepeatedAcks,
    "remembers-only-acks": RemembersOnlyAcks,
    "skips-what-is-damaged": SkipsWhatIsDamaged,
    "buries-without-sequence": BuriesWithoutSequence,
    "passes-what-was-nacked": PassesWhatWasNacked,
    "forgets-delays": ForgetsDelays,
    "delivers-once-too-often": DeliversOnceTooOften,
    "never-delivers-alone": NeverDeliversAlone,
    "ends-leases-early": EndsLeasesEarly,
    "forgets-what-is-given-back": ForgetsWhatIsGivenBack,
    "promises-partitions-twice": PromisesPartitionsTwice,
    "hands-out-backwards": HandsOutBackwards,
    "ignores-keys": IgnoresKeys,
    "forgets-keys-at-restart": ForgetsKeysAtRestart,
    "fails-behind-the-journal": FailsBehindTheJournal,
    "adopts-nobody": AdoptsNobody,
    "forgets-what-was-claimed": ForgetsWhatWasClaimed,
    "removes-one-segment-too-many": RemovesOneSegmentTooMany,
    "removes-before-acks-are-durable": RemovesBeforeAcksAreDurable,
}

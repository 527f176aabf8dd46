"""Bugs planted in the ledgers, their journal, the dead letters and the client. A world of groups must find each."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from goqueue.actors.deadletters import carrier as deadletters
from goqueue.actors.delivery.handing import HandingOut
from goqueue.actors.delivery.ledgers import GroupHere
from goqueue.actors.groups import adoption as groupadoption
from goqueue.actors.groups import group
from goqueue.actors.groups.attachments import introduction
from goqueue.actors.partition.requests import Produce
from goqueue.client.consuming.stock import Stock
from goqueue.core.groups.effects import Tell
from goqueue.core.groups.views import MemberState
from goqueue.core.ledger import entries
from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.deliveries import Deliveries, ReceiptVerdict
from goqueue.core.ledger.entries import _KINDS, Acked, Delivered, Retry
from goqueue.core.ledger.keys import Keyed, LedgerKeys, StandingSet
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.repair import LedgerDamage
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Settlement
from goqueue.core.ledger.state import LedgerState
from goqueue.core.offsetset import Run
from goqueue.core.records.batch import Producer
from goqueue.storage.journals import journal
from goqueue.storage.journals.ledgers import LedgerJournal, Payload
from tests.sim.clients.world import ClientTally, ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.groups.world import GroupWorld


class Buggy(GroupWorld):
    def bug(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    async def run(self) -> ClientTally:
        with self.bug():
            return await super().run()


class SpeaksTooSoon(Buggy):
    """What was journaled last reaches the file only with what comes next."""

    kind: Any

    def bug(self) -> AbstractContextManager[None]:
        before, number = LedgerJournal.append, _KINDS[self.kind].number
        waiting: WeakKeyDictionary[LedgerJournal, list[Payload]] = WeakKeyDictionary()

        def append(self: LedgerJournal, payloads: Sequence[Payload]) -> None:
            ready = [*waiting.pop(self, []), *payloads]
            late: list[Payload] = []
            while ready and ready[-1][3] and ready[-1][3][0] == number:
                late.insert(0, ready.pop())
            waiting[self] = late
            if ready:
                before(self, ready)

        return replaced(LedgerJournal, "append", append)


class AnswersAcksBeforeJournal(SpeaksTooSoon):
    kind = entries.Acked


class HandsOutBeforeJournal(SpeaksTooSoon):
    kind = entries.Delivered


class LosesWhatExpires(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        def expired(self: LedgerState, entry: entries.Expired) -> None:
            for _, run in self.deliveries.take(entry.nonce, entry.runs).standing_runs():
                self.lanes.settle(*run)

        return replaced(LedgerState, "_expired", expired)


class AcceptsStaleReceipts(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        before = Ledger.ack

        def ack(
            self: Ledger, now: float, nonce: int, runs: Iterable[AttemptRun]
        ) -> tuple[Acked | None, AttemptRuns]:
            entry, _ = before(self, now, nonce, runs)
            return entry, ()

        return replaced(Ledger, "ack", ack)


class RefusesRepeatedAcks(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        def ack(
            self: Ledger, now: float, nonce: int, runs: Iterable[AttemptRun]
        ) -> tuple[Acked | None, AttemptRuns]:
            good, stale = self._state.deliveries.judge(now, nonce, runs)
            return (Acked(nonce, good) if good else None), stale

        return replaced(Ledger, "ack", ack)


class RemembersOnlyAcks(Buggy):
    """A nack, reject or release that is said again after a lost answer is refused."""

    def bug(self) -> AbstractContextManager[None]:
        before = Deliveries.judge

        def judge(
            self: Deliveries, now: float, nonce: int, runs: Iterable[AttemptRun], repeats: Settlement | None = None
        ) -> ReceiptVerdict:
            return before(self, now, nonce, runs, repeats if repeats is Settlement.ACKED else None)

        return replaced(Deliveries, "judge", judge)


class BuriesWithoutSequence(Buggy):
    """Each attempt to append dead letters is made under a number that nobody has journaled."""

    def bug(self) -> AbstractContextManager[None]:
        numbers = count(1)

        def produce(body: bytes, records: int, *, producer: Producer, **others: Any) -> Produce:
            return Produce(body, records, producer=Producer(1_000_000 + next(numbers), 0, 0), **others)

        return replaced(deadletters, "Produce", produce)


class PassesWhatWasNacked(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        before = LedgerState._nacked

        def nacked(self: LedgerState, entry: entries.Nacked, now: float) -> None:
            before(self, entry, now)
            for retry in entry.retries:
                for run in retry.runs:
                    self.lanes.settle(run.first, run.last)

        return replaced(LedgerState, "_nacked", nacked)


class ForgetsDelays(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        def retries(_self: Ledger, runs: Sequence[AttemptRun], _delay: float | None) -> tuple[Retry, ...]:
            return (Retry(0.0, tuple(runs)),) if runs else ()

        return replaced(Ledger, "_retries", retries)


class DeliversOnceTooOften(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        return replaced(LedgerSettings, "is_last", lambda self, attempt: 0 < self.max_deliveries < attempt)


class NeverDeliversAlone(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        return replaced(LedgerSettings, "goes_alone", lambda *_: False)


class EndsLeasesEarly(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        before = LedgerState._delivered

        def delivered(self: LedgerState, entry: entries.Delivered, now: float) -> None:
            before(self, entry, now - entry.visibility / 2)

        return replaced(LedgerState, "_delivered", delivered)


class ForgetsWhatIsGivenBack(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        def released(self: LedgerState, entry: entries.Released) -> None:
            for _, run in self.deliveries.take(entry.nonce, entry.runs).standing_runs():
                self.lanes.settle(*run)

        return replaced(LedgerState, "_released", released)


class PromisesPartitionsTwice(Buggy):
    """A member is told that it has what the others have, too."""

    def bug(self) -> AbstractContextManager[None]:
        before = group.Group._as_membership

        def as_membership(self: group.Group, told: Tell) -> MemberState:
            others = [self._core.told(member.id).assignment for member in self._core.view(0).members]
            return before(self, replace(told, assignment=told.assignment.union(*others)))

        return replaced(group.Group, "_as_membership", as_membership)


class HandsOutBackwards(Buggy):
    """In the client, which has them in the right order."""

    def bug(self) -> AbstractContextManager[None]:
        before: Callable[[Stock, int], list[Any]] = Stock.take
        return replaced(Stock, "take", lambda self, count_max: before(self, count_max)[::-1])


class ForgetsKeysAtRestart(Buggy):
    """What was not settled when the broker ended is taken for messages without keys."""

    def bug(self) -> AbstractContextManager[None]:
        before = LedgerKeys.learn

        def learn(self: LedgerKeys, unsettled: Iterable[Run], _: Iterable[Keyed]) -> None:
            before(self, unsettled, ())

        return replaced(LedgerKeys, "learn", learn)


class IgnoresKeys(Buggy):
    def bug(self) -> AbstractContextManager[None]:
        def those_that_may_leave(_: LedgerKeys, sets: Sequence[StandingSet]) -> Sequence[StandingSet]:
            return sets

        return replaced(LedgerKeys, "those_that_may_leave", those_that_may_leave)


class FailsBehindTheJournal(Buggy):
    """Where only hidden messages follow those that are redelivered, the delivery is journaled, and then fails."""

    def bug(self) -> AbstractContextManager[None]:
        before = HandingOut._journal_and_answer

        def journal_and_answer(
            self: HandingOut, here: GroupHere, journaled: Sequence[entries.Entry], *rest: Any
        ) -> None:
            entry, place = (*journaled, None)[0], here.ledger.next_fresh
            before(self, here, journaled, *rest)
            if isinstance(entry, Delivered) and not entry.fresh and entry.scanned_to > place:
                raise IndexError("planted")

        return replaced(HandingOut, "_journal_and_answer", journal_and_answer)


class AdoptsNobody(Buggy):
    """A group that the register lost is made again by its next consumer, and begins anew."""

    def bug(self) -> AbstractContextManager[None]:
        return replaced(groupadoption, "adoptions", lambda *_, **__: ())


class ForgetsWhatWasClaimed(Buggy):
    """A journal that is gone, or ends too early, looks as if it had never been more."""

    @contextmanager
    def bug(self) -> Iterator[None]:
        async def read_claim(*_: object) -> int:
            return 0

        def introduced(*arguments: Any) -> Any:
            return replace(introduction(*arguments), is_expected=False)

        with replaced(journal, "read_claim", read_claim), replaced(group, "introduction", introduced):
            yield


class SkipsWhatIsDamaged(Buggy):
    """What the log cannot read is passed over, and forgotten."""

    def bug(self) -> AbstractContextManager[None]:
        def note(self: LedgerDamage, *_: object) -> None:
            return None

        return replaced(LedgerDamage, "note", note)


PLANTED_AMONG_GROUPS: dict[str, type[ClientWorld]] = {
    "answers-acks-before-journal": AnswersAcksBeforeJournal,
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
}

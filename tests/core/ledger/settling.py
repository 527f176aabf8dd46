"""Settlements in the model of a ledger: each word about receipts of all times, good, stale and forged."""

from collections.abc import Iterable

import pytest

from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings, backoff
from goqueue.core.ledger.settlements import Action, decided_together
from goqueue.errors import StaleReceipt
from tests.core.ledger.damaging import Damaging
from tests.core.ledger.parts import Asked, Choose, Message, Slip, State, seldom, singles, together


class SettlingModel(Damaging):
    settings: LedgerSettings
    settled: dict[Slip, str]
    """Receipts that were used, and how."""

    def is_good(self, slip: Slip) -> bool:
        message = self.messages.get(slip.offset)
        return (
            message is not None
            and message.state is State.IN_FLIGHT
            and (message.nonce, message.attempt) == (slip.nonce, slip.attempt)
            and message.time > self.now
        )

    def leave(self, message: Message, reason: str) -> None:
        message.state, message.reason = State.LEAVING, reason

    def choose_slips(self, choose: Choose) -> tuple[int, list[Slip]]:
        """As they are handed in, of one nonce: mostly of one under way, else of any; now and then one is forged."""
        flying = sorted({self.messages[offset].nonce for offset in self.state(State.IN_FLIGHT)})
        every = range(max(1, self.nonce - 6), self.nonce + 2)
        nonce = choose(flying if flying and not seldom(choose) else every)
        own = [slip for slip in self.slips if slip.nonce == nonce]
        chosen = [choose(own) for _ in range(choose(range(1, 9)))] if own else []
        if seldom(choose):
            chosen.append(Slip(nonce, choose(range(len(self.log) + 3)), choose((1, 2, 3))))
        return nonce, chosen

    def runs(self, slips: list[Slip], choose: Choose) -> list[AttemptRun]:
        """One by one, or neighbours together."""
        if choose((True, False)):
            return [AttemptRun(slip.offset, slip.offset, slip.attempt) for slip in slips]
        attempts = sorted({slip.attempt for slip in slips})
        by_attempt = [{slip.offset for slip in slips if slip.attempt == attempt} for attempt in attempts]
        pairs = zip(attempts, by_attempt, strict=True)
        return [AttemptRun(*run, attempt) for attempt, offsets in pairs for run in together(offsets)]

    def judge(self, slips: list[Slip], stale: Iterable[AttemptRun], word: str | None = None) -> list[Message]:
        """The messages whose receipts are good; the others must have been named (G6), but those that were settled
        by the same word before."""
        good = {slip for slip in slips if self.is_good(slip)}
        repeated = {slip for slip in slips if word is not None and self.settled.get(slip) == word}
        refused = {(slip.offset, slip.attempt) for slip in set(slips) - good - repeated}
        assert set(singles(stale)) == refused
        if word is not None:
            self.settled.update(dict.fromkeys(good, word))
        return [self.messages[slip.offset] for slip in sorted(good, key=lambda slip: slip.offset)]

    def settle(self, choose: Choose) -> None:
        nonce, slips = self.choose_slips(choose)
        runs = self.runs(slips, choose)
        words = ("ack", "ack everything", "nack", "release", "extend", "reject", "extend everything", "begin")
        match choose(words):
            case "ack":
                self.ack(nonce, slips, runs)
            case "ack everything":
                self.ack_everything(nonce)
            case "nack":
                self.nack(nonce, slips, runs, choose((None, 0.5, 0.0, 7.0)))
            case "release":
                self.release(nonce, slips, runs)
            case "reject":
                self.reject(nonce, slips, runs)
            case "extend":
                self.extend(nonce, slips, runs, choose((4.0, 0.25, 40.0)))
            case "extend everything":
                self.extend_everything(nonce, choose((4.0, 0.25, 40.0)))
            case "begin":
                self.begin(nonce, slips, runs)

    def settle_together(self, choose: Choose) -> None:
        """What may be decided together becomes what it would become one by one. This is seen with copies."""
        some = [self.asked(choose) for _ in range(choose((3, 2, 6)))]
        one_by_one, together = self.ledger.copy(self.now), self.ledger.copy(self.now)
        expected, answers = list[object](), list[object]()
        for request in some:
            expected.append(answer := answer_of(one_by_one, self.now, request))
            if isinstance(answer, tuple) and answer[0] is not None:
                one_by_one.apply(answer[0], self.now)
        for portion in decided_together(some, lambda request: request):
            decided = [answer_of(together, self.now, request) for request in portion]
            for entry in [each[0] for each in decided if isinstance(each, tuple) and each[0] is not None]:
                together.apply(entry, self.now)
            answers += decided
        assert [stale_of(each) for each in answers] == [stale_of(each) for each in expected]
        assert together.snapshot(self.now) == one_by_one.snapshot(self.now)

    def asked(self, choose: Choose) -> Asked:
        nonce, slips = self.choose_slips(choose)
        action = choose([*Action, Action.ACK, Action.BEGIN])
        if action in (Action.ACK, Action.EXTEND) and seldom(choose):
            return Asked(nonce, action, whole=choose((1, 2, 4)) if action is Action.ACK else 0)
        return Asked(nonce, action, tuple(self.runs(slips, choose)))

    def settled_by(self, word: str) -> set[Slip]:
        return {slip for slip, how in self.settled.items() if how == word}

    def is_held(self, slip: Slip, member: str) -> bool:
        return self.is_good(slip) and self.messages[slip.offset].member == member

    def ack(self, nonce: int, slips: list[Slip], runs: list[AttemptRun]) -> None:
        entry, stale = self.ledger.ack(self.now, nonce, runs)
        good = self.judge(slips, stale, "ack")
        assert (entry is not None) == bool(good), "only what changes something is journaled"
        for message in good:
            message.state = State.DONE
        self.write(entry)

    def ack_everything(self, nonce: int) -> None:
        """Of a delivery as it was made: what is not good, or was acked before, has to be named."""
        own = {slip for slip in self.slips if slip.nonce == nonce}
        out = {slip for slip in own if self.is_good(slip)}
        try:
            entry, stale = self.ledger.settle(self.now, Asked(nonce, Action.ACK, whole=len(own) or 1))
        except StaleReceipt:
            entry, is_acked = None, False
        else:
            is_acked = stale == ()
        assert (entry is not None) == bool(own and out == own)
        assert is_acked == bool(own and (out == own or own <= self.settled_by("ack")))
        for slip in out if entry is not None else ():
            self.settled[slip] = "ack"
            self.messages[slip.offset].state = State.DONE
        self.write(entry)

    def nack(self, nonce: int, slips: list[Slip], runs: list[AttemptRun], delay: float | None) -> None:
        entry, stale = self.ledger.nack(self.now, nonce, runs, delay, "broken")
        good = self.judge(slips, stale, "nack")
        assert (entry is not None) == bool(good), "a repeat changes nothing"
        for message in good:
            if self.is_last(message):
                self.leave(message, "broken")
                continue
            message.time = self.now + (backoff(message.attempt) if delay is None else delay)
            message.state, message.attempt, message.lost = State.WAITING, message.attempt + 1, False
        self.write(entry)

    def reject(self, nonce: int, slips: list[Slip], runs: list[AttemptRun]) -> None:
        entry, stale = self.ledger.reject(self.now, nonce, runs, "refused")
        leaves = self.settings.has_dead_letters
        good = self.judge(slips, stale, "reject" if leaves else "nack")
        assert (entry is not None) == bool(good), "a repeat changes nothing"
        for message in good:
            if leaves:
                self.leave(message, "refused")
            else:  # dead letters have no dead letters
                message.time = self.now + self.settings.backoff_max
                message.state, message.attempt, message.lost = State.WAITING, message.attempt + 1, False
        self.write(entry)

    def release(self, nonce: int, slips: list[Slip], runs: list[AttemptRun]) -> None:
        entry, stale = self.ledger.release(self.now, nonce, runs)
        good = self.judge(slips, stale, "release")
        assert (entry is not None) == bool(good), "a repeat changes nothing"
        for message in good:
            message.state = State.READY
        self.write(entry)

    def begin(self, nonce: int, slips: list[Slip], runs: list[AttemptRun]) -> None:
        entry, stale = self.ledger.note_begun(self.now, nonce, runs)
        begun = [message for message in self.judge(slips, stale) if not message.counts]
        assert (entry is not None) == bool(begun), "what has begun does not begin again"
        for message in begun:
            message.counts = True
        self.write(entry)

    def extend(self, nonce: int, slips: list[Slip], runs: list[AttemptRun], visibility: float) -> None:
        entry, stale = self.ledger.extend(self.now, nonce, runs, visibility)
        for message in self.judge(slips, stale):
            message.time, message.visibility = self.now + visibility, visibility
        self.write(entry)

    def extend_everything(self, nonce: int, visibility: float) -> None:
        out = {slip for slip in self.slips if slip.nonce == nonce and self.is_good(slip)}
        asked = Asked(nonce, Action.EXTEND, delay=visibility)
        if not out:
            with pytest.raises(StaleReceipt):
                self.ledger.settle(self.now, asked)
            return
        entry, stale = self.ledger.settle(self.now, asked)
        assert (entry is not None, stale) == (True, ())
        for slip in out:
            message = self.messages[slip.offset]
            message.time, message.visibility = self.now + visibility, visibility
        self.write(entry)


def answer_of(ledger: Ledger, now: float, asked: Asked) -> tuple[Entry | None, AttemptRuns] | StaleReceipt:
    try:
        return ledger.settle(now, asked)
    except StaleReceipt as refusal:
        return refusal


def stale_of(answer: object) -> object:
    return sorted(answer[1]) if isinstance(answer, tuple) else type(answer)

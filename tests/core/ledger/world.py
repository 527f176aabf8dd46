"""A group, its partition and its consumers, as a model that keeps every message by itself.

The model is a dict of offsets and the rules of SPEC §6 in their plainest form. Each step is taken with the ledger
and in the model, and both must say the same. The tests that walk through it are in `test_ledger_model`.
"""

from collections import Counter
from collections.abc import Iterable

import msgpack
import pytest

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.ledger import REPLACED, Ledger
from goqueue.core.ledger.settings import LedgerSettings, backoff
from goqueue.core.ledger.settlements import Action
from goqueue.core.ledger.shares import LANES
from goqueue.errors import StaleReceipt
from tests.core.ledger.damaging import Damaging
from tests.core.ledger.parts import MEMBERS, Asked, Choose, Message, Slip, State, seldom, singles, together


class LedgerWorld(Damaging):
    def __init__(self, choose: Choose) -> None:
        self.now, self.wall, self.nonce = 64.0, 1_000, 0
        self.journal: list[tuple[float, Entry]] = []
        self.messages: dict[int, Message] = {}
        self.log: list[bool] = []
        """Whether the record at each offset is one to hand out."""
        self.slips: list[Slip] = []
        self.settled: dict[Slip, str] = {}
        """Receipts that were used, and how."""
        self.removed = self.sequence = 0
        self.under_way: list[int] = []
        self.aside = set()
        max_deliveries, self.start = choose((3, 2, 1, 4, 0)), choose((0, 3))
        self.settings = LedgerSettings(max_deliveries, has_dead_letters=max_deliveries > 0 or self.start == 0)
        self.ledger = Ledger(self.settings)
        self.fresh = [self.start] * len(LANES)
        self.palette = choose(((2,), (2,), (4,), (0, 2), (2, 2, 2, 4, 0), (0, 1, 2, 3, 4)))
        self.log = [True] * (self.start + 6)
        self.lanes = [choose(self.palette) for _ in self.log]
        self.write(self.ledger.begin(self.start))

    # What the model knows

    def write(self, entry: Entry | None) -> None:
        """As a shell does: journal, then apply. To decide has changed nothing."""
        if entry is not None:
            assert Entry.from_plain(msgpack.unpackb(msgpack.packb(entry.to_plain()))) == entry
            self.journal.append((self.now, entry))
            self.ledger.apply(entry, self.now)

    def state(self, *states: State) -> list[int]:
        return sorted([offset for offset, message in self.messages.items() if message.state in states])

    def move_on(self) -> None:
        for offset in self.state(State.WAITING):
            if self.messages[offset].time <= self.now:
                self.messages[offset].state = State.READY

    def is_last(self, message: Message) -> bool:
        return 0 < self.settings.max_deliveries <= message.attempt

    def goes_alone(self, offset: int) -> bool:
        message = self.messages[offset]
        return message.state is State.READY and message.lost and self.is_last(message)

    def held(self, member: str) -> list[Message]:
        flying = [self.messages[offset] for offset in self.state(State.IN_FLIGHT)]
        return [message for message in flying if message.member == member]

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

    # The log and the clock

    def grow(self, choose: Choose) -> None:
        self.log += [choose((True, True, True, False)) for _ in range(choose(range(1, 9)))]
        if seldom(choose):
            self.palette = choose(((2,), (0, 2), (0, 1, 2, 3, 4)))
        self.lanes += [choose(self.palette) for _ in self.log[len(self.lanes) :]]

    def wait(self, choose: Choose) -> None:
        self.now += choose((30.0, 5.0, 2.0, 1.0, 0.25, 70.0))
        if choose((True, True, False)):
            self.tick()

    def tick(self) -> None:
        expected = [offset for offset in self.state(State.IN_FLIGHT) if self.messages[offset].time <= self.now]
        entries = self.ledger.tick(self.now)
        named = [pair for entry in entries for pair in singles(entry.runs)]
        assert sorted(named) == [(offset, self.messages[offset].attempt) for offset in expected]
        for entry in entries:
            self.write(entry)
        for offset in expected:
            message = self.messages[offset]
            self.lose(message, f"not settled within {message.visibility:g} s")

    def lose(self, message: Message, why: str) -> None:
        """Its delivery counts, and ended without a word."""
        if self.is_last(message):
            self.leave(message, f"{why}, delivery {message.attempt} of {self.settings.max_deliveries}")
        else:
            message.state, message.attempt, message.lost = State.READY, message.attempt + 1, True

    # What is no longer there

    def pass_over(self, choose: Choose) -> None:
        unheld = self.state(State.READY, State.WAITING, State.LEAVING)
        gone = [offset for offset in unheld if choose((True, False))]
        self.write(self.ledger.pass_over(together(gone), "compacted"))
        for offset in gone:
            self.messages[offset].state = State.DONE

    # Receipts

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
        match choose(("ack", "ack everything", "nack", "release", "extend", "reject", "extend everything")):
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

    def close(self, choose: Choose) -> None:
        member = choose(MEMBERS)
        entries = self.ledger.release_member(self.now, member)
        given_back = [message for message in self.held(member) if message.time > self.now]
        self.settled |= {slip: "release" for slip in self.slips if self.is_held(slip, member)}
        assert sum(len(singles(entry.runs)) for entry in entries) == len(given_back)
        for message in given_back:
            message.state = State.READY
        for entry in entries:
            self.write(entry)

    def replace(self, choose: Choose) -> None:
        """Another consumer comes in the place of a member: it has all back at once, and all of it counts."""
        member = choose(MEMBERS)
        lost = self.held(member)
        entries = self.ledger.expire_member(member)
        assert sum(len(singles(entry.runs)) for entry in entries) == len(lost)
        for message in lost:
            self.lose(message, REPLACED)
        for entry in entries:
            self.write(entry)
        assert not self.held(member)

    # Dead letters

    def transfer_next(self, choose: Choose) -> None:
        count = choose((1, 2, 5))
        expected = self.state(State.LEAVING)[:count]
        next_ones = self.ledger.next_dead_letters(count)
        assert [offset for run in next_ones for offset in range(run.first, run.last + 1)] == expected
        for run in next_ones:
            for offset in range(run.first, run.last + 1):
                message = self.messages[offset]
                walls = (message.first_delivery, message.last_delivery)
                assert (run.attempts, run.first_delivery, run.last_delivery) == (message.attempt, *walls)
                assert run.reason == message.reason
                message.state = State.DEPARTING
        self.write(self.ledger.begin_transfer(self.sequence, next_ones))
        self.under_way, self.sequence = expected, self.sequence + len(expected)

    def arrive(self) -> None:
        self.write(self.ledger.transferred(self.sequence - len(self.under_way)))
        for offset in self.state(State.DEPARTING):
            self.messages[offset].state = State.DONE
        self.under_way = []

    def can_transfer(self) -> bool:
        return not self.under_way and bool(self.state(State.LEAVING))

    # What becomes of the log

    def disturb(self, choose: Choose) -> None:
        choose((self.pass_over, self.remove, self.cut, self.reset))(choose)

    def remove(self, choose: Choose) -> None:
        offset = min(len(self.log), self.committed() + choose((1, 3, 0, 8)))
        before = self.committed()
        unread = [place for place in range(max(self.next_fresh, self.start), offset) if self.is_unseen(place)]
        lost = [place for place in self.messages if place < offset and self.is_lost_by_removal(place)]
        entry = self.ledger.removed_below(offset)
        assert (entry is not None) == (offset > before)
        if entry is not None:
            assert entry.unacked == len(lost) + len(unread)
            self.removed += entry.unacked
            for place in range(self.start, offset):
                self.messages[place] = Message(State.DONE)
            self.fresh = [max(place, offset) for place in self.fresh]
        self.write(entry)

    def is_lost_by_removal(self, offset: int) -> bool:
        return self.messages[offset].state not in (State.DONE, State.DEPARTING)

    def cut(self, choose: Choose) -> None:
        end = min(len(self.log), max(0, max(self.fresh) + 1 - choose(range(6))))
        entry = self.ledger.cut_back(end)
        behind_all = {offset for offset in self.aside if offset >= self.next_fresh}
        assert (entry is not None) == (end < max(*self.fresh, *(offset + 1 for offset in behind_all)))
        self.aside = {offset for offset in self.aside if offset < end}
        del self.log[end:], self.lanes[end:]
        self.messages = {offset: message for offset, message in self.messages.items() if offset < end}
        self.fresh, self.start = [min(place, end) for place in self.fresh], min(self.start, end)
        self.write(entry)

    def reset(self, choose: Choose) -> None:
        self.start = choose(range(len(self.log) + 1))
        self.fresh = [self.start] * len(LANES)
        self.messages, self.settled, self.aside = {}, {}, set()
        self.write(self.ledger.reset(self.start))

    def commit(self, choose: Choose) -> None:
        """The group becomes a stream for a moment: wherever it stood, it stands there, and nothing is under way."""
        offset = choose(range(len(self.log) + 1))
        was_there = self.committed() == self.next_fresh == max(self.fresh) == offset
        entry = self.ledger.commit(offset)
        assert (entry is None) == was_there
        if entry is not None:
            self.start, self.fresh = offset, [offset] * len(LANES)
            self.messages, self.settled, self.aside = {}, {}, set()
        self.write(entry)

    # Starting again

    def start_again(self, choose: Choose) -> None:
        choose((self.replay, self.restore))(choose((0.0, 1_024.0, -32.0)))

    def replay(self, shift: float) -> None:
        """Monotonic time is another one after a start."""
        replayed = Ledger(LedgerSettings(max_deliveries=1))  # what was decided does not hang on the settings
        for time, entry in self.journal:
            replayed.apply(entry, time + shift)
        assert replayed.snapshot(self.now + shift) == self.ledger.snapshot(self.now)
        if shift == 0:
            replayed.settings = self.settings
            self.ledger = replayed

    def restore(self, shift: float) -> None:
        plain = self.ledger.snapshot(self.now)
        stored = msgpack.unpackb(msgpack.packb(plain), strict_map_key=False)
        restored = Ledger.restore(stored, self.settings, self.now + shift)
        assert restored.snapshot(self.now + shift) == plain
        if shift == 0:
            self.ledger = restored

    # What holds at all times

    def check(self) -> None:
        self.the_progress_is_that_of_the_model()
        self.nothing_is_due_before_the_next_deadline()
        self.members_hold_what_the_model_says()
        self.a_transfer_under_way_is_had_back()

    def committed(self) -> int:
        undone = [offset for offset, message in self.messages.items() if message.state is not State.DONE]
        unseen = next(offset for offset in range(self.next_fresh, len(self.log) + 1) if self.is_unseen(offset))
        return min(*undone, unseen) if undone else unseen

    def the_progress_is_that_of_the_model(self) -> None:
        """G5: what is not done is not passed; and nothing is lost, every offset is counted in one place."""
        self.move_on()
        progress = self.ledger.progress(self.now)
        counted, committed = Counter([message.state for message in self.messages.values()]), self.committed()
        assert (progress.in_flight, progress.waiting) == (counted[State.IN_FLIGHT], counted[State.WAITING])
        assert (progress.leaving, progress.in_transfer) == (counted[State.LEAVING], counted[State.DEPARTING])
        assert (progress.committed, progress.next_fresh) == (committed, self.next_fresh)
        undone = [offset for offset, message in self.messages.items() if message.state is not State.DONE]
        assert progress.first_unsettled == min(undone, default=None)
        assert self.ledger.fresh_places == self.fresh
        unseen = [offset for offset in range(self.next_fresh, len(self.log)) if self.is_unseen(offset)]
        assert progress.lag(len(self.log)) == len(undone) - counted[State.DAMAGED] + len(unseen)
        assert progress.damaged == counted[State.DAMAGED] == len(self.ledger.damage)
        assert [offset for run in self.ledger.damage.runs() for offset in range(run.first, run.last + 1)] == (
            self.state(State.DAMAGED)
        )
        assert sum(each.messages for each in progress.damages) == progress.damaged, "each is named with its file"
        assert progress.removed_unacked == self.removed
        assert (progress.ready_again, self.ledger.has_ready(self.now)) == (ready := counted[State.READY], ready > 0)

    def nothing_is_due_before_the_next_deadline(self) -> None:
        self.move_on()
        timed = self.state(State.IN_FLIGHT, State.WAITING)
        assert self.ledger.next_deadline() == min((self.messages[offset].time for offset in timed), default=None)

    def members_hold_what_the_model_says(self) -> None:
        """G7: each message in flight is held by one."""
        counted = Counter([self.messages[offset].member for offset in self.state(State.IN_FLIGHT)])
        assert self.ledger.in_flight_by_member() == dict(counted)

    def a_transfer_under_way_is_had_back(self) -> None:
        under_way = self.ledger.transfer_under_way
        runs = under_way.runs if under_way is not None else ()
        assert [offset for run in runs for offset in range(run.first, run.last + 1)] == self.under_way
        assert self.ledger.next_sequence == self.sequence

"""A group, its partition and its consumers, as a model that keeps every message by itself.

The model is a dict of offsets and the rules of SPEC §6 in their plainest form. Each step is taken with the ledger
and in the model, and both must say the same. The tests that walk through it are in `test_ledger_model`.
"""

from collections import Counter

import msgpack

from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.ledger import REPLACED, Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.shares import LANES
from tests.core.ledger.parts import MEMBERS, Choose, Message, Slip, State, seldom, singles, together
from tests.core.ledger.settling import SettlingModel


class LedgerWorld(SettlingModel):
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
        self.note_not_begun([self.messages[offset] for offset in expected])
        for offset in expected:
            message = self.messages[offset]
            self.lose(message, f"not settled within {message.visibility:g} s")

    def lose(self, message: Message, why: str) -> None:
        """Its delivery ended without a word. It counts if the member has begun, or does not tell."""
        if not message.counts:
            message.state = State.READY
        elif self.is_last(message):
            self.leave(message, f"{why}, delivery {message.attempt} of {self.settings.max_deliveries}")
        else:
            message.state, message.attempt, message.lost = State.READY, message.attempt + 1, True

    def note_not_begun(self, lost: list[Message]) -> None:
        """What was not begun is released by the broker: a release by the member comes late, and succeeds."""
        nonces = {message.nonce for message in lost}
        for slip in self.slips:
            message = self.messages.get(slip.offset) if slip.nonce in nonces else None
            if message is not None and message in lost and not message.counts and message.nonce == slip.nonce:
                self.settled[slip] = "release"

    # What is no longer there

    def pass_over(self, choose: Choose) -> None:
        unheld = self.state(State.READY, State.WAITING, State.LEAVING)
        gone = [offset for offset in unheld if choose((True, False))]
        self.write(self.ledger.pass_over(together(gone), "compacted"))
        for offset in gone:
            self.messages[offset].state = State.DONE

    # Members

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
        self.note_not_begun(lost)
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
        flying = [self.messages[offset] for offset in self.state(State.IN_FLIGHT)]
        assert self.ledger.count_not_begun() == sum(not message.counts for message in flying)

    def a_transfer_under_way_is_had_back(self) -> None:
        under_way = self.ledger.transfer_under_way
        runs = under_way.runs if under_way is not None else ()
        assert [offset for run in runs for offset in range(run.first, run.last + 1)] == self.under_way
        assert self.ledger.next_sequence == self.sequence

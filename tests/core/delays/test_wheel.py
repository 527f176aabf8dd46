"""The timer wheel against a sorted list, and the bugs that others made in one."""

import tracemalloc
from array import array
from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.core.delays.slotindex import PAGE_MAX
from goqueue.core.delays.wheel import TICK, Fired, TimerWheel
from goqueue.types import Microseconds, Offset

NOW: Microseconds = 1_760_000_000_000_000
SECOND: Microseconds = 1_000_000
DAY = 86_400 * SECOND
YEAR = 365 * DAY
SPANS = (TICK, 256 * TICK, 256 * 64 * TICK, 256 * 64**2 * TICK, 256 * 64**3 * TICK, 256 * 64**4 * TICK, 100 * YEAR)
PLENTY = 1_000_000


def columns(timers: Iterable[tuple[Offset, Microseconds]]) -> tuple["array[int]", "array[int]"]:
    pairs = sorted(timers, key=lambda pair: pair[1])
    return array("Q", [offset for offset, _ in pairs]), array("Q", [due for _, due in pairs])


def all_due(wheel: TimerWheel, now: Microseconds, work_max: int = PLENTY) -> list[Fired]:
    fired = wheel.advance(now, work_max)
    while wheel.is_behind:
        fired += wheel.advance(now, work_max)
    return fired


# Against a model, under any sequence of events.

lengths = st.one_of(
    st.integers(0, 3 * TICK),
    st.builds(
        lambda span, times, more: max(0, span * times + more),
        st.sampled_from(SPANS),
        st.integers(1, 3),
        st.integers(-2, 2),
    ),
    st.sampled_from(SPANS).flatmap(lambda span: st.integers(0, span * 64)),
)
delays = st.one_of(lengths, lengths.map(lambda length: -length))
owners = st.integers(0, 2)
offsets = st.integers(0, 30)
works = st.one_of(st.integers(1, 4), st.just(PLENTY))


class AgainstASortedList(RuleBasedStateMachine):
    dues = Bundle("dues")

    @initialize(start=st.integers(0, 2 * TICK * 256 * 64).map(lambda more: NOW // 256 * 256 + more))
    def begin(self, start: Microseconds) -> None:
        self.now = start
        self.wheel = TimerWheel(start)
        self.pending: dict[tuple[int, Offset], Microseconds] = {}
        self.touched = 0

    @rule(target=dues, delay=delays)
    def a_due_time(self, delay: Microseconds) -> Microseconds:
        """One that several timers may share."""
        return max(0, self.now + delay)

    @rule(owner=owners, offset=offsets, due=dues)
    def add(self, owner: int, offset: Offset, due: Microseconds) -> None:
        self.touched += 1
        if (owner, offset) in self.pending:
            with pytest.raises(AssertionError):
                self.wheel.add(owner, offset, due)
        else:
            self.wheel.add(owner, offset, due)
            self.pending[owner, offset] = due

    @rule(owner=owners, delays=st.dictionaries(st.integers(0, 200), delays, max_size=40), is_sorted=st.booleans())
    def load(self, owner: int, delays: dict[Offset, Microseconds], is_sorted: bool) -> None:
        new = {
            offset: max(0, self.now + delay)
            for offset, delay in delays.items()
            if (owner, offset) not in self.pending
        }
        self.touched += len(new)
        if is_sorted:
            self.wheel.load(owner, *columns(new.items()))
        else:
            self.wheel.load(owner, array("Q", new), array("Q", new.values()))
        self.pending |= {(owner, offset): due for offset, due in new.items()}

    @rule(owner=owners, offset=offsets)
    def cancel(self, owner: int, offset: Offset) -> None:
        assert self.wheel.cancel(owner, offset) == self.pending.pop((owner, offset), None)

    @rule(owner=owners, offset=offsets, due=dues)
    def reschedule(self, owner: int, offset: Offset, due: Microseconds) -> None:
        self.touched += 1
        assert self.wheel.reschedule(owner, offset, due) == ((owner, offset) in self.pending)
        if (owner, offset) in self.pending:
            self.pending[owner, offset] = due

    @rule(owner=owners, count=st.integers(1, 50))
    def forget(self, owner: int, count: int) -> None:
        """Some of them, the highest offsets first, though perhaps more than were asked for."""
        had = sorted(offset for number, offset in self.pending if number == owner)
        has_more = self.wheel.forget(owner, count)
        left = self.wheel.count(owner)
        assert left <= max(0, len(had) - count)
        assert has_more == bool(left)
        for offset in had[left:]:
            del self.pending[owner, offset]

    @rule(length=lengths, work_max=works)
    def advance_once(self, length: Microseconds, work_max: int) -> None:
        self.now += length
        assert len(self.fire(work_max)) <= work_max

    @rule(work_max=works)
    def catch_up(self, work_max: int) -> None:
        """Each call that leaves it behind has done its share, and a timer is moved once for each level at most."""
        calls = 1
        self.fire(work_max)
        while self.wheel.is_behind:
            self.fire(work_max)
            calls += 1
        assert calls * work_max <= 12 * self.touched + 2 * work_max
        assert all(due > self.now for due in self.pending.values())

    @precondition(lambda self: self.pending)
    @rule()
    def sleep_until_the_first_fires(self) -> None:
        """Never early, never late: waking at each deadline meets the due time itself."""
        expected = max(self.now, min(self.pending.values()))
        for _ in range(12 * (self.touched + 1)):
            self.now = max(self.now, self.wheel.next_deadline() or 0)
            assert self.now <= expected
            if self.fire(PLENTY):
                break
        assert self.now == expected

    @rule(length=lengths)
    def step_back(self, length: Microseconds) -> None:
        self.now = max(0, self.now - length)
        self.wheel.step_back(self.now)

    @rule(length=st.integers(0, 3 * TICK))
    def a_step_back_that_nobody_told(self, length: Microseconds) -> None:
        self.now = max(0, self.now - length)
        self.fire(PLENTY)

    def fire(self, work_max: int) -> list[Fired]:
        fired = self.wheel.advance(self.now, work_max)
        due = sorted((due, *name) for name, due in self.pending.items() if due <= self.now)
        assert [(at, owner, offset) for owner, offset, at in fired] == due[: len(fired)]
        for owner, offset, _ in fired:
            del self.pending[owner, offset]
        return fired

    @invariant()
    def it_knows_what_the_model_knows(self) -> None:
        if not hasattr(self, "wheel"):
            return
        assert len(self.wheel) == len(self.pending)
        for owner in range(3):
            assert self.wheel.count(owner) == sum(name[0] == owner for name in self.pending)
        for owner, offset in [*self.pending, (0, 0), (1, 1)]:
            assert self.wheel.due_of(owner, offset) == self.pending.get((owner, offset))
        if self.pending:
            deadline = self.wheel.next_deadline()
            assert deadline is not None
            assert deadline <= min(self.pending.values())


TestAgainstASortedList = AgainstASortedList.TestCase


@pytest.mark.parametrize("seed", range(12))
def test_many_short_delays_and_small_steps_go_as_in_a_sorted_list(seed: int) -> None:
    """The same machine on long runs, in which timers are met in every state: in a ring, half moved, ready."""
    random, world = Random(seed), AgainstASortedList()
    world.begin(NOW // (256 * 64 * TICK) * 256 * 64 * TICK - random.randrange(300 * TICK))
    span = random.choice((TICK, 3 * TICK, 600 * TICK, 256 * 70 * TICK))
    for _ in range(600):
        world.it_knows_what_the_model_knows()
        due, name = world.now + random.randrange(-span // 4, span), (random.randrange(2), random.randrange(12))
        step, length = random.choices(range(8), (8, 4, 4, 6, 3, 2, 2, 1))[0], random.randrange(span)
        if step == 0:
            world.add(*name, due)
        elif step == 1:
            world.cancel(*name)
        elif step == 2:
            world.reschedule(*name, due)
        elif step == 3:
            world.advance_once(length // 8, random.randrange(1, 5))
        elif step == 4:
            world.step_back(length // 8)
        elif step == 5:
            world.load(name[0], {random.randrange(12): random.randrange(span) for _ in range(6)}, False)
        elif step == 6:
            world.catch_up(random.randrange(1, 4))
        else:
            world.forget(name[0], 1)


# The bugs that others made.


@pytest.mark.parametrize("span", [TICK, 256 * TICK, 256 * 64 * TICK])
def test_a_cancel_while_a_bucket_is_emptied_orphans_nothing(span: Microseconds) -> None:
    """G8"""
    start = NOW // (256 * 64 * TICK) * 256 * 64 * TICK
    for taken in range(1, 9):
        wheel = TimerWheel(start)
        for offset in range(10):
            wheel.add(0, offset, start + span + offset)
        fired = wheel.advance(start + 2 * span, taken)
        cancelled = {offset for offset in (taken - 1, taken, taken + 1) if wheel.cancel(0, offset) is not None}
        fired += all_due(wheel, start + 2 * span, taken)
        assert [offset for _, offset, _ in fired] == [offset for offset in range(10) if offset not in cancelled]


def test_a_cancelled_timer_is_not_brought_back_by_a_cascade() -> None:
    """G8, at every step of its way down, also when another has its slot by then."""
    for steps in range(12):
        wheel = TimerWheel(NOW)
        for offset in range(4):
            wheel.add(0, offset, NOW + DAY + offset)
        for _ in range(steps):
            wheel.advance(NOW + DAY - 1, 1)
        assert wheel.cancel(0, 1) == NOW + DAY + 1
        wheel.add(0, 9, NOW + DAY + 1)
        assert [offset for _, offset, _ in all_due(wheel, NOW + 2 * DAY)] == [0, 9, 2, 3]


def test_a_cancelled_timer_that_was_ready_does_not_fire_and_neither_twice_when_added_again() -> None:
    wheel = TimerWheel(NOW)
    wheel.add(0, 1, NOW - 5)
    assert wheel.cancel(0, 1) == NOW - 5
    wheel.add(0, 1, NOW - 5)
    assert all_due(wheel, NOW) == [(0, 1, NOW - 5)]


@given(st.integers(0, TICK - 1), st.integers(0, 2 * TICK))
def test_a_delay_below_one_tick_does_not_wait_a_revolution(more: Microseconds, delay: Microseconds) -> None:
    wheel = TimerWheel(NOW + more)
    wheel.add(0, 0, NOW + more + delay)
    assert delay == 0 or all_due(wheel, NOW + more + delay - 1) == []
    assert all_due(wheel, NOW + more + delay) == [(0, 0, NOW + more + delay)]


def test_what_is_past_due_at_the_start_fires_first_and_by_due_time() -> None:
    wheel = TimerWheel(NOW)
    wheel.load(0, *columns((offset, NOW - DAY + offset % 7) for offset in range(100)))
    wheel.load(1, *columns((offset, NOW - YEAR * offset) for offset in range(10)))
    wheel.add(2, 0, NOW - DAY + 3)
    wheel.add(2, 1, NOW)
    assert wheel.is_behind
    fired = [timer for _ in range(112) for timer in wheel.advance(NOW, 1)]
    assert fired == sorted(fired, key=lambda timer: (timer[2], timer[0], timer[1]))
    assert (len(fired), len(wheel), wheel.is_behind) == (112, 0, False)


def test_an_emptied_bucket_is_no_deadline() -> None:
    wheel = TimerWheel(NOW)
    for delay in SPANS:
        wheel.add(0, delay, NOW + delay)
        wheel.cancel(0, delay)
    assert wheel.next_deadline() is None


def test_a_forgotten_owner_leaves_nothing_to_be_done() -> None:
    wheel = TimerWheel(NOW)
    wheel.add(1, 0, NOW + 1)
    wheel.load(0, *columns((offset, NOW - offset) for offset in range(100)))
    assert not wheel.forget(0, PLENTY)
    assert len(wheel) == 1
    assert all_due(wheel, NOW) == []
    assert wheel.next_deadline() == NOW + 1


def test_timers_loaded_in_many_calls_are_all_found() -> None:
    wheel = TimerWheel(NOW)
    for first in (0, 3_000, 9_000, 6_000):
        wheel.load(0, array("Q", range(first, first + 3_000)), array("Q", [NOW + DAY - first] * 3_000))
    assert wheel.count(0) == 12_000
    assert all(wheel.due_of(0, offset) == NOW + DAY - offset // 3_000 * 3_000 for offset in range(12_000))
    assert len(all_due(wheel, NOW + DAY)) == 12_000


def test_two_partitions_have_timers_of_one_offset() -> None:
    wheel = TimerWheel(NOW)
    for owner in range(3):
        wheel.add(owner, 7, NOW + owner * DAY)
    assert wheel.cancel(1, 7) == NOW + DAY
    assert (wheel.due_of(0, 7), wheel.due_of(1, 7), wheel.due_of(2, 7)) == (NOW, None, NOW + 2 * DAY)
    assert all_due(wheel, NOW + YEAR) == [(0, 7, NOW), (2, 7, NOW + 2 * DAY)]


# Bounds.


def test_an_owner_is_forgotten_in_bounded_steps_and_others_go_on_between_them() -> None:
    wheel, count = TimerWheel(NOW), 10 * PAGE_MAX
    wheel.load(0, array("Q", range(count)), array("Q", [NOW + DAY] * count))
    wheel.add(1, 7, NOW + DAY)
    sizes = [count]
    while wheel.forget(0, 100):
        sizes.append(wheel.count(0))
    assert {before - after for before, after in pairwise(sizes)} == {PAGE_MAX}
    assert (len(sizes), len(wheel)) == (10, 1)
    assert all_due(wheel, NOW + DAY) == [(1, 7, NOW + DAY)]


def test_a_full_bucket_is_opened_and_fired_in_bounded_steps() -> None:
    wheel = TimerWheel(NOW)
    wheel.load(0, array("Q", range(1_000)), array("Q", [NOW + DAY] * 1_000))
    counts = [len(wheel.advance(NOW + DAY, 100)) for _ in range(60)]
    assert sum(counts) == 1_000
    assert set(counts) == {0, 100}
    assert counts[:10] == [0] * 10, "the cascade counts"


@pytest.mark.parametrize("span", SPANS[1:4])
def test_neighbours_due_together_move_together_and_each_goes_its_way_after(span: Microseconds) -> None:
    """In rows of every length, cut by the bound of a step, some of them cancelled or moved on the way."""
    random, wheel, expected = Random(span), TimerWheel(NOW), dict[Offset, Microseconds]()
    for length in [*range(1, 30), *range(1, 30)]:
        due = NOW + span + random.randrange(3 * TICK)
        for _ in range(length):
            wheel.add(1, len(expected), due)
            expected[len(expected)] = due
    now = NOW + span // TICK * TICK
    fired = wheel.advance(now, 7)
    for offset in random.sample(sorted(expected), 200):
        if offset not in {each for _, each, _ in fired}:
            assert wheel.cancel(1, offset) == expected.pop(offset)
    fired += wheel.advance(now, 5)
    while len(wheel):
        now += TICK // 3
        fired += all_due(wheel, now, work_max=11)
    assert fired == [
        (1, offset, due) for offset, due in sorted(expected.items(), key=lambda each: (each[1], each[0]))
    ]


def test_a_jump_costs_the_timers_it_meets_and_no_empty_tick() -> None:
    wheel = TimerWheel(NOW)
    wheel.add(0, 0, NOW + 90_000 * YEAR)
    assert wheel.advance(NOW + 89_999 * YEAR, 20) == []
    assert wheel.advance(NOW + 90_000 * YEAR, 20) == [(0, 0, NOW + 90_000 * YEAR)]
    assert not wheel.is_behind


def test_a_due_time_as_late_as_a_record_can_name_is_kept() -> None:
    wheel = TimerWheel(0)
    wheel.load(0, *columns([(0, (1 << 64) - 1), (1, (1 << 64) - 2), (2, (1 << 63) + 1)]))
    assert [offset for _, offset, _ in all_due(wheel, 1 << 64)] == [2, 1, 0]


def test_a_clock_set_back_a_year_still_places_what_comes_in_the_wheel() -> None:
    wheel = TimerWheel(NOW)
    wheel.load(0, *columns((offset, NOW + offset * SECOND) for offset in range(100)))
    wheel.step_back(NOW - YEAR)
    wheel.add(0, 100, NOW - YEAR + 1)
    assert all_due(wheel, NOW - YEAR + 1) == [(0, 100, NOW - YEAR + 1)]
    assert all_due(wheel, NOW - 1) == []
    assert all_due(wheel, NOW + DAY) == [(0, offset, NOW + offset * SECOND) for offset in range(100)]


def test_a_timer_takes_few_bytes_and_the_last_gives_them_back() -> None:
    count = 200_000
    offsets, dues = array("Q", range(count)), array("Q", range(NOW, NOW + count * TICK, TICK))
    tracemalloc.start()
    try:
        wheel = TimerWheel(NOW)
        empty, _ = tracemalloc.get_traced_memory()
        wheel.load(0, offsets, dues)
        for offset in range(count, count + 1_000):
            wheel.add(0, offset, NOW + offset)
        loaded, _ = tracemalloc.get_traced_memory()
        wheel.forget(0, 2 * count)
        forgotten, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (loaded - empty) / len(offsets) < 40
    assert forgotten - empty < 10_000


def test_the_index_of_names_grows_and_shrinks_in_any_order() -> None:
    """Pages are split in their midst, filled at the end, and go when they are empty."""
    wheel, count = TimerWheel(NOW), 4 * PAGE_MAX
    for offset in [*range(0, count, 2), *range(count - 1, 0, -2)]:
        wheel.add(0, offset, NOW + DAY)
    assert wheel.count(0) == count
    taken = [offset * 7 % count for offset in range(count)]
    for number, offset in enumerate(taken):
        assert wheel.cancel(0, offset) == NOW + DAY
        assert wheel.cancel(0, offset) is None
        assert wheel.due_of(0, taken[-1]) == (NOW + DAY if number < count - 1 else None)
    assert len(wheel) == 0

"""The timer wheel against a sorted list, and the bugs that others made in one."""

import tracemalloc
from array import array
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

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
        self.pending: list[tuple[Microseconds, int, Offset]] = []
        self.numbers = [1, 2, 3]
        """Of the three owners. The number of one that was forgotten is never used again."""
        self.touched = 0

    @rule(target=dues, delay=delays)
    def a_due_time(self, delay: Microseconds) -> Microseconds:
        """One that several timers may share."""
        return max(0, self.now + delay)

    @rule(owner=owners, offset=offsets, due=dues)
    def add(self, owner: int, offset: Offset, due: Microseconds) -> None:
        """Perhaps one that is there already, or for a message that has others."""
        self.touched += 1
        number = self.numbers[owner]
        self.wheel.add(number, offset, due)
        self.pending.append((due, number, offset))

    @rule(owner=owners, delays=st.lists(st.tuples(offsets, delays), max_size=40), is_sorted=st.booleans())
    def load(self, owner: int, delays: list[tuple[Offset, Microseconds]], is_sorted: bool) -> None:
        new, number = [(offset, max(0, self.now + delay)) for offset, delay in delays], self.numbers[owner]
        self.touched += len(new)
        if is_sorted:
            self.wheel.load(number, *columns(new))
        else:
            self.wheel.load(number, array("Q", [each for each, _ in new]), array("Q", [due for _, due in new]))
        self.pending += [(due, number, offset) for offset, due in new]

    @rule(owner=owners)
    def forget(self, owner: int) -> None:
        self.wheel.forget(self.numbers[owner])
        self.pending = [timer for timer in self.pending if timer[1] != self.numbers[owner]]
        self.numbers[owner] = max(self.numbers) + 1

    @rule(slots_max=works)
    def sweep(self, slots_max: int) -> None:
        self.wheel.sweep(slots_max)

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
        assert all(due > self.now for due, _, _ in self.pending)

    @precondition(lambda self: self.pending)
    @rule()
    def sleep_until_the_first_fires(self) -> None:
        """Never early, never late: waking at each deadline meets the due time itself."""
        expected = max(self.now, min(self.pending)[0])
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
        self.pending.sort()
        assert [(at, owner, offset) for owner, offset, at in fired] == self.pending[: len(fired)]
        assert all(at <= self.now for _, _, at in fired)
        del self.pending[: len(fired)]
        return fired

    @invariant()
    def it_knows_what_the_model_knows(self) -> None:
        if not hasattr(self, "wheel"):
            return
        assert len(self.wheel) == len(self.pending)
        for number in self.numbers:
            assert self.wheel.count(number) == sum(owner == number for _, owner, _ in self.pending)
        if self.pending:
            deadline = self.wheel.next_deadline()
            assert deadline is not None
            assert deadline <= min(self.pending)[0]


TestAgainstASortedList = AgainstASortedList.TestCase


@pytest.mark.parametrize("seed", range(12))
def test_many_short_delays_and_small_steps_go_as_in_a_sorted_list(seed: int) -> None:
    """The same machine on long runs, in which timers are met in every state: in a ring, half moved, ready."""
    random, world = Random(seed), AgainstASortedList()
    world.begin(NOW // (256 * 64 * TICK) * 256 * 64 * TICK - random.randrange(300 * TICK))
    span = random.choice((TICK, 3 * TICK, 600 * TICK, 256 * 70 * TICK))
    for _ in range(600):
        world.it_knows_what_the_model_knows()
        due, owner = world.now + random.randrange(-span // 4, span), random.randrange(3)
        step, length = random.choices(range(7), (12, 1, 4, 6, 3, 2, 2))[0], random.randrange(span)
        if step == 0:
            world.add(owner, random.randrange(12), due)
        elif step == 1:
            world.forget(owner)
        elif step == 2:
            world.sweep(random.randrange(1, 9))
        elif step == 3:
            world.advance_once(length // 8, random.randrange(1, 5))
        elif step == 4:
            world.step_back(length // 8)
        elif step == 5:
            world.load(owner, [(random.randrange(12), random.randrange(span)) for _ in range(6)], False)
        else:
            world.catch_up(random.randrange(1, 4))


# The bugs that others made.


@pytest.mark.parametrize("span", [TICK, 256 * TICK, 256 * 64 * TICK])
def test_a_sweep_while_a_bucket_is_emptied_orphans_nothing(span: Microseconds) -> None:
    """G8"""
    start = NOW // (256 * 64 * TICK) * 256 * 64 * TICK
    for taken in range(1, 9):
        wheel = TimerWheel(start)
        for offset in range(10):
            wheel.add(1 + offset % 2, offset, start + span + offset)
        fired = wheel.advance(start + 2 * span, taken)
        wheel.forget(1)
        wheel.sweep(PLENTY)
        fired += all_due(wheel, start + 2 * span, taken)
        assert [offset for _, offset, _ in fired if offset % 2] == [1, 3, 5, 7, 9]


def test_a_forgotten_timer_is_not_brought_back_by_a_cascade() -> None:
    """G8, at every step of its way down, also when another has its slot by then."""
    for steps in range(12):
        wheel = TimerWheel(NOW)
        for offset in range(4):
            wheel.add(1 + offset % 2, offset, NOW + DAY + offset)
        for _ in range(steps):
            wheel.advance(NOW + DAY - 1, 1)
        wheel.forget(2)
        wheel.sweep(PLENTY)
        wheel.add(3, 9, NOW + DAY + 1)
        assert [offset for _, offset, _ in all_due(wheel, NOW + 2 * DAY)] == [0, 9, 2]


@given(st.integers(0, TICK - 1), st.integers(0, 2 * TICK))
def test_a_delay_below_one_tick_does_not_wait_a_revolution(more: Microseconds, delay: Microseconds) -> None:
    wheel = TimerWheel(NOW + more)
    wheel.add(1, 0, NOW + more + delay)
    assert delay == 0 or all_due(wheel, NOW + more + delay - 1) == []
    assert all_due(wheel, NOW + more + delay) == [(1, 0, NOW + more + delay)]


def test_what_is_past_due_at_the_start_fires_first_and_by_due_time() -> None:
    wheel = TimerWheel(NOW)
    wheel.load(1, *columns((offset, NOW - DAY + offset % 7) for offset in range(100)))
    wheel.load(2, *columns((offset, NOW - YEAR * offset) for offset in range(10)))
    wheel.add(3, 0, NOW - DAY + 3)
    wheel.add(3, 1, NOW)
    assert wheel.is_behind
    fired = [timer for _ in range(112) for timer in wheel.advance(NOW, 1)]
    assert fired == sorted(fired, key=lambda timer: (timer[2], timer[0], timer[1]))
    assert (len(fired), len(wheel), wheel.is_behind) == (112, 0, False)


def test_an_emptied_bucket_is_no_deadline() -> None:
    wheel = TimerWheel(NOW)
    wheel.add(1, 0, NOW + 2 * SPANS[-1])
    alone = wheel.next_deadline()
    for delay in SPANS:
        wheel.add(2, delay, NOW + delay)
    wheel.forget(2)
    wheel.sweep(PLENTY)
    assert wheel.next_deadline() == alone
    wheel.forget(1)
    assert wheel.next_deadline() is None


def test_a_forgotten_owner_leaves_nothing_to_be_done() -> None:
    wheel = TimerWheel(NOW)
    wheel.add(2, 0, NOW + 1)
    wheel.load(1, *columns((offset, NOW - offset) for offset in range(100)))
    wheel.forget(1)
    assert len(wheel) == 1
    assert all_due(wheel, NOW) == []
    assert wheel.next_deadline() == NOW + 1


def test_timers_loaded_in_many_calls_are_all_found() -> None:
    wheel = TimerWheel(NOW)
    for first in (0, 3_000, 9_000, 6_000):
        wheel.load(1, array("Q", range(first, first + 3_000)), array("Q", [NOW + DAY - first] * 3_000))
    assert wheel.count(1) == 12_000
    fired = all_due(wheel, NOW + DAY)
    assert {offset: due for _, offset, due in fired} == {
        offset: NOW + DAY - offset // 3_000 * 3_000 for offset in range(12_000)
    }
    assert len(fired) == 12_000


def test_two_partitions_have_timers_of_one_offset() -> None:
    wheel = TimerWheel(NOW)
    for owner in (1, 2, 3):
        wheel.add(owner, 7, NOW + owner * DAY)
    wheel.forget(2)
    assert all_due(wheel, NOW + YEAR) == [(1, 7, NOW + DAY), (3, 7, NOW + 3 * DAY)]


# Bounds.


def test_many_timers_of_forgotten_owners_are_swept_in_bounded_steps_and_others_go_on_between_them() -> None:
    wheel, count = TimerWheel(NOW), 20_000
    wheel.load(1, array("Q", range(count)), array("Q", [NOW + DAY] * count))
    wheel.add(2, 7, NOW + DAY)
    wheel.forget(1)
    steps = 0
    while wheel.wants_sweep:
        wheel.sweep(1_000)
        wheel.add(2, 8 + steps, NOW + DAY)
        steps += 1
    assert count // 1_000 <= steps <= count // 1_000 + 2
    assert wheel.advance(NOW + DAY, 2 * steps + 4) == []
    assert len(all_due(wheel, NOW + DAY)) == steps + 1


def test_a_full_bucket_is_opened_and_fired_in_bounded_steps() -> None:
    wheel = TimerWheel(NOW)
    wheel.load(1, array("Q", range(1_000)), array("Q", [NOW + DAY] * 1_000))
    counts = [len(wheel.advance(NOW + DAY, 100)) for _ in range(60)]
    assert sum(counts) == 1_000
    assert set(counts) == {0, 100}
    assert counts[:10] == [0] * 10, "the cascade counts"


@pytest.mark.parametrize("span", SPANS[1:4])
def test_neighbours_due_together_move_together_and_each_goes_its_way_after(span: Microseconds) -> None:
    """In rows of every length, cut by the bound of a step, some of them swept on the way."""
    random, wheel, expected = Random(span), TimerWheel(NOW), dict[Offset, Microseconds]()
    for length in [*range(1, 30), *range(1, 30)]:
        due = NOW + span + random.randrange(3 * TICK)
        for _ in range(length):
            wheel.add(random.choice((1, 1, 1, 2)), len(expected), due)
            expected[len(expected)] = due
    now = NOW + span // TICK * TICK
    fired = wheel.advance(now, 7)
    kept = wheel.count(1) + sum(owner == 1 for owner, _, _ in fired)
    wheel.forget(2)
    wheel.sweep(PLENTY)
    fired += wheel.advance(now, 5)
    while len(wheel):
        now += TICK // 3
        fired += all_due(wheel, now, work_max=11)
    ours = [(offset, due) for owner, offset, due in fired if owner == 1]
    assert len(ours) == kept
    assert ours == [(offset, expected[offset]) for offset, _ in sorted(ours, key=lambda each: (each[1], each[0]))]


def test_a_jump_costs_the_timers_it_meets_and_no_empty_tick() -> None:
    wheel = TimerWheel(NOW)
    wheel.add(1, 0, NOW + 90_000 * YEAR)
    assert wheel.advance(NOW + 89_999 * YEAR, 20) == []
    assert wheel.advance(NOW + 90_000 * YEAR, 20) == [(1, 0, NOW + 90_000 * YEAR)]
    assert not wheel.is_behind


def test_a_due_time_as_late_as_a_record_can_name_is_kept() -> None:
    wheel = TimerWheel(0)
    wheel.load(1, *columns([(0, (1 << 64) - 1), (1, (1 << 64) - 2), (2, (1 << 63) + 1)]))
    assert [offset for _, offset, _ in all_due(wheel, 1 << 64)] == [2, 1, 0]


def test_a_clock_set_back_a_year_still_places_what_comes_in_the_wheel() -> None:
    wheel = TimerWheel(NOW)
    wheel.load(1, *columns((offset, NOW + offset * SECOND) for offset in range(100)))
    wheel.step_back(NOW - YEAR)
    wheel.add(1, 100, NOW - YEAR + 1)
    assert all_due(wheel, NOW - YEAR + 1) == [(1, 100, NOW - YEAR + 1)]
    assert all_due(wheel, NOW - 1) == []
    assert all_due(wheel, NOW + DAY) == [(1, offset, NOW + offset * SECOND) for offset in range(100)]


def test_a_timer_takes_few_bytes_and_the_last_gives_them_back() -> None:
    count = 200_000
    offsets, dues = array("Q", range(count)), array("Q", range(NOW, NOW + count * TICK, TICK))
    tracemalloc.start()
    try:
        wheel = TimerWheel(NOW)
        empty, _ = tracemalloc.get_traced_memory()
        wheel.load(1, offsets, dues)
        for offset in range(count, count + 1_000):
            wheel.add(1, offset, NOW + offset)
        loaded, _ = tracemalloc.get_traced_memory()
        wheel.forget(1)
        forgotten, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (loaded - empty) / len(offsets) < 32
    assert forgotten - empty < 10_000

"""When everything fails a worker slows down, and the first success ends it."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.core.receiving.slowdown import FAILURES_MIN, PAUSE_FIRST, PAUSE_MAX, Slowdown


def slowed(slots: int = 1, now: float = 0.0) -> Slowdown:
    slowdown = Slowdown(slots)
    for number in range(max(FAILURES_MIN, 2 * slots)):
        assert not slowdown.is_slow
        begins = slowdown.failed(number, now)
    assert begins
    return slowdown


def test_the_pauses_double_up_to_the_longest_one_and_a_success_ends_them() -> None:
    slowdown, now, pauses = slowed(), 0.0, list[float]()
    for _ in range(8):
        assert slowdown.room(slowdown.until - 0.001, 10) == 0
        pauses.append(slowdown.until - now)
        now = slowdown.until
        assert slowdown.room(now, 10) == 1
        slowdown.begun(["trial"])
        assert slowdown.room(now, 10) == 0, "one at a time is tried"
        now += 5
        assert not slowdown.failed("trial", now)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert slowdown.succeeded()
    assert not slowdown.succeeded()
    assert slowdown.room(now, 10) == 10


def test_after_it_has_ended_it_begins_anew_with_the_first_pause() -> None:
    slowdown = slowed()
    slowdown.begun(["trial"])
    slowdown.failed("trial", 1)
    slowdown.succeeded()
    for number in range(FAILURES_MIN):
        slowdown.failed(number, 100)
    assert slowdown.until == 100 + PAUSE_FIRST


def test_a_few_poisoned_messages_slow_nothing_down_however_often_they_come() -> None:
    slowdown = Slowdown(1)
    for number in range(10_000):
        assert not slowdown.failed(number % (FAILURES_MIN - 1), float(number))


def test_a_success_among_failures_counts() -> None:
    slowdown = Slowdown(1)
    for number in range(1_000):
        assert not slowdown.failed(number, float(number))
        if number % (FAILURES_MIN - 1) == FAILURES_MIN - 2:
            slowdown.succeeded()


def test_what_was_begun_before_the_pause_and_fails_in_it_is_no_news() -> None:
    slowdown = slowed(slots=100)
    until = slowdown.until
    for number in range(300, 400):
        assert not slowdown.failed(number, 0.5)
    assert slowdown.until == until
    slowdown.begun(["trial"])
    assert not slowdown.failed("another", 1.5)
    assert slowdown.room(2, 100) == 0, "the trial has not ended"


@given(st.integers(1, 1_000))
def test_all_slots_fail_twice_before_it_slows_down(slots: int) -> None:
    slowdown = Slowdown(slots)
    for number in range(2 * slots - 1):
        assert slots < FAILURES_MIN or not slowdown.failed(number, 0)


class AnyWorker(RuleBasedStateMachine):
    """Whatever happens, in whatever order: who may begin something, and for how long nobody may."""

    def __init__(self) -> None:
        super().__init__()
        self.slowdown, self.now, self.running, self.next = Slowdown(4), 0.0, dict[int, bool](), 0

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def begin(self) -> None:
        was_slow = self.slowdown.is_slow
        begun = list(range(self.next, self.next + self.slowdown.room(self.now, 4)))
        assert len(begun) <= (1 if was_slow else 4)
        self.next += len(begun)
        self.slowdown.begun(begun)
        self.running |= dict.fromkeys(begun, was_slow)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), fails=st.booleans() | st.just(True))
    def end(self, data: st.DataObject, fails: bool) -> None:
        message = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[message]
        if fails:
            self.slowdown.failed(message, self.now)
        else:
            self.slowdown.succeeded()
            assert not self.slowdown.is_slow
            self.running = dict.fromkeys(self.running, False)

    @invariant()
    def one_is_tried_at_a_time_and_no_pause_is_longer_than_the_longest(self) -> None:
        assert sum(self.running.values()) <= 1
        assert self.slowdown.until <= self.now + PAUSE_MAX

    @invariant()
    def it_always_goes_on(self) -> None:
        """With nothing tried, something may begin after the pause."""
        if not any(self.running.values()):
            assert self.slowdown.room(self.now + PAUSE_MAX, 4) > 0


TestAnyWorker = AnyWorker.TestCase

"""Deadlines of many keys: what has passed is found in order, and outdated entries do not pile up."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.deadlines import OUTDATED_MAX, Deadlines

KEYS = st.integers(0, 9)
TIMES = st.integers(0, 30).map(float)
STEPS = st.one_of(
    st.tuples(st.just("note"), KEYS, TIMES),
    st.tuples(st.just("note earlier"), KEYS, TIMES),
    st.tuples(st.just("drop"), KEYS, st.just(0.0)),
    st.tuples(st.just("passed"), KEYS, TIMES),
    st.tuples(st.just("take passed"), KEYS, TIMES),
)


class Model:
    """A dictionary of deadlines, in the order in which they were noted."""

    def __init__(self) -> None:
        self.times: dict[int, float] = {}

    def note(self, key: int, time: float) -> None:
        self.times.pop(key, None)
        self.times[key] = time

    def note_earlier(self, key: int, time: float) -> None:
        if time < self.times.get(key, float("inf")):
            self.note(key, time)

    def passed(self, now: float) -> list[int]:
        return sorted((key for key in self.times if self.times[key] <= now), key=self.times.__getitem__)


def step(deadlines: Deadlines[int], model: Model, kind: str, key: int, time: float) -> None:
    match kind:
        case "note":
            deadlines.note(key, time)
            model.note(key, time)
        case "note earlier":
            deadlines.note_earlier(key, time)
            model.note_earlier(key, time)
        case "drop":
            deadlines.drop(key)
            model.times.pop(key, None)
        case "passed":
            assert deadlines.passed(time) == model.passed(time)
        case "take passed":
            taken = deadlines.take_passed(time)
            assert taken == model.passed(time)
            model.times = {key: time for key, time in model.times.items() if key not in taken}


@given(st.lists(STEPS, max_size=200))
def test_deadlines_are_those_of_a_dictionary_and_the_heap_stays_small(steps: list[tuple[str, int, float]]) -> None:
    deadlines, model = Deadlines[int](), Model()
    for kind, key, time in steps:
        step(deadlines, model, kind, key, time)
        assert len(deadlines) == len(model.times)
        assert deadlines.next() == min(model.times.values(), default=None)
        assert len(deadlines._heap) <= 2 * len(model.times) + OUTDATED_MAX


def test_keys_with_the_same_deadline_are_not_compared_and_pass_in_the_order_in_which_they_were_noted() -> None:
    deadlines: Deadlines[object] = Deadlines()
    keys = [object() for _ in range(5)]
    for key in keys:
        deadlines.note(key, 7.0)
    deadlines.note(keys[0], 7.0)
    assert deadlines.passed(7.0) == [*keys[1:], keys[0]]


def test_deadlines_that_move_do_not_pile_up() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for number in range(10_000):
        deadlines.note("a", 1_000_000.0 + number)
    assert len(deadlines._heap) <= 2 + OUTDATED_MAX


def test_keys_that_are_dropped_leave_no_heap_behind() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for key in range(10_000):
        deadlines.note(key, float(key))
    for key in range(10_000):
        deadlines.drop(key)
    assert len(deadlines._heap) <= OUTDATED_MAX

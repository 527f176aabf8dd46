"""Counters by label: they outlive those who count, none ever falls, and what has ended stays in the total."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.counters import LabelledCounters


@dataclass
class Count:
    messages: int = 0

    def add(self, other: "Count", /) -> None:
        self.messages += other.messages


@pytest.fixture
def counters() -> LabelledCounters[Count]:
    return LabelledCounters(Count)


def test_whoever_counts_again_goes_on_with_the_same_series(counters: LabelledCounters[Count]) -> None:
    counters["orders"].messages += 3
    assert counters.begin("orders").messages == 3
    counters["orders"].messages += 4
    assert {label: each.messages for label, each in counters.items()} == {"orders": 7}


def test_a_series_that_ends_stays_in_the_total(counters: LabelledCounters[Count]) -> None:
    counters["orders"].messages += 3
    counters["bills"].messages += 1
    counters.end("orders")
    counters.end("orders")
    assert list(counters) == ["bills"]
    assert counters.total().messages == 4
    assert counters.begin("orders").messages == 0, "the next one of this name is another"


def test_once_all_labels_are_known_a_late_count_begins_no_series(counters: LabelledCounters[Count]) -> None:
    """A receipt may be answered while its group is deleted."""
    for label in ("orders", "gone"):
        counters[label].messages += 1
    counters.complete({"orders", "bills"})
    counters["gone"].messages += 1
    assert list(counters) == ["orders"]
    assert counters.total().messages == 3
    counters.begin("bills").messages += 1
    assert sorted(counters) == ["bills", "orders"]


LABELS = st.sampled_from("abc")
Step = tuple[str, str]
STEPS = st.lists(st.tuples(st.sampled_from(["count", "end", "begin", "complete", "read on"]), LABELS), max_size=60)


@given(steps=STEPS)
def test_a_total_that_is_added_up_with_pauses_never_falls(steps: list[Step]) -> None:
    """Between two series of one reader, anything may happen to any of them."""
    counters, reader, total, highest = LabelledCounters(Count), iter(list[Count]()), Count(), 0
    for step, label in [*steps, *[("read on", "a")] * 10]:
        if step == "count":
            counters[label].messages += 1
        elif step == "end":
            counters.end(label)
        elif step == "begin":
            counters.begin(label)
        elif step == "complete":
            counters.complete({label})
        else:
            found = next(reader, None)
            if found is not None:
                total.add(found)
                continue
            assert total.messages >= highest
            highest, total, reader = total.messages, Count(), _series(counters)
    assert counters.total().messages >= highest


def _series(counters: LabelledCounters[Count]) -> Iterator[Count]:
    return iter(counters.series())

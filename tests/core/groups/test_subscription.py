"""What a member reads: names, lists and patterns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.groups.subscription import PATTERN_LENGTH_MAX, TOPICS_MAX, Subscription
from goqueue.errors import InvalidName

TOPICS = ["orders", "orders.eu", "orders.us", "orders.eu.dlq", "ordersXeu", "__metadata", "__old.dlq", "payments"]


def read_by(asked: object) -> set[str]:
    return set(Subscription.to(asked).resolve(TOPICS))


def test_a_name_reads_its_topic_and_a_list_each_of_its_topics() -> None:
    assert read_by("orders") == {"orders"}
    assert read_by(["payments", "orders", "payments"]) == {"orders", "payments"}


def test_the_order_of_a_list_and_repeats_in_it_say_nothing() -> None:
    """Else a member that comes back would seem to have changed its mind."""
    assert Subscription.to(["b", "a", "b"]) == Subscription.to(["a", "b"])


def test_a_name_without_a_topic_reads_nothing_and_is_missing() -> None:
    subscription = Subscription.to(["orders", "refunds"])
    assert subscription.resolve(TOPICS) == {"orders"}
    assert subscription.missing(TOPICS) == ["refunds"]
    assert Subscription.to("refund*").missing(TOPICS) == []


def test_a_dot_in_a_pattern_is_a_dot() -> None:
    assert read_by("orders.*") == {"orders.eu", "orders.us"}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("orders?eu", {"orders.eu", "ordersXeu"}),
        ("orders.[eu][us]", {"orders.eu", "orders.us"}),
        ("orders.[!u]?", {"orders.eu"}),
        ("*ment*", {"payments"}),
        ("Orders*", set()),
        ("rders*", set()),
        ("*.e", set()),
    ],
)
def test_patterns_are_those_of_a_shell_over_the_whole_name(pattern: str, expected: set[str]) -> None:
    assert read_by(pattern) == expected


def test_a_pattern_fits_internal_and_dead_letter_topics_only_when_it_names_them() -> None:
    assert read_by("*") == {"orders", "orders.eu", "orders.us", "ordersXeu", "payments"}
    assert read_by("*.dlq") == {"orders.eu.dlq"}
    assert read_by("__*") == {"__metadata"}
    assert read_by("__*.dlq") == {"__old.dlq"}
    assert read_by("orders.eu*") == {"orders.eu"}
    assert read_by("[_]_*") == set()


def test_a_name_reads_what_it_names_whatever_that_is() -> None:
    assert read_by("orders.eu.dlq") == {"orders.eu.dlq"}
    assert read_by(["__metadata"]) == {"__metadata"}


@pytest.mark.parametrize(
    "asked",
    [
        None,
        7,
        "",
        b"orders",
        [],
        [7],
        [""],
        ["orders", "pay*"],
        "or ders",
        "orders/*",
        "../*",
        "ord\n*",
        {"orders": 1},
        "*" * (PATTERN_LENGTH_MAX + 1),
        ["a"] * (TOPICS_MAX + 1),
    ],
)
def test_what_is_none_of_these_is_refused(asked: object) -> None:
    """G14."""
    with pytest.raises(InvalidName):
        Subscription.to(asked)


def test_a_pattern_in_a_list_is_told_what_to_do() -> None:
    with pytest.raises(InvalidName, match="one pattern alone"):
        Subscription.to(["orders", "pay*"])


@given(
    st.text("ab._-*?[]!", max_size=12) | st.lists(st.text("ab._-", min_size=1, max_size=4), min_size=1, max_size=4)
)
def test_the_plain_form_gives_back_the_same_and_any_pattern_can_be_resolved(asked: object) -> None:
    try:
        subscription = Subscription.to(asked)
    except InvalidName:
        return
    again = Subscription.to(subscription.to_plain())
    assert again == subscription
    assert again.resolve(TOPICS) == subscription.resolve(TOPICS)


def test_a_pattern_of_many_stars_is_no_burden() -> None:
    assert Subscription.to("a*" * 100 + "b").resolve(["a" * 196]) == frozenset()

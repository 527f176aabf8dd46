"""Which names may pass: they become folders, so nothing else may (G14)."""

import reprlib
import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.names import (
    NAME_LENGTH_MAX,
    check_group_name,
    check_letters_of,
    check_publishable,
    check_topic_name,
    dead_letter_topic,
    is_internal,
)
from goqueue.errors import InvalidName

ALLOWED = string.ascii_letters + string.digits + "._-"
LONGEST = "n" * NAME_LENGTH_MAX
CHECKS: list[Callable[[object], str]] = [check_topic_name, check_publishable, check_group_name]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ["a", "orders", "Orders.v2_eu-west", "...", "_", "_x", "-", "orders.dlq", LONGEST])
def test_ordinary_names_pass_as_they_are(check: Callable[[object], str], name: str) -> None:
    assert check(name) == name


def short(value: object) -> str:
    """The name of a test travels between processes with each of its results: not with millions of characters."""
    return reprlib.repr(value)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "not empty"),
        (".", "means a folder"),
        ("..", "means a folder"),
        ("../etc", "characters"),
        ("a/b", "characters"),
        ("a\\b", "characters"),
        ("a b", "characters"),
        ("a\0", "characters"),
        ("orders\n", "characters"),
        ("ördèrs", "characters"),
        ("٣", "characters"),
        (LONGEST + "n", "has 197 characters"),
        ("n" * 10_000_000, "has 10000000 characters"),
        ("__metadata", "are the broker's"),
        (b"orders", "is text, not bytes"),
        (None, "is text, not NoneType"),
        (7, "is text, not int"),
    ],
    ids=short,
)
def test_any_other_name_is_refused_with_what_is_wrong_and_a_short_text(
    check: Callable[[object], str], name: object, words: str
) -> None:
    """G14: also the text of the error stays small, whatever came."""
    with pytest.raises(InvalidName, match=words) as caught:
        check(name)
    assert len(caught.value.message) < 200


def test_internal_names_are_the_brokers_alone() -> None:
    assert check_topic_name("__metadata", by_broker=True) == "__metadata"
    assert check_group_name("__sinks", by_broker=True) == "__sinks"
    assert is_internal("__metadata")
    assert not is_internal("_metadata")


def test_even_the_broker_cannot_leave_its_folder() -> None:
    for name in (".", "..", "a/b", ""):
        with pytest.raises(InvalidName):
            check_topic_name(name, by_broker=True)


def test_the_longest_topic_can_have_its_dead_letters() -> None:
    """The broker makes the topic on first need; a redrive or a person publishes to it."""
    name = dead_letter_topic(LONGEST)
    assert check_topic_name(name, by_broker=True) == name
    assert check_publishable(name) == name
    with pytest.raises(InvalidName):
        check_topic_name(name)
    with pytest.raises(InvalidName):
        check_topic_name("n" + name, by_broker=True)


def test_dead_letters_are_asked_for_by_the_topic_that_they_come_from() -> None:
    assert check_letters_of(LONGEST) == LONGEST
    with pytest.raises(InvalidName, match=r"give the topic that they come from, orders$"):
        check_letters_of("orders.dlq")


@given(st.text(max_size=210) | st.text(ALLOWED, max_size=210))
def test_what_passes_is_made_of_allowed_characters_alone(name: str) -> None:
    try:
        check_topic_name(name)
    except InvalidName:
        harmless = 1 <= len(name) <= NAME_LENGTH_MAX and set(name) <= set(ALLOWED)
        assert not harmless or name in (".", "..") or name.startswith("__")
    else:
        assert set(name) <= set(ALLOWED)
        assert 1 <= len(name) <= NAME_LENGTH_MAX
        assert name not in (".", "..")

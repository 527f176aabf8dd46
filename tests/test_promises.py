"""Every promise that the docs number is shown by a test that names it, and no test names another."""

import pytest

from goqueue.client.consuming.leases import EXTENDED_SECONDS_MAX
from goqueue.client.consuming.options import IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX, VISIBILITY_SECONDS
from goqueue.core.groups.member import RECONNECT_SECONDS, SESSION_SECONDS
from goqueue.core.groups.ownership import LETTING_GO_SECONDS_MAX
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.log.messageids import REMEMBERED_FOR
from tests.promises import PAGES, ROOT, cited, is_test, named_in, promised

CITED = list(cited())
COMPARISON = (ROOT / "docs/comparison.md").read_text()


@pytest.mark.parametrize("number", [number for letter in PAGES for number in promised(letter)])
def test_a_promise_is_named_by_a_test(number: str) -> None:
    assert [place for named, place in CITED if named == number and is_test(place)]


def test_tests_name_only_what_is_promised() -> None:
    known = {number for letter in PAGES for number in promised(letter)}
    assert [(number, place) for number, place in CITED if number not in known] == []


@pytest.mark.parametrize("letter", PAGES)
def test_numbers_rise_and_stand_once(letter: str) -> None:
    numbers = [int(number[1:]) for number in promised(letter)]
    assert numbers
    assert numbers == sorted(set(numbers))


def test_numbers_are_found_in_text_as_people_write_them() -> None:
    assert named_in("G5, and G10; (O1). Not GO4, G05x or aG7.") == ["G5", "G10", "O1"]


# What is said of goqueue beside others


OURS = {
    "how long a message is yours": f"{VISIBILITY_SECONDS:.0f} s, renewed while a handler runs, "
    f"{EXTENDED_SECONDS_MAX / 3600:.0f} h at most",
    "a failed message": f"after 1 s, 2 s, 4 s … {LedgerSettings().backoff_max:.0f} s,",
    "a poisoned message": f"{GroupSettings().max_deliveries} deliveries, then `{{topic}}.dlq`",
    "in flight at most": f"{IN_FLIGHT_MAX:,} messages and {IN_FLIGHT_BYTES_MAX >> 20} MiB of a consumer",
    "a dead one": f"{RECONNECT_SECONDS:.0f} s after its connection closed, {SESSION_SECONDS:.0f} s without a he",
    "a rebalance": f"{LETTING_GO_SECONDS_MAX:.0f} s at most",
    "published once, though repeated": f"`message_id` for {REMEMBERED_FOR / 60_000_000:.0f} min",
}


@pytest.mark.parametrize("behaviour", OURS)
def test_the_comparison_has_our_defaults(behaviour: str) -> None:
    [row] = [line for line in COMPARISON.splitlines() if line.startswith(f"| {behaviour} |")]
    assert OURS[behaviour] in row.split(" | ")[1]


def test_each_row_of_the_comparison_has_a_word_for_everybody() -> None:
    rows = [line for line in COMPARISON.splitlines() if line.startswith("|")]
    assert {line.count(" | ") for line in rows if not line.startswith("|---")} == {5}

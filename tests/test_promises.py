"""Every promise that the docs number is shown by a test that names it, and no test names another."""

import pytest

from tests.promises import PAGES, cited, is_test, named_in, promised

CITED = list(cited())


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

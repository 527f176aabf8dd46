"""The page on compatibility shows what the checker says, and the types that it may say have a sentence."""

import re

from tests.core.schemas.compatibility.comparing import found
from tests.core.schemas.compatibility.test_table import ROWS
from tests.schemapage import EXAMPLES, PAGE, examples_as_shown, page_with_examples


def test_the_page_shows_what_the_checker_says() -> None:
    page = PAGE.read_text()
    assert examples_as_shown() in page
    assert page == page_with_examples(page), "run: python -m tests.schemapage"


def test_the_examples_show_both_sides() -> None:
    verdicts = [bool(found(each.new, each.old)) for each in EXAMPLES]
    assert True in verdicts
    assert False in verdicts


def test_each_keyword_that_a_row_is_about_is_in_the_table_of_the_page() -> None:
    table = set(re.findall(r"`([$A-Za-z]+)`", PAGE.read_text()))
    for row in ROWS:
        assert set(re.findall(r"[a-z]+[A-Z][A-Za-z]+", row.name)) <= table, row.name

"""docs/errors.md is what the classes of errors say."""

import pytest

from goqueue.errors import GoQueueError
from goqueue.net.wire.failures import CLASSES
from tests.errorspage import PAGE, page, when_and_cure

OWN = [kind for kind in CLASSES.values() if kind.__module__.startswith("goqueue.")]


def test_the_page_of_errors_is_what_the_classes_say() -> None:
    assert PAGE.read_text() == page(), "write it anew: python -m tests.errorspage"


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_an_error_says_when_it_is_raised_and_what_to_do(kind: type[GoQueueError]) -> None:
    when, cure = when_and_cure(kind)
    assert when.endswith("."), "the first sentence of its docstring says when, the next what to do"
    assert cure.endswith("."), "the first paragraph of its docstring has no second sentence, which says what to do"
    assert "|" not in when + cure


def test_an_error_with_one_sentence_has_no_cure() -> None:
    class OnlyWhen(Exception):
        """The disk is full."""

    assert when_and_cure(OnlyWhen) == ("The disk is full.", "")  # type: ignore[arg-type]


def test_a_class_without_a_text_does_not_borrow_that_of_its_parent() -> None:
    class Silent(ValueError):
        pass

    assert when_and_cure(Silent) == ("", "")  # type: ignore[arg-type]

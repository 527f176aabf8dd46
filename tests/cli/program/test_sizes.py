"""Sizes for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.program.sizes import exact_size_text, size_of, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1KiB"),
        (1536, "1.5KiB"),
        (1024**2 - 1, "1MiB"),
        (64 * 1024**2, "64MiB"),
        (1024**3, "1GiB"),
        (2**63 - 1, "8EiB"),
    ],
)
def test_a_size_has_the_largest_unit_that_fits(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GiB", 1024**3),
        ("1gib", 1024**3),
        ("1.5 KiB", 1536),
        ("500MB", 500_000_000),
        ("7B", 7),
        ("7", None),
        ("GiB", None),
        ("-1GiB", None),
        ("1XiB", None),
        ("1GiBs", None),
        ("1e3GiB", None),
        ("unlimited", None),
    ],
)
def test_a_size_is_read_with_its_unit(text: str, size: int | None) -> None:
    assert size_of(text) == size


@given(st.integers(0, 2**63 - 1) | st.integers(0, 2**23).map(lambda count: count * 1024**2))
def test_an_exact_size_is_read_as_the_same_number(size: int) -> None:
    text = exact_size_text(size)
    assert (int(text) if text.isdecimal() else size_of(text)) == size

"""The numbered promises of the docs, and the tests that name them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {"G": ROOT / "docs/guarantees.md", "O": ROOT / "docs/ordering.md"}
"""Each letter has a page, with a table that begins its rows with the numbers."""

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def promised(letter: str) -> list[str]:
    """As the table has them, in its order."""
    return re.findall(rf"^\| ({letter}\d+) \|", PAGES[letter].read_text(), re.MULTILINE)


def named_in(text: str) -> list[str]:
    """A range, such as the numbers from 4 to 7, names its ends."""
    return re.findall(rf"\b[{''.join(PAGES)}][1-9]\d*\b", text)


def cited() -> Iterator[tuple[str, str]]:
    """What docstrings of tests name, and where."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, _DOCUMENTED):
                place = f"{path.relative_to(ROOT)}::{getattr(node, 'name', '')}"
                yield from ((number, place) for number in named_in(ast.get_docstring(node) or ""))


def is_test(place: str) -> bool:
    return place.partition("::")[2].startswith("test_")

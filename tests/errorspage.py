"""Makes docs/errors.md from the classes of errors: `python -m tests.errorspage` writes it.

The first paragraph of a docstring has the first sentence for *when*, and the others for *what to do*. Further
paragraphs say what the error carries; they are for those who read the code.
"""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import goqueue
from goqueue.errors import GoQueueError
from goqueue.net.wire.failures import CLASSES

PAGE = Path(__file__).parents[1] / "docs/errors.md"
INTRODUCTION = """\
# Errors

Every error that goqueue raises on purpose is a `goqueue.GoQueueError`. Its text names what was wrong and what to
do; `error.code` is stable, `error.retryable` says whether a repeat may succeed, and `error.details` has the facts.
The classes are the same for Trio, `goqueue.aio` and `goqueue.blocking`. An argument too many or too few raises
`TypeError`.

*Is a* names the class above: `except goqueue.Unavailable` catches `DeliveryTimeout`, too. The page on the
[protocol](protocol.md#errors) says what a client in another language does with a code.

This page is made from the docstrings of the classes: `python -m tests.errorspage`.

| code | class | is a | retryable | when | what to do |
|---|---|---|---|---|---|
"""


def page() -> str:
    return INTRODUCTION + "".join(f"{row}\n" for row in rows())


def rows() -> Iterator[str]:
    for code, kind in sorted(CLASSES.items()):
        if kind.__module__.startswith("goqueue."):
            when, cure = when_and_cure(kind)
            retryable = "yes" if kind.retryable else "no"
            yield f"| `{code}` | {public_name(kind)} | {parent_of(kind)} | {retryable} | {when} | {cure} |"


def when_and_cure(kind: type[GoQueueError]) -> tuple[str, str]:
    """Both are empty when the class has no text of its own."""
    first, _, _ = cleandoc(vars(kind).get("__doc__") or "").partition("\n\n")
    when, _, cure = " ".join(first.split()).partition(". ")
    return (f"{when}." if cure else when), cure


def public_name(kind: type[GoQueueError]) -> str:
    """Where a program imports it from."""
    module = "goqueue" if kind.__name__ in goqueue.__all__ else kind.__module__
    return f"`{module}.{kind.__name__}`"


def parent_of(kind: type[GoQueueError]) -> str:
    """`DeliveryUnknown` has two."""
    parents = [f"`{parent.__name__}`" for parent in kind.__bases__ if parent is not Exception]
    return ", ".join(parents) or "–"


if __name__ == "__main__":
    PAGE.write_text(page())

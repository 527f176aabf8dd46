"""Long work as a generator, which yields after each small piece of it. A shell runs it in slices of time."""

from collections.abc import Generator
from typing import TypeVar

ResultT = TypeVar("ResultT")


def finished(work: Generator[None, None, ResultT]) -> ResultT:
    """Do all of it at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: ResultT = end.value
            return result

"""Long work on schemas, in slices: one slice at a time for all of it, so that the event loop never stands still.

Who works for long gives way to the others after each slice, so a large schema does not keep small ones waiting.
"""

from collections.abc import Generator
from typing import TypeVar

import trio

from goqueue.core.schemas.text import invalid
from goqueue.storage.slices import SLICE_SECONDS

ResultT = TypeVar("ResultT")

WORK_SECONDS_MAX = 2.0
"""Limit of the work on one request."""


class SchemaWork:
    def __init__(self) -> None:
        self._turn = trio.Lock()

    async def run(self, steps: Generator[None, None, ResultT]) -> ResultT:
        """The result of the steps, or their error. `InvalidSchema` when they take too long."""
        spent = 0.0
        while spent <= WORK_SECONDS_MAX:
            async with self._turn:
                began = trio.current_time()
                end = began + SLICE_SECONDS
                try:
                    while trio.current_time() <= end:
                        next(steps)
                except StopIteration as done:
                    result: ResultT = done.value
                    return result
                spent += trio.current_time() - began
        steps.close()
        raise invalid(f"it takes more than {WORK_SECONDS_MAX:g} s to check and compare the schema: split it")

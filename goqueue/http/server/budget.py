"""Bytes that all connections of the gateway share: bodies that arrive, answers that leave."""

from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.http.server.errors import Overloaded


class ByteBudget:
    def __init__(self, most: int, of_what: str) -> None:
        self.taken = 0
        self._most = most
        self._of_what = of_what

    def take(self, count: int) -> None:
        """`Overloaded` if they do not fit. One that is larger than everything has room when it is alone."""
        if count and self.taken and self.taken + count > self._most:
            raise Overloaded(
                f"the {self._of_what} under way have {self._most:,} bytes, which is all that is kept; try again"
            )
        self.taken += count

    def give_back(self, count: int) -> None:
        self.taken -= count

    @contextmanager
    def holding(self, count: int) -> Iterator[None]:
        self.take(count)
        try:
            yield
        finally:
            self.give_back(count)

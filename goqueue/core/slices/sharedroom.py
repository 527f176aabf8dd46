"""Memory for what was read and may be wanted again: so much for all partitions of a broker together.

Each has a bound of its own, and a thousand of them would hold a thousand times that. So whoever keeps something
says how much; when all of it is too much, those forget theirs who have used it longest ago.
"""

from typing import Protocol

BYTES_MAX = 32 * 1024 * 1024


class Keeper(Protocol):
    def forget_all(self) -> None:
        """And say nothing of it: the room knows."""


class SharedRoom:
    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes_of: dict[Keeper, int] = {}
        """The one that has used its own last is the last."""
        self.bytes_kept = 0

    def note(self, keeper: Keeper, size: int) -> None:
        """It has just used its own, and keeps so many bytes now."""
        self.bytes_kept += size - self._bytes_of.pop(keeper, 0)
        if size:
            self._bytes_of[keeper] = size
        while self.bytes_kept > self._bytes_max:
            oldest = next(iter(self._bytes_of))
            self.bytes_kept -= self._bytes_of.pop(oldest)
            oldest.forget_all()

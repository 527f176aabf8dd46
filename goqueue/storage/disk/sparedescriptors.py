"""Descriptors that are kept for making things durable when all others are in use.

To replace a file, or to sync a folder, takes a descriptor for a moment. Connections may use all descriptors of the
process. Then a log whose folder cannot be synced would have to stop. So a few spare descriptors stay open on
/dev/null; when no other is left, one of them is closed and its number is used.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
SPARES = 8


class SpareDescriptors:
    """Threads may use it: each step is one atomic call of a list."""

    def __init__(self) -> None:
        self._spares: list[int] = []

    def open(self, opener: Callable[[], int]) -> int:
        """The descriptor that `opener` opens; a spare one is closed for it if none is left."""
        self.refill()
        while True:
            try:
                return opener()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._give_up_one():
                    raise

    def _give_up_one(self) -> bool:
        try:
            os.close(self._spares.pop())
        except IndexError:
            return False
        return True

    def refill(self) -> None:
        with suppress(OSError):  # there is none: a later call finds some
            while len(self._spares) < SPARES:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def close(self) -> None:
        while self._give_up_one():
            pass

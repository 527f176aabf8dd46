"""The process that a broker is: its memory, and the collector of its garbage.

A collection of everything stops the broker while it looks at every object. What is there after the start, thousands
of partitions perhaps, stays for good, so it is set apart (`gc.freeze`); the oldest generation is collected when
nobody asks for anything, and in a broker that is never idle only once there is much to look at.
"""

import gc
import os

YOUNG_OBJECTS, YOUNG_ROUNDS = 10_000, 20
NEVER = 1_000_000_000
ROUNDS_WHEN_IDLE, ROUNDS_WHEN_BUSY = 1, 200
"""Of the middle generation, since the oldest was last looked at."""


class BrokerProcess:
    def __init__(self) -> None:
        self.collections = 0
        self._page_size = os.sysconf("SC_PAGE_SIZE")

    def memory_bytes(self) -> int:
        """What it holds in memory; 0 where the system does not say."""
        try:
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * self._page_size
        except (OSError, ValueError, IndexError):
            return 0

    def settle(self) -> None:
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, NEVER)

    def tidy(self, *, idle: bool) -> None:
        if gc.get_count()[2] >= (ROUNDS_WHEN_IDLE if idle else ROUNDS_WHEN_BUSY):
            self.collections += 1
            gc.collect()

"""The process that a broker is: its memory, and the collector of its garbage.

A collection of everything stops the broker while it looks at every object. What is there after the start, thousands
of partitions perhaps, stays for good, so it is set apart (`gc.freeze`); the oldest generation is collected when
nobody asks for anything and nothing is being done, and in a broker that is never idle only once there is much to
look at.

A read of a megabyte takes a buffer of a megabyte, and gives it back. The C library would give it back to the
system, whose next pages are zeroed and come by a fault each: two thirds of what reading costs. So it is told to
keep some. What lies free between buffers that are in use it would keep for ever, more with each peak: once a minute
all but a little of that goes back.
"""

import ctypes
import gc
import os
import time
from collections.abc import Callable

YOUNG_OBJECTS, YOUNG_ROUNDS = 10_000, 20
NEVER = 1_000_000_000
ROUNDS_WHEN_IDLE, ROUNDS_WHEN_BUSY = 1, 200
"""Of the middle generation, since the oldest was last looked at."""
IDLE_PROCESSOR_SECONDS = 0.2
"""In the second between two looks."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""As malloc.h of glibc has them."""
FREE_BYTES_KEPT = 32 * 1024 * 1024
MAPPED_SIZE_MIN = 8 * 1024 * 1024
"""What is larger has pages of its own, which leave with it."""
FREE_BYTES_LEFT = 8 * 1024 * 1024
TRIM_SECONDS = 60


def trim_free_memory() -> None:
    """Where the C library can."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(FREE_BYTES_LEFT))


def keep_freed_memory() -> None:
    """For the next buffers. Where the C library is another one it knows best."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, FREE_BYTES_KEPT)
        mallopt(M_MMAP_THRESHOLD, MAPPED_SIZE_MIN)


class BrokerProcess:
    def __init__(
        self, processor_time: Callable[[], float] = time.process_time, trim: Callable[[], None] = trim_free_memory
    ) -> None:
        self.collections = 0
        self._trim = trim
        self._tidied = 0
        self._processor_time = processor_time
        self._used = processor_time()
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
        """One request may keep it busy for seconds: that of who joins a group over a thousand partitions."""
        used, self._used = self._used, self._processor_time()
        idle = idle and self._used - used < IDLE_PROCESSOR_SECONDS
        if gc.get_count()[2] >= (ROUNDS_WHEN_IDLE if idle else ROUNDS_WHEN_BUSY):
            self.collections += 1
            gc.collect()
        self._tidied += 1
        if self._tidied % TRIM_SECONDS == 0:
            self._trim()

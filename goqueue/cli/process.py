"""The process of a broker: its memory, and its garbage collector.

A full collection stops the broker while it looks at every object. Objects that exist after the start, perhaps of
thousands of partitions, stay for good, so they are excluded (`gc.freeze`); the oldest generation is collected when
the broker is idle, and in a broker that is never idle only once there is much garbage to look at.

A read of a megabyte takes a buffer of a megabyte, and frees it. The C library would return it to the system, whose
next pages are zeroed and come by a page fault each: two thirds of the cost of reading. So it is told to keep some.
Free memory between buffers in use would be kept for ever, more with each peak: once a minute most of it goes back.
"""

import ctypes
import gc
import os
import time
from collections.abc import Callable
from typing import Any

YOUNG_OBJECTS, YOUNG_ROUNDS = 10_000, 5
"""So a collection of the middle generation looks at 60,000 objects at most, which takes 10 ms. With 20 rounds, that
of a broker that had made a thousand partitions took 67 ms, in the midst of a request."""
NEVER = 1_000_000_000
ROUNDS_WHEN_IDLE, ROUNDS_WHEN_BUSY = 4, 800
"""Number of collections of the middle generation after which the oldest one is collected."""
IDLE_PROCESSOR_SECONDS = 0.2
"""Limit of processor time in the second between two looks: below it the process counts as idle."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Constants of glibc's malloc.h."""
FREE_BYTES_KEPT = 32 * 1024 * 1024
MAPPED_SIZE_MIN = 8 * 1024 * 1024
"""Larger blocks have pages of their own, which are returned when the block is freed."""
FREE_BYTES_LEFT = 8 * 1024 * 1024
TRIM_SECONDS = 60


def trim_free_memory() -> None:
    """Return free memory to the system, if the C library can."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(FREE_BYTES_LEFT))


def keep_freed_memory() -> None:
    """Keep freed memory for the next buffers. Does nothing with another C library than glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, FREE_BYTES_KEPT)
        mallopt(M_MMAP_THRESHOLD, MAPPED_SIZE_MIN)


def postpone_full_collections() -> None:
    """From the beginning: what a start makes stays, and looking at all of it time and again is an eighth of it."""
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_ROUNDS, NEVER)


class BrokerProcess:
    def __init__(
        self, processor_time: Callable[[], float] = time.process_time, trim: Callable[[], None] = trim_free_memory
    ) -> None:
        self.collections = 0
        self._collecting = self._collects_since = 0.0
        self._trim = trim
        self._tidied = 0
        self._processor_time = processor_time
        self._used = processor_time()
        self._page_size = os.sysconf("SC_PAGE_SIZE")

    def memory_bytes(self) -> int:
        """Resident memory; 0 if the system does not report it."""
        try:
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * self._page_size
        except (OSError, ValueError, IndexError):
            return 0

    def collecting_seconds(self) -> float:
        return self._collecting

    def settle(self) -> None:
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._note_collection)

    def _note_collection(self, phase: str, _: Any) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._collects_since = now
        elif self._collects_since:
            self._collecting += now - self._collects_since

    def tidy(self, *, idle: bool) -> None:
        """A single request may keep it busy for seconds, as a join of a group over a thousand partitions does."""
        used, self._used = self._used, self._processor_time()
        idle = idle and self._used - used < IDLE_PROCESSOR_SECONDS
        if gc.get_count()[2] >= (ROUNDS_WHEN_IDLE if idle else ROUNDS_WHEN_BUSY):
            self.collections += 1
            gc.collect()
        self._tidied += 1
        if self._tidied % TRIM_SECONDS == 0:
            self._trim()

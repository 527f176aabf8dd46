"""The process of a broker: its memory, and when its garbage is collected."""

import ctypes
import gc
from collections.abc import Iterator

import pytest

from goqueue.cli.process import (
    NEVER,
    ROUNDS_WHEN_BUSY,
    ROUNDS_WHEN_IDLE,
    TRIM_SECONDS,
    BrokerProcess,
    postpone_full_collections,
    trim_free_memory,
)


@pytest.fixture
def process() -> Iterator[BrokerProcess]:
    """The collector is the test's own process's: it is left as it was."""
    threshold = gc.get_threshold()
    postpone_full_collections()
    yield BrokerProcess(lambda: 0.0)
    gc.set_threshold(*threshold)
    gc.unfreeze()


def test_its_memory_is_what_the_system_says(process: BrokerProcess) -> None:
    assert 1_000_000 < process.memory_bytes() < 100_000_000_000


def test_what_is_there_after_the_start_is_not_looked_at_again(process: BrokerProcess) -> None:
    process.settle()
    assert gc.get_freeze_count() > 1_000


def test_no_collection_of_everything_comes_by_itself(process: BrokerProcess) -> None:
    assert gc.get_threshold()[2] == NEVER


def test_a_collection_between_requests_looks_at_few_objects(process: BrokerProcess) -> None:
    """However many came since the start: a thousand new partitions would else be a stall of 60 ms later on."""
    looked_at = list[int]()

    def note(phase: str, collection: dict[str, int]) -> None:
        if phase == "start" and collection["generation"] == 1:
            looked_at.append(len(gc.get_objects(0)) + len(gc.get_objects(1)))

    process.settle()
    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(200_000)]
    finally:
        gc.callbacks.remove(note)
    assert len(kept) == 200_000
    assert len(looked_at) >= 2
    assert max(looked_at) <= 80_000


def test_free_memory_goes_back_once_a_minute() -> None:
    calls, trims = list[None](), list[int]()
    process = BrokerProcess(lambda: 0.0, lambda: calls.append(None))
    for second in range(1, 2 * TRIM_SECONDS + 1):
        process.tidy(idle=False)
        trims += [second] * len(calls)
        calls.clear()
    assert trims == [TRIM_SECONDS, 2 * TRIM_SECONDS]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library")
def test_what_lies_free_between_buffers_in_use_goes_back(process: BrokerProcess) -> None:
    size = 64 * 1024
    buffers = [bytearray(size) for _ in range(1_000)]
    for buffer in buffers:
        buffer[:] = b"x" * size
    kept = buffers[::50]
    before = process.memory_bytes()
    del buffers, buffer
    trim_free_memory()
    assert before - process.memory_bytes() > 30 * 1024 * 1024
    assert len(kept) == 20


def middle_rounds(count: int) -> None:
    for _ in range(count):
        gc.collect(1)


def test_the_oldest_garbage_goes_when_nobody_asks_or_when_there_is_much(process: BrokerProcess) -> None:
    process.settle()
    process.tidy(idle=True)
    assert process.collections == 0, "there was nothing to look at"
    middle_rounds(ROUNDS_WHEN_IDLE)
    process.tidy(idle=False)
    assert process.collections == 0
    process.tidy(idle=True)
    assert process.collections == 1
    middle_rounds(ROUNDS_WHEN_BUSY)
    process.tidy(idle=False)
    assert process.collections == 2


def test_who_is_at_work_for_somebody_is_not_idle_though_nobody_asks(process: BrokerProcess) -> None:
    """A collection in the middle of that would only make it longer."""
    times = iter([10.0, 10.9, 11.0])
    process = BrokerProcess(lambda: next(times))
    process.settle()
    middle_rounds(ROUNDS_WHEN_IDLE)
    process.tidy(idle=True)
    assert process.collections == 0
    process.tidy(idle=True)
    assert process.collections == 1

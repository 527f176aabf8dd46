"""The watchdog, on a clock that the test moves: what it measures, what it says, and when it has things tidied."""

from collections.abc import AsyncIterator
from random import Random

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.node.watchdog import IDLE_SECONDS, LOG_PAUSE_SECONDS, PERIOD_SECONDS, Watchdog
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.root import running
from goqueue.actors.statistics.statistics import Statistics
from goqueue.core.slices.cachebudget import CacheBudget
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk


class Quiet:
    """A process of which only the calls are remembered."""

    def __init__(self) -> None:
        self.settled = 0
        self.tidied: list[bool] = []

    def memory_bytes(self) -> int:
        return 4711

    def collecting_seconds(self) -> float:
        return 0.25

    def settle(self) -> None:
        self.settled += 1

    def tidy(self, *, idle: bool) -> None:
        self.tidied.append(idle)


@pytest.fixture
def process() -> Quiet:
    return Quiet()


@pytest.fixture
async def statistics(mock_clock: MockClock, process: Quiet) -> AsyncIterator[Statistics]:
    statistics = Statistics(Volume(SimulatedDisk(Random(0))), "/", CacheBudget())
    async with running(ChildSpec("watchdog", lambda: Watchdog(process, statistics))):
        await wait_all_tasks_blocked()
        yield statistics


async def stand_still(clock: MockClock, seconds: float) -> None:
    """From the moment at which the watchdog wanted to wake."""
    clock.jump(PERIOD_SECONDS + seconds)
    await wait_all_tasks_blocked()


async def test_stalls_are_counted_by_their_length(statistics: Statistics, mock_clock: MockClock) -> None:
    for seconds in (0, 0.019, 0.03, 0.15, 0.2, 1.5):
        await stand_still(mock_clock, seconds)
    assert statistics.stalls is not None
    assert statistics.stalls.counts == {20: 4, 100: 3, 1_000: 1}
    assert statistics.stalls.highest == pytest.approx(1.5)


async def test_a_stall_is_said_once_a_minute(
    statistics: Statistics, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await stand_still(mock_clock, 0.09)
    assert caplog.messages == []
    await stand_still(mock_clock, 0.25)
    await stand_still(mock_clock, 0.5)
    assert caplog.messages == ["the event loop stood still for 250 ms; is the machine busy?"]
    await stand_still(mock_clock, LOG_PAUSE_SECONDS)
    assert len(caplog.messages) == 2


async def test_the_process_is_settled_once_and_tidied_as_long_as_nobody_asks(
    statistics: Statistics, mock_clock: MockClock, process: Quiet
) -> None:
    assert (process.settled, process.tidied) == (1, [])
    await stand_still(mock_clock, IDLE_SECONDS)
    statistics.requests_of["fetch"] += 1
    await stand_still(mock_clock, IDLE_SECONDS)
    await stand_still(mock_clock, IDLE_SECONDS)
    assert process.tidied == [True, False, True]
    assert statistics.memory is not None
    assert statistics.memory() == 4711

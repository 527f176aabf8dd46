from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk


def run_on_virtual_clock(function: Callable[..., Awaitable[object]], *arguments: Any, **options: Any) -> object:
    return trio.run(function, *arguments, **{**options, "clock": MockClock(autojump_threshold=0)})


def pytest_itemcollected(item: pytest.Item) -> None:
    """A clock that is the fixture of a fixture is not heeded by pytest-trio, and syncs would take real time."""
    if isinstance(item, pytest.Function) and iscoroutinefunction(item.obj) and "disk" in item.fixturenames:
        item.add_marker(pytest.mark.trio(run=run_on_virtual_clock))


@pytest.fixture
def disk() -> SimulatedDisk:
    """In memory, on a virtual clock: syncs take their time, and no test waits for it."""
    return SimulatedDisk(Random(0))


@pytest.fixture
async def volume(disk: SimulatedDisk, nursery: trio.Nursery) -> Volume:
    volume = Volume(disk)
    await nursery.start(volume.run)
    return volume

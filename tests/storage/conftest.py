from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.storage.volume import Volume
from goqueue.testing.disk import SimulatedDisk


@pytest.fixture
def disk(autojump_clock: MockClock) -> SimulatedDisk:
    """In memory, on a virtual clock: syncs take their time, and no test waits for it."""
    return SimulatedDisk(Random(0))


@pytest.fixture
async def volume(disk: SimulatedDisk, nursery: trio.Nursery) -> Volume:
    volume = Volume(disk)
    await nursery.start(volume.run)
    return volume

"""The pytest plugin of goqueue: brokers and clients as fixtures, described in docs/testing.md.

pytest loads it in every run where goqueue is installed, and before coverage is measured. So it stands beside the
package and not in it, and imports goqueue only when a test asks for a fixture.
"""

# ruff: noqa: PLC0415

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import goqueue


@pytest.fixture
def goqueue_broker() -> Iterator[str]:
    """The address of a broker for this test alone: real sockets on loopback, everything in memory."""
    from goqueue.testing import loopback_broker

    with loopback_broker() as address:
        yield address


@pytest.fixture
async def goqueue_client(goqueue_broker: str) -> "AsyncIterator[goqueue.Client]":
    """A client for Trio of `goqueue_broker`."""
    import goqueue

    async with goqueue.connect(goqueue_broker) as client:
        yield client


@pytest.fixture
def goqueue_blocking_client(goqueue_broker: str) -> "Iterator[goqueue.blocking.Client]":
    """A client of `goqueue_broker` for tests without an event loop."""
    from goqueue import blocking

    with blocking.connect(goqueue_broker) as client:
        yield client


@pytest.fixture
def goqueue_aio_client(goqueue_broker: str) -> "Iterator[goqueue.aio.Client]":
    """A client of `goqueue_broker` for asyncio. It is bound to no event loop, so any way to run one will do."""
    from goqueue.aio.client import opened

    with opened(goqueue_broker) as client:
        yield client


@pytest.fixture
def goqueue_aio_machine() -> "Iterator[goqueue.testing.AioMachine]":
    """A broker on a machine in memory, whose time a test moves. For asyncio, bound to no event loop either."""
    from goqueue.testing import aio_machine

    with aio_machine() as made:
        yield made


@pytest.fixture
async def goqueue_machine() -> "AsyncIterator[goqueue.testing.Machine]":
    """A broker on a machine in memory, with faults by name; goes with `autojump_clock`. For Trio."""
    from goqueue.testing import machine

    async with machine() as made:
        yield made

"""Addresses whose broker runs in memory, in a thread of this process: a test's own.

A client of such an address lives in that thread, too, on the broker's network and clock. So a program under test
connects as always, and finds the broker of the test.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from goqueue.environment import Network, WallClock
from goqueue.portal.host import Host
from goqueue.portal.thread import TrioThread, borrow

T = TypeVar("T")
HostAndPort: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Home:
    """The thread in which a broker and its clients run, and what they share."""

    thread: TrioThread
    network: Network
    clock: WallClock


_homes: dict[HostAndPort, Home] = {}


@contextmanager
def home_at(address: HostAndPort, home: Home) -> Iterator[None]:
    """Clients that connect to this address during the block live there."""
    if _homes.setdefault(address, home) is not home:
        raise RuntimeError("{}:{} is taken by another broker in memory; leave that one first".format(*address))
    try:
        yield
    finally:
        del _homes[address]


def client_host(
    address: HostAndPort,
    connect: Callable[..., AbstractAsyncContextManager[T]],
    network: Network | None = None,
    clock: WallClock | None = None,
) -> Host[T]:
    """The host of a client, in a thread that is given back by `give_back`."""
    home = _homes.get(address) if network is None else None
    if home is None:
        return Host("client", partial(connect, network=network, clock=clock), borrow())
    return Host("client", partial(connect, network=home.network, clock=clock or home.clock), home.thread)

"""The real machine behind the seams: the network and the clock. The disk has its contract in tests/testing."""

import socket
import time
from random import Random
from typing import NoReturn

import pytest
import trio

from goqueue.environment import Environment, SystemClock, TcpNetwork
from goqueue.storage.disk.disk import RealDisk
from goqueue.tcp import TcpListener


async def echo(stream: trio.abc.Stream) -> None:
    async with stream:
        async for data in stream:
            await stream.send_all(data)


async def test_the_network_connects_to_what_listens_on_loopback() -> None:
    network = TcpNetwork()
    [listener] = await network.listen("127.0.0.1", 0)
    assert isinstance(listener, TcpListener)
    port = listener.port
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, echo, [listener])
        async with await network.connect("127.0.0.1", port) as stream:
            await stream.send_all(b"hello")
            await stream.send_eof()
            assert await stream.receive_some() == b"hello"
        nursery.cancel_scope.cancel()


async def test_an_address_that_nobody_listens_at_is_told_in_the_systems_words() -> None:
    network = TcpNetwork()
    [listener] = await network.listen("127.0.0.1", 0)
    assert isinstance(listener, TcpListener)
    port = listener.port
    await listener.aclose()
    with pytest.raises(OSError, match=r"^connection refused$"):
        await network.connect("127.0.0.1", port)


class NobodyHasIt(trio.abc.HostnameResolver):
    async def getaddrinfo(self, *_: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def getnameinfo(self, *_: object) -> NoReturn:
        raise AssertionError


async def test_a_name_that_no_host_has_is_told_in_the_systems_words() -> None:
    trio.socket.set_custom_hostname_resolver(NobodyHasIt())  # for this run of Trio
    with pytest.raises(OSError, match=r"^name or service not known$"):
        await TcpNetwork().connect("broker.shop", 7710)


def test_the_wall_clock_tells_microseconds_since_1970() -> None:
    before = time.time() * 1e6
    now = SystemClock().now()
    assert before - 1 <= now <= time.time() * 1e6 + 1


def test_an_environment_is_all_that_the_machine_can_do_to_us() -> None:
    environment = Environment(RealDisk(), TcpNetwork(), SystemClock(), Random(1))
    assert environment.random.random() == Random(1).random()

"""The listeners: so many connections and no more, those that are gone are noticed, descriptors come back."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.actors.front.connection import LEAVING_MAX
from goqueue.actors.front.listener import TURNED_AWAY_MAX
from goqueue.environment import Environment, SystemClock
from goqueue.http.ports import serving
from goqueue.net.transport.keepalive import LOOK_EACH_SECONDS, OF_BROKERS, OF_CLIENTS
from goqueue.net.transport.websocket import HANDSHAKE_TIMEOUT
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.network import SimulatedListener, SimulatedNetwork
from goqueue.testing.stream import SimulatedStream
from tests.hostile.attackers import UPGRADE, greet
from tests.process.brokers import HOST, HTTP, URL, WEBSOCKET

PORT = WEBSOCKET.port or 0


@asynccontextmanager
async def a_broker(network: SimulatedNetwork, connections_max: int = 10_000) -> AsyncIterator[None]:
    environment = Environment(SimulatedDisk(Random(0)), network, SystemClock(), Random(0))
    async with serving(environment, "/data", listen=WEBSOCKET, http=HTTP, connections_max=connections_max):
        yield


async def answer_to(stream: SimulatedStream, question: bytes = UPGRADE) -> bytes:
    await stream.send_all(question)
    return bytes(await stream.receive_some(4_096))


async def test_a_connection_beyond_the_limit_is_told_so_and_one_that_ends_makes_room(
    autojump_clock: MockClock,
) -> None:
    """G14"""
    network = SimulatedNetwork()
    async with a_broker(network, connections_max=3):
        streams = [await network.connect(HOST, PORT) for _ in range(4)]
        answers = [await answer_to(stream) for stream in streams]
        assert [answer.split(b" ")[1] for answer in answers] == [b"101", b"101", b"101", b"503"]
        assert b"3 connections are open here" in answers[3]
        assert not await streams[3].receive_some(1)
        streams[0].close()
        await trio.sleep(1)
        assert (await answer_to(await network.connect(HOST, PORT))).startswith(b"HTTP/1.1 101 ")


async def test_a_client_that_was_turned_away_comes_in_by_itself_once_there_is_room(
    autojump_clock: MockClock,
) -> None:
    network = SimulatedNetwork()
    async with a_broker(network, connections_max=1):
        async with goqueue.connect(URL, network=network) as client:
            await client.create_topic("orders")
        await trio.sleep(1)
        inside = await network.connect(HOST, PORT)
        await greet(inside)
        async with goqueue.connect(URL, network=network) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.publish, "orders", b"late")
            await trio.sleep(10)
            assert network.live()[0].client is inside
            inside.close()
        assert trio.current_time() < 15


async def test_silent_ones_hold_a_place_no_longer_than_a_handshake_takes(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    async with a_broker(network, connections_max=50):
        silent = [await network.connect(HOST, PORT) for _ in range(50)]
        await trio.sleep(HANDSHAKE_TIMEOUT + 1)
        assert [await stream.receive_some(1) for stream in silent] == [b""] * 50
        assert (await answer_to(await network.connect(HOST, PORT))).startswith(b"HTTP/1.1 101 ")


async def test_those_beyond_are_not_held_either_however_many_they_are(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    async with a_broker(network, connections_max=1):
        inside = await network.connect(HOST, PORT)
        assert (await answer_to(inside)).startswith(b"HTTP/1.1 101 ")
        for _ in range(2):
            for _ in range(TURNED_AWAY_MAX):
                await network.connect(HOST, PORT)
            await trio.testing.wait_all_tasks_blocked()
        assert len(network.live()) <= 1 + 2 * TURNED_AWAY_MAX
        await trio.sleep(2)
        assert all(connection.server.is_closed for connection in network.live()[1:])


async def test_a_client_that_vanished_is_let_go_after_a_minute(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    async with a_broker(network):
        await greet(await network.connect(HOST, PORT))
        [line] = network.live()
        line.silence(to_server=True, to_client=True)
        await trio.sleep(OF_BROKERS.gone_after - 1)
        assert not line.server.is_closed
        await trio.sleep(LOOK_EACH_SECONDS + 1)
        assert line.server.is_closed


@pytest.mark.parametrize("to_server", [True, False])
async def test_a_client_whose_broker_fell_silent_connects_again_before_its_call_gives_up(
    to_server: bool, autojump_clock: MockClock
) -> None:
    """SPEC §4: a lost connection is the client's business, also one that nobody told it about."""
    network = SimulatedNetwork()
    async with a_broker(network), goqueue.connect(URL, network=network) as client:
        await client.create_topic("orders")
        [line] = network.live()
        line.silence(to_server=to_server, to_client=not to_server)
        before = trio.current_time()
        assert len(await client.topics()) == 1
        assert trio.current_time() - before <= OF_CLIENTS.gone_after + LOOK_EACH_SECONDS + 1
        assert len(network.connections) == 2


async def test_a_listener_that_finds_no_free_descriptor_accepts_again_later(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = 5
    accept = SimulatedListener.accept

    async def without_descriptors(self: SimulatedListener) -> SimulatedStream:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return await accept(self)

    monkeypatch.setattr(SimulatedListener, "accept", without_descriptors)
    network = SimulatedNetwork()
    async with a_broker(network), goqueue.connect(URL, network=network) as client:
        await client.create_topic("orders")
    assert failures == 0


async def test_many_that_end_at_once_end_one_after_the_other(autojump_clock: MockClock) -> None:
    """Each takes some time to let go; thousands in one turn would hold up everybody else for seconds."""
    network = SimulatedNetwork()
    async with a_broker(network):
        streams = [await network.connect(HOST, PORT) for _ in range(5 * LEAVING_MAX)]
        for stream in streams:
            await greet(stream)
        lines = network.live()
        for stream in streams:
            stream.close()
        gone = 0
        while gone < len(lines):
            await trio.lowlevel.checkpoint()
            before, gone = gone, sum(line.server.is_closed for line in lines)
            assert gone - before <= LEAVING_MAX

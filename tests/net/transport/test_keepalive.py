"""The other end is gone and nobody says so: it is noticed in time, and nobody who is there is given up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from trio.testing import MockClock

from goqueue.net.transport.keepalive import LOOK_EACH_SECONDS, OF_BROKERS, OF_CLIENTS, Patience, kept_alive
from goqueue.net.transport.websocket import (
    SEND_SIZE,
    Headers,
    WebsocketTransport,
    accept_websocket,
    connect_websocket,
)
from goqueue.net.wire.errors import ConnectionLost
from goqueue.testing.network import SimulatedConnection, SimulatedNetwork

HOUR = 3600.0
PATIENCE = Patience(ping_after=30.0, gone_after=60.0)
LATEST = PATIENCE.gone_after + LOOK_EACH_SECONDS


def welcome_all(_: Headers) -> str | None:
    return None


@asynccontextmanager
async def joined() -> AsyncIterator[tuple[WebsocketTransport, WebsocketTransport, SimulatedConnection]]:
    """Two ends, and the line between them."""
    network = SimulatedNetwork()
    [listener] = await network.listen("127.0.0.1", 1)
    near = await network.connect("127.0.0.1", 1)
    far = await listener.accept()
    accepted: list[WebsocketTransport] = []

    async def accept() -> None:
        accepted.append(await accept_websocket(far, welcome_all))

    async with trio.open_nursery() as handshakes:
        handshakes.start_soon(accept)
        client = await connect_websocket(near, "127.0.0.1:1")
    [line] = network.live()
    yield client, accepted[0], line


async def send_on(end: WebsocketTransport) -> None:
    while True:
        await end.send(bytes(50_000))


async def receive_on(end: WebsocketTransport) -> None:
    while await end.receive() is not None:
        pass


async def ping_on(end: WebsocketTransport) -> None:
    with suppress(trio.BrokenResourceError):
        while True:
            await end._stream.send_all(b"\x89\xfd\0\0\0\0" + bytes(125))


async def test_an_end_that_vanished_is_noticed_a_minute_later(autojump_clock: MockClock) -> None:
    async with joined() as (_, server, line), kept_alive(server, PATIENCE):
        line.silence(to_server=True, to_client=True)
        with pytest.raises(ConnectionLost, match="silent for"):
            await server.receive()
        assert PATIENCE.gone_after <= trio.current_time() <= LATEST


async def test_an_end_that_is_idle_and_there_is_kept_for_hours(autojump_clock: MockClock) -> None:
    async with joined() as (client, server, _), kept_alive(server, PATIENCE), trio.open_nursery() as nursery:
        nursery.start_soon(client.receive)
        nursery.start_soon(server.receive)
        await trio.sleep(2 * HOUR)
        await server.send(b"still there?")
        nursery.cancel_scope.cancel()


async def test_an_end_that_stops_in_the_middle_of_a_frame_is_gone_too(autojump_clock: MockClock) -> None:
    async with joined() as (client, server, _), kept_alive(server, PATIENCE):
        await client._stream.send_all(b"\x82\xfe\xff\xffkey.half")
        with pytest.raises(ConnectionLost, match="silent for"):
            await server.receive()
        assert trio.current_time() <= LATEST


async def test_an_end_that_takes_nothing_is_gone_too(autojump_clock: MockClock) -> None:
    async with joined() as (_, server, _), kept_alive(server, PATIENCE):
        with pytest.raises(ConnectionLost):
            await send_on(server)
        assert PATIENCE.gone_after <= trio.current_time() <= LATEST


async def test_one_that_pings_and_reads_no_answers_is_gone_too(autojump_clock: MockClock) -> None:
    """The answers wait for room, and nothing more is read meanwhile: what is held for it does not grow."""
    async with joined() as (client, server, _), kept_alive(server, PATIENCE), trio.open_nursery() as nursery:
        nursery.start_soon(ping_on, client)
        with pytest.raises(ConnectionLost):
            await server.receive()
        assert trio.current_time() <= LATEST


async def test_one_that_takes_something_large_slowly_is_there(autojump_clock: MockClock) -> None:
    """A piece in 50 s: no word comes from it, and no ping fits in between."""
    async with joined() as (client, server, line), kept_alive(server, PATIENCE), trio.open_nursery() as nursery:
        line.slow_down((0.5, 0.5), SEND_SIZE // 100)
        nursery.start_soon(receive_on, client)
        nursery.start_soon(server.receive)
        await server.send(bytes(4 * SEND_SIZE))
        assert trio.current_time() > 2 * LATEST
        line.slow_down((0.0, 0.0), SEND_SIZE)
        await trio.sleep(HOUR)
        await server.send(b"still there?")
        nursery.cancel_scope.cancel()


async def test_who_does_not_read_learns_nothing_from_the_silence(autojump_clock: MockClock) -> None:
    """A broker whose reader waits for a slow disk does not give its client up."""
    async with joined() as (client, server, _), kept_alive(server, PATIENCE):
        await client.send(b"first")
        await client.send(b"second")
        assert await server.receive() == b"first"
        await trio.sleep(HOUR)
        assert await server.receive() == b"second"
        await server.send(b"answer")
        assert await client.receive() == b"answer"


async def test_who_was_held_up_itself_learns_nothing_either(mock_clock: MockClock) -> None:
    """A process that was stopped for an hour looks first whether something came."""
    async with joined() as (client, server, _), kept_alive(server, PATIENCE), trio.open_nursery() as nursery:

        async def answer() -> None:
            assert await server.receive() == b"question"
            nursery.cancel_scope.cancel()

        nursery.start_soon(answer)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(HOUR)
        await trio.testing.wait_all_tasks_blocked()
        await client.send(b"question")


def test_a_client_has_found_out_before_its_calls_give_up() -> None:
    assert OF_CLIENTS.gone_after + LOOK_EACH_SECONDS < 30 < OF_BROKERS.gone_after

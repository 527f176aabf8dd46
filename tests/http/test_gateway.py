"""The gateway as a whole: who is let in, how many at once, and how it ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.environment import Environment, SystemClock
from goqueue.http.ports import serving
from goqueue.http.server.connection import IDLE_SECONDS_MAX
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import SimulatedStream
from tests.http.world import connected
from tests.process.brokers import HOST, HTTP, WEBSOCKET

PORT = HTTP.port or 0
PROBE = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


@asynccontextmanager
async def a_broker(network: SimulatedNetwork, connections_max: int = 1_000) -> AsyncIterator[None]:
    environment = Environment(SimulatedDisk(Random(0)), network, SystemClock(), Random(0))
    async with serving(environment, "/data", listen=WEBSOCKET, http=HTTP, http_connections_max=connections_max):
        yield


async def answer_to(stream: SimulatedStream, question: bytes) -> bytes:
    await stream.send_all(question)
    answer = b""
    while piece := await stream.receive_some(4_096):
        answer += piece
    return answer


async def test_connections_are_bounded_by_themselves_and_idle_ones_end(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    async with a_broker(network, connections_max=50):
        idle = [await network.connect(HOST, PORT) for _ in range(50)]
        await trio.testing.wait_all_tasks_blocked()
        answer = await answer_to(await network.connect(HOST, PORT), PROBE)
        assert answer.startswith(b"HTTP/1.1 503 ")
        await trio.sleep(IDLE_SECONDS_MAX + 1)
        assert [await stream.receive_some(1) for stream in idle] == [b""] * 50
        assert (await answer_to(await network.connect(HOST, PORT), PROBE)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("request_line", "headers", "expected"),
    [
        ("GET /topics HTTP/1.1", ["host: 127.0.0.1:7711"], 200),
        ("GET /topics HTTP/1.1", ["host: localhost", "origin: http://localhost:7711"], 200),
        ("GET /topics HTTP/1.1", ["host: evil.example"], 403),
        ("GET / HTTP/1.1", ["Host: 127.0.0.1", "Origin: http://evil.example"], 403),
        ("POST /healthzz HTTP/1.1", ["host: evil.example"], 403),
        ("GET /metrics HTTP/1.1", ["host: 127.0.0.1", "host: evil.example"], 400),
        ("GET /topics HTTP/1.1", [], 400),
        ("nonsense", ["host: evil.example"], 400),
        ("GET /healthz HTTP/1.1", ["host: evil.example", "origin: http://evil.example"], 200),
        ("HEAD /healthz HTTP/1.1", ["host: 10.0.0.7:7711"], 200),
        ("POST /healthz HTTP/1.1", ["host: evil.example"], 403),
    ],
)
async def test_a_foreign_host_or_origin_is_refused_on_every_path_but_those_of_probes(
    request_line: str, headers: list[str], expected: int, autojump_clock: MockClock
) -> None:
    """A page that points its own name at 127.0.0.1 learns nothing; a probe calls by whatever address it has."""
    network = SimulatedNetwork()
    question = "\r\n".join([request_line, *headers, "connection: close", "", ""]).encode()
    async with a_broker(network):
        answer = await answer_to(await network.connect(HOST, PORT), question)
    assert int(answer.split(b" ")[1]) == expected
    assert b"connection: close" in answer


async def test_the_refusal_of_a_host_says_what_to_do(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    async with a_broker(network):
        stream = await network.connect(HOST, PORT)
        answer = await answer_to(stream, b"GET / HTTP/1.0\r\nhost: evil.example\r\n\r\n")
    assert b"'evil.example' is neither loopback nor configured; use 127.0.0.1" in answer


async def test_a_websocket_client_is_told_the_right_port(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as client:
        answer = await client.ask("GET", "/socket", headers={"upgrade": "websocket", "connection": "upgrade"})
        assert (answer.status, answer.json()["details"]["websocket"]) == (426, "ws://127.0.0.1:7710")

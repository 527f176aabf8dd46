"""The gateway as a whole: who is let in, how many at once, and how it ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import orjson
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


async def answer_to_json(stream: SimulatedStream, start: bytes, body: bytes) -> bytes:
    head = b"%b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
    await stream.send_all(head % (start, len(body), body))
    return bytes(await stream.receive_some(4_096))


async def test_idle_connections_end_after_their_time(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    async with a_broker(network, connections_max=50):
        idle = [await network.connect(HOST, PORT) for _ in range(50)]
        await trio.sleep(IDLE_SECONDS_MAX + 1)
        assert [await stream.receive_some(1) for stream in idle] == [b""] * 50
        assert (await answer_to(await network.connect(HOST, PORT), PROBE)).startswith(b"HTTP/1.1 200 ")


async def test_whoever_has_a_request_gets_the_place_of_those_who_have_none(autojump_clock: MockClock) -> None:
    """A crowd of idle connections, or of heads that never end, keeps no probe out."""
    network = SimulatedNetwork()
    async with a_broker(network, connections_max=10):
        crowd = [await network.connect(HOST, PORT) for _ in range(10)]
        for stream in [crowd[0], *crowd[5:]]:
            await stream.send_all(b"GET /heal")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            assert (await answer_to(await network.connect(HOST, PORT), PROBE)).startswith(b"HTTP/1.1 200 ")
            await trio.sleep(2)
        assert await crowd[0].receive_some(1) == b"", "the oldest, without a word"
        for stream in crowd[1:5]:
            assert (await answer_to(stream, PROBE)).startswith(b"HTTP/1.1 200 "), "no more than needed"


async def test_requests_under_way_keep_their_places_and_whoever_comes_then_is_told_so(
    autojump_clock: MockClock,
) -> None:
    """In the one form of all refusals, also where nobody has read the request."""
    network = SimulatedNetwork()
    async with a_broker(network, connections_max=3):
        first = await network.connect(HOST, PORT)
        await answer_to_json(first, b"POST /topics", b'{"name": "orders"}')
        reading = b"GET /topics/orders/messages?offset=latest&wait=20 HTTP/1.1\r\nhost: localhost\r\n\r\n"
        waiting = [first, *[await network.connect(HOST, PORT) for _ in range(2)]]
        for stream in waiting:
            await stream.send_all(reading)
        await trio.testing.wait_all_tasks_blocked()
        refused = await answer_to(await network.connect(HOST, PORT), PROBE)
        head, _, body = refused.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1" in head
        told = orjson.loads(body)
        assert (told["code"], told["retryable"], told["message"][:26]) == (
            "overloaded",
            True,
            "3 connections are open her",
        )
        assert sorted(told) == ["code", "details", "message", "request_id", "retryable"]
        for stream in waiting:
            assert (await stream.receive_some(4_096)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("request_line", "headers", "expected"),
    [
        ("GET /topics HTTP/1.1", ["host: 127.0.0.1:7711"], 200),
        ("GET /topics HTTP/1.1", ["host: localhost", "origin: http://localhost:7711"], 200),
        ("GET /topics HTTP/1.1", ["host: evil.example"], 403),
        ("GET / HTTP/1.1", ["Host: 127.0.0.1", "Origin: http://evil.example"], 403),
        ("POST /healthzz HTTP/1.1", ["host: evil.example"], 403),
        ("GET /metrics HTTP/1.1", ["host: 127.0.0.1", "host: evil.example"], 400),
        ("GET http://localhost:7711/topics HTTP/1.1", ["host: evil.example"], 200),
        ("GET http://evil.example/topics HTTP/1.1", ["host: localhost"], 403),
        ("GET http://localhost?limit=1 HTTP/1.1", ["host: localhost"], 400),
        ("GET http://me@localhost/topics HTTP/1.1", ["host: localhost"], 403),
        ("GET http:///topics HTTP/1.1", ["host: localhost"], 403),
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

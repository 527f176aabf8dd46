"""What probes hear, from the first moment of a start to the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import trio
from trio.testing import MockClock

import goqueue
from goqueue.environment import Environment, SystemClock
from goqueue.http.ports import serving
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.network import SimulatedNetwork
from tests.http.world import Answered, HttpClient, ask, connected
from tests.process.brokers import HOST, HTTP, WEBSOCKET

ANYBODY = {"host": "10.1.2.3:7711", "origin": "http://elsewhere.example"}


async def test_a_broker_that_serves_is_ready_for_everybody(autojump_clock: MockClock) -> None:
    """A probe calls by whatever address it has."""
    async with goqueue.testing.machine() as machine, connected(machine) as client:
        for path in ("/readyz", "/readyz?for=publish", "/v1/readyz"):
            answered = await client.ask("GET", path, headers=ANYBODY)
            assert (answered.status, answered.json()) == (200, {"status": "ready", "degraded": []}), path
        assert (await client.ask("GET", "/healthz", headers=ANYBODY)).json() == {"status": "ok"}
        assert (await client.ask("GET", "/readyz?for=reading")).status == 400


async def test_a_full_disk_is_503_for_those_who_publish(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine:
        machine.fill_disk()
        serves = await ask(machine, "GET", "/readyz")
        assert (serves.status, serves.json()["degraded"][0]["code"]) == (200, "disk_low")
        refused = await ask(machine, "GET", "/readyz?for=publish")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        body = refused.json()
        assert (body["code"], body["details"]["status"]) == ("unavailable", "disk_low")
        assert body["details"]["degraded"] == serves.json()["degraded"]


async def probe(network: SimulatedNetwork, path: str) -> Answered:
    stream = await network.connect(HOST, HTTP.port or 0)
    async with stream:
        return await HttpClient(stream).ask("GET", path, headers=ANYBODY)


@asynccontextmanager
async def a_slow_start(network: SimulatedNetwork) -> AsyncIterator[trio.Event]:
    """The event says that the broker is ready."""
    disk, is_ready, may_stop = SimulatedDisk(Random(0)), trio.Event(), trio.Event()
    disk.faults.sync_seconds = (0.5, 0.5)

    async def serve() -> None:
        environment = Environment(disk, network, SystemClock(), Random(0))
        async with serving(environment, "/data", listen=WEBSOCKET, http=HTTP):
            is_ready.set()
            await may_stop.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await trio.sleep(0.2)
        yield is_ready
        may_stop.set()


async def test_while_the_broker_starts_it_lives_and_is_not_ready(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    async with a_slow_start(network) as is_ready:
        assert (await probe(network, "/healthz")).json() == {"status": "ok"}
        assert (await probe(network, "/v1/healthz?a=b")).status == 200
        for path in ("/readyz", "/topics", "/nowhere"):
            refused = await probe(network, path)
            assert (refused.status, refused.headers["retry-after"]) == (503, "1"), path
            assert refused.headers["connection"] == "close"
            assert refused.json()["details"] == {"status": "starting"}
        assert not is_ready.is_set(), "all of that was heard before the broker was ready"
        await is_ready.wait()
        assert (await probe(network, "/readyz")).json() == {"status": "ready", "degraded": []}


async def test_a_connection_from_before_ends_when_the_broker_is_ready(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    async with a_slow_start(network) as is_ready:
        idle = await network.connect(HOST, HTTP.port or 0)
        late = await network.connect(HOST, HTTP.port or 0)
        await late.send_all(b"GET /readyz HTTP/1.1\r\n")
        await is_ready.wait()
        with trio.fail_after(1):
            assert await idle.receive_some(1) == b"", "the next one finds the broker"
            await late.send_all(b"host: here\r\n\r\n")
            assert (await late.receive_some(1_000)).startswith(b"HTTP/1.1 503 "), "asked before it was ready"
            assert (await probe(network, "/readyz")).status == 200


async def test_a_broker_that_drains_says_so_to_whoever_had_begun_to_ask(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as client, trio.open_nursery() as nursery:
        await client.send(b"GET /readyz HTTP/1.1\r\n")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(machine.stop)
        await trio.testing.wait_all_tasks_blocked()
        await client.send(b"host: here\r\n\r\n")
        answer = b"".join([bytes(piece) async for piece in client.stream])
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"status":"draining"' in answer

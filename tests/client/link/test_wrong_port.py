"""A client that was given the broker's HTTP port is told so at once, and which port is the right one."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.testing.disk import SimulatedDisk
from tests.process.brokers import MemoryNetwork, broker_in_memory


async def test_a_client_at_the_http_port_hears_at_once_which_one_is_right(autojump_clock: MockClock) -> None:
    network = MemoryNetwork(Random(0))
    async with broker_in_memory(network, SimulatedDisk(Random(0))):
        async with goqueue.connect("ws://127.0.0.1:7711", network=network) as client:
            for call in (client.topics, lambda: client.publish("orders", b"v")):
                begin = trio.current_time()
                with pytest.raises(goqueue.WrongPort) as told:
                    await call()
                assert trio.current_time() - begin < 1
                assert not told.value.retryable
                assert told.value.details == {"websocket": "ws://127.0.0.1:7710"}
                assert told.value.message == (
                    "ws://127.0.0.1:7711: this is the HTTP port; the websocket port is ws://127.0.0.1:7710"
                )
        async with goqueue.connect(told.value.details["websocket"], network=network) as client:
            assert await client.topics() == []


async def test_another_http_server_is_no_broker_and_is_asked_again(autojump_clock: MockClock) -> None:
    network = MemoryNetwork(Random(0))

    async def answer(stream: trio.abc.HalfCloseableStream) -> None:
        await stream.receive_some(4096)
        await stream.send_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    [listener] = await network.listen("127.0.0.1", 80)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        async with goqueue.connect("ws://127.0.0.1:80", network=network) as client:
            with pytest.raises(goqueue.Unavailable, match="status 404: it speaks HTTP, but takes no websockets"):
                await client.topics()
        nursery.cancel_scope.cancel()

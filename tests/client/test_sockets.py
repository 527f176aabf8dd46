"""The client over real sockets: one that does not listen, and one that hears itself."""

from random import Random

import pytest
import trio

import goqueue
from goqueue.client.link import connection as connected
from goqueue.environment import TcpNetwork
from goqueue.tcp import TcpStream
from goqueue.testing.disk import SimulatedDisk
from tests.client.test_client import values
from tests.process.brokers import HOST, broker_on_loopback


async def test_a_client_that_does_not_listen_delays_nobody_else() -> None:
    """Its answers pile up in front of it alone."""
    async with broker_on_loopback(SimulatedDisk(Random(0))) as url, goqueue.connect(url) as client:
        topic = await client.create_topic("orders", partitions=1)
        for _ in range(20):
            await client.publish("orders", bytes(500_000))
        deaf = DeafNetwork()
        async with goqueue.connect(url, network=deaf) as slow, trio.open_nursery() as nursery:
            assert await slow.topic("orders") != topic
            deaf.is_deaf = True
            for _ in range(40):
                nursery.start_soon(anext, slow.read("orders"))
            with trio.fail_after(10):
                await deaf.heard_nothing.wait()
                assert (await client.publish("orders", b"in time")).offset == 20
                assert len(await values(client)) == 21
            nursery.cancel_scope.cancel()


class DeafNetwork(TcpNetwork):
    """Connects, and stops reading when told so."""

    is_deaf = False

    def __init__(self) -> None:
        self.heard_nothing = trio.Event()

    async def connect(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        return _DeafStream(await trio.open_tcp_stream(host, port), self)


class _DeafStream(trio.abc.HalfCloseableStream):
    def __init__(self, stream: trio.SocketStream, network: DeafNetwork) -> None:
        self._stream, self._network = stream, network

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        heard = await self._stream.receive_some(max_bytes)
        if self._network.is_deaf:
            self._network.heard_nothing.set()
            await trio.sleep_forever()
        return heard

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


async def test_a_socket_that_connected_to_itself_is_no_broker() -> None:
    """The kernel may do so when a free port of the same machine is asked for, again and again."""
    with trio.socket.socket() as own:
        await own.bind((HOST, 0))
        await own.connect(own.getsockname())
        stream = TcpStream(trio.SocketStream(own))
        with pytest.raises(goqueue.Unavailable, match="itself"):
            connected._refuse_itself(stream)


async def test_a_stream_hears_what_comes_after_little_after_much_and_the_end() -> None:
    own, other = trio.socket.socketpair()
    stream = TcpStream(trio.SocketStream(own))
    for sent in (b"a", b"b", bytes(60_000), b"c"):
        await other.send(sent)
        received = b""
        while len(received) < len(sent):
            received += await stream.receive_some()
        assert received == sent
    other.close()
    assert await stream.receive_some() == b""
    await stream.aclose()


@pytest.mark.parametrize("before", [b"", b"a", bytes(60_000)], ids=["nothing", "little", "much"])
async def test_a_stream_that_was_closed_says_so(before: bytes) -> None:
    """As a connection does that the broker gives up while its last words are waited for."""
    own, other = trio.socket.socketpair()
    stream = TcpStream(trio.SocketStream(own))
    if before:
        await other.send(before)
        await stream.receive_some()
    await trio.aclose_forcefully(stream)
    with pytest.raises(trio.ClosedResourceError):
        await stream.receive_some()
    other.close()

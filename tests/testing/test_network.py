"""The simulated network: what TCP promises holds, and what may go wrong does when it is told to."""

from random import Random

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from goqueue.testing.network import CONNECT_SECONDS_MAX, SimulatedConnection, SimulatedNetwork
from goqueue.testing.stream import Conditions, Livelock, SimulatedStream

HOST, PORT = "10.0.0.1", 7710


async def joined(network: SimulatedNetwork) -> SimulatedConnection:
    """Two machines with one connection between them."""
    [listener] = await network.machine("server").listen(HOST, PORT)
    stream = await network.machine("client").connect(HOST, PORT)
    await listener.accept()
    [connection] = network.live("client")
    assert connection.client is stream
    return connection


async def receive_exactly(stream: SimulatedStream, count: int) -> bytes:
    received = b""
    while len(received) < count:
        received += await stream.receive_some(count - len(received))
    return received


async def test_it_is_a_stream_as_trio_wants_it() -> None:
    async def make() -> tuple[SimulatedStream, SimulatedStream]:
        connection = await joined(SimulatedNetwork())
        return connection.client, connection.server

    async def make_clogged() -> tuple[SimulatedStream, SimulatedStream]:
        left, right = await make()
        await left.send_all(bytes(Conditions().buffer_bytes))
        await right.send_all(bytes(Conditions().buffer_bytes))
        return left, right

    await trio.testing.check_half_closeable_stream(make, make_clogged)


async def test_bytes_arrive_in_order_after_a_while(autojump_clock: MockClock) -> None:
    connection = await joined(SimulatedNetwork(Random(1), Conditions(latency=(0.01, 0.5))))
    sent = Random(2).randbytes(5_000)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_in_pieces, connection.client, sent)
        assert await receive_exactly(connection.server, 5_000) == sent
    assert 0.01 <= trio.current_time() - began < 1.0


async def send_in_pieces(stream: SimulatedStream, data: bytes) -> None:
    for begin in range(0, len(data), 77):
        await stream.send_all(data[begin : begin + 77])


async def test_the_first_byte_does_not_come_before_its_time(autojump_clock: MockClock) -> None:
    connection = await joined(SimulatedNetwork(Random(1), Conditions(latency=(0.2, 0.2))))
    began = trio.current_time()
    await connection.client.send_all(b"x")
    assert trio.current_time() == began
    await connection.server.receive_some()
    assert trio.current_time() == pytest.approx(began + 0.2)


async def test_who_writes_faster_than_the_other_reads_waits(autojump_clock: MockClock) -> None:
    connection = await joined(SimulatedNetwork(conditions=Conditions(buffer_bytes=100)))
    with trio.move_on_after(5) as patience:
        await connection.client.send_all(bytes(101))
    assert patience.cancelled_caught
    assert await receive_exactly(connection.server, 100) == bytes(100)
    with trio.fail_after(5):
        await connection.client.send_all(bytes(100))


async def test_a_slow_reader_sips(autojump_clock: MockClock) -> None:
    connection = await joined(SimulatedNetwork())
    connection.slow_down((1.0, 1.0), 10, client=False)
    await connection.client.send_all(bytes(30))
    began = trio.current_time()
    assert len(await receive_exactly(connection.server, 30)) == 30
    assert trio.current_time() - began == pytest.approx(3.0)


async def test_a_cut_is_a_reset_for_those_who_wait_and_those_who_come_later(autojump_clock: MockClock) -> None:
    connection = await joined(SimulatedNetwork())

    async def hear_a_reset(stream: SimulatedStream) -> None:
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hear_a_reset, connection.client)
        nursery.start_soon(hear_a_reset, connection.server)
        await trio.testing.wait_all_tasks_blocked()
        connection.cut()
    for end in (connection.client, connection.server):
        with pytest.raises(trio.BrokenResourceError):
            await end.send_all(b"x")
    assert connection.is_over


async def test_the_ends_may_learn_of_a_cut_one_after_the_other(autojump_clock: MockClock) -> None:
    connection = await joined(SimulatedNetwork())
    await connection.client.send_all(b"just before")
    connection.cut(client_after=0.0, server_after=3.0)
    with pytest.raises(trio.BrokenResourceError):
        await connection.client.send_all(b"x")
    await connection.server.send_all(b"into the void")
    assert await connection.server.receive_some() == b"just before"
    began = trio.current_time()
    with pytest.raises(trio.BrokenResourceError):
        await connection.server.receive_some()
    assert trio.current_time() == pytest.approx(began + 3.0)


async def test_a_silent_direction_swallows_and_the_other_goes_on(autojump_clock: MockClock) -> None:
    connection = await joined(SimulatedNetwork())
    connection.silence(to_client=True)
    await connection.server.send_all(b"lost")
    await connection.client.send_all(b"heard")
    assert await connection.server.receive_some() == b"heard"
    await connection.server.aclose()  # nobody hears of that either
    with trio.move_on_after(3_600) as patience:
        await connection.client.receive_some()
    assert patience.cancelled_caught
    connection.cut()
    with pytest.raises(trio.BrokenResourceError):
        await connection.client.receive_some()


async def test_a_cut_in_a_frame_lets_just_its_beginning_through(autojump_clock: MockClock) -> None:
    connection = await joined(SimulatedNetwork(Random(1), Conditions(latency=(0.1, 0.1))))
    connection.cut_after(to_server=7)
    await connection.client.send_all(b"one")
    await connection.client.send_all(b"two three")
    assert await connection.server.receive_some() == b"one"
    assert await connection.server.receive_some() == b"two "
    with pytest.raises(trio.BrokenResourceError):
        await connection.server.receive_some()


async def test_where_nobody_listens_connecting_is_refused() -> None:
    network = SimulatedNetwork()
    with pytest.raises(ConnectionRefusedError):
        await network.connect(HOST, PORT)
    [listener] = await network.listen(HOST, PORT)
    with pytest.raises(OSError, match="listens"):
        await network.listen(HOST, PORT)
    await listener.aclose()
    with pytest.raises(ConnectionRefusedError):
        await network.connect(HOST, PORT)
    with pytest.raises(trio.ClosedResourceError):
        await listener.accept()


async def test_an_isolated_machine_is_refused_and_back_again(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    connection = await joined(network)
    network.isolate("client", refuses=True)
    with pytest.raises(ConnectionRefusedError):
        await network.machine("client").connect(HOST, PORT)
    await connection.client.send_all(b"lost")
    await network.machine("other").connect(HOST, PORT)
    network.rejoin("client")
    with pytest.raises(trio.BrokenResourceError):
        await connection.client.send_all(b"x")
    await network.machine("client").connect(HOST, PORT)


async def test_connecting_to_an_isolated_machine_hangs_until_it_is_back(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    await joined(network)
    network.isolate("server", refuses=False)
    began = trio.current_time()
    with pytest.raises(TimeoutError):
        await network.machine("client").connect(HOST, PORT)
    assert trio.current_time() - began == pytest.approx(CONNECT_SECONDS_MAX)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(network.machine("client").connect, HOST, PORT)
        await trio.sleep(50)
        network.heal()
    assert trio.current_time() - began == pytest.approx(CONNECT_SECONDS_MAX + 50)


async def test_a_crashed_machine_is_gone_and_its_last_words_are_lost(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork(Random(1), Conditions(latency=(0.1, 0.1)))
    connection = await joined(network)
    await connection.server.send_all(b"last words")
    network.crash("server", noticed_after=(2.0, 2.0))
    with pytest.raises(trio.BrokenResourceError):
        await connection.server.send_all(b"too late")
    began = trio.current_time()
    with pytest.raises(trio.BrokenResourceError):
        await connection.client.receive_some()
    assert trio.current_time() - began == pytest.approx(2.0)
    with pytest.raises(ConnectionRefusedError):
        await network.machine("client").connect(HOST, PORT)
    await network.machine("server").listen(HOST, PORT)


async def test_healing_cuts_what_is_silent_and_leaves_the_rest(autojump_clock: MockClock) -> None:
    network = SimulatedNetwork()
    sound = await joined(network)
    silent_end = await network.machine("other").connect(HOST, PORT)
    [silent] = network.live("other")
    silent.silence(to_server=True)
    network.heal()
    with pytest.raises(trio.BrokenResourceError):
        await silent_end.send_all(b"x")
    await sound.client.send_all(b"x")
    assert network.live() == [sound]


async def test_ends_that_talk_without_a_pause_are_stopped(autojump_clock: MockClock) -> None:
    connection = await joined(SimulatedNetwork())
    with pytest.raises(Livelock):
        await talk_for_ever(connection)


async def talk_for_ever(connection: SimulatedConnection) -> None:
    while True:
        await connection.client.send_all(b"again")
        await connection.server.receive_some()

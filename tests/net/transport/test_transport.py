"""The transport that stays in one process."""

import pytest
import trio
import trio.testing

from goqueue.errors import Closed
from goqueue.net.transport.transport import memory_transport_pair
from goqueue.net.wire.errors import ConnectionLost


async def test_frames_go_both_ways_in_order() -> None:
    first, second = memory_transport_pair()
    for frame in (b"1", b"2"):
        await first.send(frame)
    await second.send(b"back")
    assert [await second.receive(), await second.receive(), await first.receive()] == [b"1", b"2", b"back"]


async def test_a_sender_waits_when_nobody_receives(autojump_clock: trio.testing.MockClock) -> None:
    first, second = memory_transport_pair(frames_max=2)
    with trio.move_on_after(1) as scope:
        for _ in range(3):
            await first.send(b"x")
    assert scope.cancelled_caught
    assert await second.receive() == b"x"
    await first.send(b"y")


async def test_what_was_sent_before_the_close_arrives_then_none() -> None:
    first, second = memory_transport_pair()
    await first.send(b"last")
    await first.aclose()
    await first.aclose()
    assert [await second.receive(), await second.receive(), await first.receive()] == [b"last", None, None]
    with pytest.raises(Closed):
        await first.send(b"x")
    with pytest.raises(ConnectionLost):
        await second.send(b"x")


async def test_a_cut_is_a_loss_for_both() -> None:
    first, second = memory_transport_pair()
    first.cut()
    for end in (first, second):
        with pytest.raises(ConnectionLost):
            await end.receive()
        with pytest.raises(ConnectionLost):
            await end.send(b"x")

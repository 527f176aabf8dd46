"""When the requests of a connection reach the socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from trio.testing import MockClock

from goqueue.client.link.link import Link
from goqueue.net.session.events import RequestReceived
from goqueue.net.session.server import ServerSession
from goqueue.net.transport.transport import MemoryTransport, memory_transport_pair
from goqueue.net.wire.groups import DeliveryRun, Settle, SettleDelivery
from tests.net.ends import new_server


def settlement(offset: int) -> Settle:
    runs = (DeliveryRun(offset, offset, 1),)
    return Settle("billing", (SettleDelivery(bytes(16), 0, 7, 0, runs, None, "", 0, ()),))


class Broker:
    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport
        self._session: ServerSession = new_server()

    async def greet(self) -> None:
        self._session.receive(await self._transport.receive() or b"")
        self._session.welcome()
        await self._transport.send(self._session.next_frame() or b"")

    async def came(self) -> list[int]:
        """The offsets of the settlements that the socket has."""
        offsets = list[int]()
        with trio.move_on_after(1):
            while (frame := await self._transport.receive()) is not None:
                event = self._session.receive(frame)
                assert isinstance(event, RequestReceived)
                offsets.append(event.request.deliveries[0].runs[0].first)  # type: ignore[union-attr]
        return offsets


@asynccontextmanager
async def greeted() -> AsyncIterator[tuple[Link, Broker]]:
    """A connection that carries nothing by itself: what comes was handed to the socket by the caller."""
    ours, theirs = memory_transport_pair()
    link, broker = Link(ours), Broker(theirs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.greet)
        await link.greet("tests")
    yield link, broker


async def test_what_is_asked_alone_is_with_the_socket_at_once(autojump_clock: MockClock) -> None:
    async with greeted() as (link, broker):
        link.post_settlement(settlement(1), lambda _: None)
        assert await broker.came() == [1]


async def test_while_an_answer_is_due_the_next_one_waits_for_the_end_of_the_turn_unless_it_goes_at_once(
    autojump_clock: MockClock,
) -> None:
    async with greeted() as (link, broker):
        link.post_settlement(settlement(1), lambda _: None)
        link.post_settlement(settlement(2), lambda _: None, at_once=True)
        link.post_settlement(settlement(3), lambda _: None)
        assert await broker.came() == [1, 2]
        assert link.hand_over()
        assert await broker.came() == [3]


async def test_what_goes_at_once_does_not_overtake_what_waits(autojump_clock: MockClock) -> None:
    async with greeted() as (link, broker):
        link.post_settlement(settlement(1), lambda _: None)
        link.post_settlement(settlement(2), lambda _: None)
        link.post_settlement(settlement(3), lambda _: None, at_once=True)
        assert await broker.came() == [1]
        assert link.hand_over()
        assert await broker.came() == [2, 3]

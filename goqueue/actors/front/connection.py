"""A connection of a client: frames in, answers out.

Three things run concurrently. The reader takes frames and gives each request to the broker's session, which does
not wait. A request for which there is no room makes the reader wait, which in the end makes the client wait.
Requests that wait for their answer have tasks of their own, so a long poll delays nobody. The writer sends the
answers; when the client does not read, the reader stops reading, so memory stays bounded.

Whatever a client sends, it harms only itself: an error goes to its request or ends its connection (G14).
"""

import math
from contextlib import suppress

import trio

from goqueue.actors.front.answers import ENDINGS, AnswerWriter, FrameResponder
from goqueue.actors.front.bounds import Bounds
from goqueue.actors.front.serving import SERVING
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.node.broker import Broker
from goqueue.net.session.events import HelloReceived, Refused, RequestReceived, SessionClosed
from goqueue.net.session.machine import SessionState
from goqueue.net.session.server import ServerSession
from goqueue.net.transport.transport import Transport
from goqueue.net.wire.parts import Room

LEAVING_MAX = 16
"""Limit of connections that end in one turn of the event loop: thousands that end at once delay nobody."""
UNFINISHED_BYTES_MAX = 256 * 1024 * 1024
"""Limit of messages that arrive in parts and are not complete, for all connections together."""
HELLO_SECONDS_MAX = 10.0
LAST_WORDS_SECONDS_MAX = 1.0


class Common:
    """The limits that all connections of a broker share."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self.leaving = trio.CapacityLimiter(LEAVING_MAX)
        self.room = Room(UNFINISHED_BYTES_MAX)


class Connection:
    def __init__(
        self, broker: Broker, transport: Transport, common: Common | None = None, address: str | None = None
    ) -> None:
        self._common = common or Common()
        self._statistics = broker.statistics
        self._transport = transport
        self._session = ServerSession(broker.cluster, broker.node, room=self._common.room)
        self._answers = AnswerWriter(self._session, transport)
        self._broker_session = BrokerSession(
            broker,
            SERVING,
            self._common.bounds,
            address=address,
            wait_for_room=self._answers.wait_for_room,
            has_room=self._answers.has_room,
        )

    async def run(self) -> None:
        """Runs until either end closes. Never raises for what the other end does."""
        self._statistics.accepted += 1
        self._statistics.connections += 1
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._answers.write, nursery.cancel_scope)
                with suppress(*ENDINGS):
                    await self._read(nursery)
                async with self._common.leaving:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        finally:
            self._session.forget_parts()
            self._statistics.connections -= 1
            self._broker_session.close()
            self._answers.end()
        with trio.move_on_after(LAST_WORDS_SECONDS_MAX), suppress(*ENDINGS):
            await self._answers.flush()
        await self._transport.aclose()

    @property
    def bytes_waiting(self) -> int:
        """Bytes of answers that the client has not taken."""
        return self._answers.bytes_waiting

    async def go_away(self, reason: str) -> None:
        """Take no more requests; return when those under way are answered. Long polls end at once."""
        if self._session.state is SessionState.OPEN:
            self._answers.go_away(reason)
            self._broker_session.send_away()
            await self._answers.wait_until_drained()

    async def _read(self, nursery: trio.Nursery) -> None:
        with trio.CancelScope(deadline=trio.current_time() + HELLO_SECONDS_MAX) as patience:
            while (frame := await self._transport.receive()) is not None:
                event = self._session.receive(frame)
                if isinstance(event, RequestReceived):
                    responder = FrameResponder(self._answers, event.correlation)
                    rest = self._broker_session.take(event.request, responder, nursery)
                    if rest is not None:
                        await rest
                elif isinstance(event, HelloReceived):
                    self._session.welcome()
                    self._answers.speak_up()
                    patience.deadline = math.inf
                elif isinstance(event, SessionClosed):
                    return
                elif isinstance(event, Refused):
                    self._answers.speak_up()
                if self._session.bytes_waiting:
                    await self._answers.wait_for_room()

"""A connection of a client: requests in, answers out, as the session allows.

Three things run concurrently. The reader takes frames and passes each request on: batches, settlements and commits
go to their partitions in the order in which they came, and a partition without room makes the reader wait, which in
the end makes the client wait. Every other request waits for its answer in a task of its own, so a long poll delays
nobody. The writer sends the answers; when the client does not read, the reader stops reading, so memory stays
bounded.

Whatever a client sends, it harms only itself: an error goes to its request or ends its connection (G14).
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

import trio

from goqueue.actors.front import delays, deliveries, groups, records, streams, topics
from goqueue.actors.front.answers import ENDINGS, AnswerWriter
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.node.broker import Broker
from goqueue.errors import GoQueueError
from goqueue.net.session.events import HelloReceived, RequestReceived, SessionClosed
from goqueue.net.session.machine import SessionState
from goqueue.net.session.server import ServerSession
from goqueue.net.transport.transport import Transport
from goqueue.net.wire.groups import CommitOffsets, JoinGroup, Receive, Settle
from goqueue.net.wire.kinds import Answer, Request
from goqueue.net.wire.messages import Produce
from goqueue.net.wire.parts import Room

LEAVING_MAX = 16
"""Limit of connections that end in one turn of the event loop: thousands that end at once delay nobody."""
UNFINISHED_BYTES_MAX = 256 * 1024 * 1024
"""Limit of messages that arrive in parts and are not complete, for all connections together."""
HELLO_SECONDS_MAX = 10.0
LAST_WORDS_SECONDS_MAX = 1.0

ANSWERED: dict[type[Any], Callable[[BrokerSession, Any], Awaitable[Answer]]] = {
    **topics.ANSWERED,
    **records.ANSWERED,
    **groups.ANSWERED,
    **streams.ANSWERED,
    **delays.ANSWERED,
}
"""The requests that are answered in tasks of their own."""


class Common:
    """The limits that all connections of a broker share."""

    def __init__(self) -> None:
        self.leaving = trio.CapacityLimiter(LEAVING_MAX)
        self.room = Room(UNFINISHED_BYTES_MAX)
        self.numbers = count(1)


class Connection:
    def __init__(self, broker: Broker, transport: Transport, common: Common | None = None) -> None:
        self._common = common or Common()
        self._statistics = broker.statistics
        self._transport = transport
        self._session = ServerSession(broker.cluster, broker.node, room=self._common.room)
        self._answers = AnswerWriter(self._session, transport)
        self._broker_session = BrokerSession(broker, self._answers, next(self._common.numbers))

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
            self._broker_session.members.lose_all(self._broker_session.number)
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
            self._broker_session.polls.send_away()
            await self._answers.wait_until_drained()

    async def _read(self, nursery: trio.Nursery) -> None:
        with trio.CancelScope(deadline=trio.current_time() + HELLO_SECONDS_MAX) as patience:
            while (frame := await self._transport.receive()) is not None:
                event = self._session.receive(frame)
                if isinstance(event, HelloReceived):
                    self._session.welcome()
                    patience.deadline = math.inf
                elif isinstance(event, RequestReceived):
                    await self._take(event.correlation, event.request, nursery)
                elif isinstance(event, SessionClosed):
                    return
                self._answers.speak_up()
                await self._answers.wait_for_room()

    async def _take(self, correlation: int, request: Request, nursery: trio.Nursery) -> None:
        """Requests with an order are passed on here, in the order of the frames; others get a task of their own."""
        self._statistics.requests += 1
        if isinstance(request, Produce):
            await records.take_produce(self._broker_session, correlation, request)
        elif isinstance(request, Settle):
            await deliveries.take_settle(self._broker_session, correlation, request)
        elif isinstance(request, CommitOffsets) and request.member is not None:
            await streams.take_commit(self._broker_session, correlation, request)
        elif isinstance(request, Receive):
            nursery.start_soon(deliveries.serve_receive, self._broker_session, correlation, request)
        else:
            if isinstance(request, JoinGroup):
                self._broker_session.joins.begin((request.group, request.member))
            nursery.start_soon(self._serve, correlation, request)

    async def _serve(self, correlation: int, request: Request) -> None:
        try:
            answer = await ANSWERED[type(request)](self._broker_session, request)
        except GoQueueError as error:
            self._answers.refuse(correlation, error)
        else:
            self._answers.answer_now(correlation, answer, is_last=not self._broker_session.is_settling)

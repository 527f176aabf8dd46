"""One connection of a client, from its welcome to its loss.

Whoever asks waits for their own answer; answers come in any order. When the connection is lost everybody who
waits is told, and whether their request was heard is not known: asking again is for those who know what a
repeat does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from goqueue.errors import Closed, GoQueueError, InvalidMessage
from goqueue.net.clientsession import ClientSession
from goqueue.net.errors import ConnectionLost, ProtocolError
from goqueue.net.events import AnswerReceived, GoAwayReceived, RequestFailed, SessionClosed, Welcomed
from goqueue.net.messages import Answer, Fetch, Hello, Request, Welcome
from goqueue.net.session import HIGHEST_VERSION
from goqueue.net.transport import Transport

HELLO_SECONDS_MAX = 10.0


@dataclass(slots=True)
class Pending:
    """A request that was asked, and its answer once it has come."""

    done: trio.Event = field(default_factory=trio.Event)
    answer: Answer | None = None
    error: GoQueueError | None = None
    left: Fetch | None = None
    """What was asked, of a fetch whose reader was cancelled: who asks the same takes it over."""

    async def wait(self) -> Answer:
        await self.done.wait()
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer

    def settle(self, answer: Answer | None, error: GoQueueError | None = None) -> None:
        self.answer, self.error = answer, error
        self.done.set()


class Link:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._session = ClientSession()
        self._pending: dict[int, Pending] = {}
        self._something_to_send = trio.Event()
        requests_max = self._session.limits.requests_max
        self._places = trio.CapacityLimiter(requests_max // 8)
        self._polls = trio.CapacityLimiter(requests_max * 3 // 8)
        """Fetches may wait long at the broker and have places of their own; half of the session's are left for
        producers. So nobody starves the others."""
        self._left: dict[Fetch, Pending] = {}
        self.is_leaving = False
        """The broker said go-away: ask elsewhere."""

    async def greet(self, client_name: str) -> Welcome:
        self._session.hello(Hello(HIGHEST_VERSION, (), client_name))
        with trio.move_on_after(HELLO_SECONDS_MAX):
            await self._flush()
            while (frame := await self._transport.receive()) is not None:
                event = self._session.receive(frame)
                if isinstance(event, Welcomed):
                    return event.welcome
                if isinstance(event, SessionClosed):
                    raise event.error
        raise ConnectionLost("the broker did not say welcome")

    async def run(self, on_go_away: Callable[[], None] = lambda: None) -> None:
        """Carry requests and answers until the connection ends; then everybody who waits is told."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, nursery.cancel_scope)
                await self._read(on_go_away)
                nursery.cancel_scope.cancel()
        finally:
            self._session.close()
            for pending in self._pending.values():
                pending.settle(None, ConnectionLost("the connection was lost before the answer came"))
            self._pending.clear()
            self._left.clear()

    async def request(self, request: Request) -> Answer:
        """Ask and wait for the answer. Raises what the broker refused with, or `ConnectionLost`."""
        if isinstance(request, Fetch):
            async with self._polls:
                return await self._poll(request)
        async with self._places:
            return await self.post(request).wait()

    async def _poll(self, request: Fetch) -> Answer:
        """A reader that is cancelled and comes back, again and again, leaves one fetch at the broker, not many."""
        pending = self._left.pop(request, None) or self.post(request)
        pending.left = None
        try:
            return await pending.wait()
        except trio.Cancelled:
            if not pending.done.is_set():
                pending.left, self._left[request] = request, pending
            raise

    def post(self, request: Request) -> Pending:
        """Ask now, in the order of the calls; `TooManyRequests` when too much is under way."""
        correlation = self._send(request)
        pending = self._pending[correlation] = Pending()
        self._something_to_send.set()
        return pending

    def _send(self, request: Request) -> int:
        try:
            return self._session.request(request)
        except Closed:
            raise ConnectionLost("the connection was lost before this was asked") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidMessage(f"{type(request).__name__} holds what cannot be sent: {error}") from None

    async def close(self) -> None:
        await self._transport.aclose()

    async def _read(self, on_go_away: Callable[[], None]) -> None:
        while (frame := await self._receive()) is not None:
            event = self._session.receive(frame)
            if isinstance(event, AnswerReceived):
                self._settle(event.correlation, event.answer, None)
            elif isinstance(event, RequestFailed):
                self._settle(event.correlation, None, event.error)
            elif isinstance(event, GoAwayReceived):
                self.is_leaving = True
                on_go_away()
            elif isinstance(event, SessionClosed):
                return

    async def _receive(self) -> bytes | None:
        try:
            return await self._transport.receive()
        except (ConnectionLost, ProtocolError):
            return None

    def _settle(self, correlation: int, answer: Answer | None, error: GoQueueError | None) -> None:
        pending = self._pending.pop(correlation, None)
        if pending is not None:
            if pending.left is not None and self._left.get(pending.left) is pending:
                del self._left[pending.left]
            pending.settle(answer, error)

    async def _write(self, link: trio.CancelScope) -> None:
        try:
            while True:
                await self._something_to_send.wait()
                self._something_to_send = trio.Event()
                await self._flush()
        except GoQueueError:
            link.cancel()

    async def _flush(self) -> None:
        while (frame := self._session.next_frame()) is not None:
            await self._transport.send(frame)

"""One connection of a client, from its welcome to its loss.

Each caller waits for its own answer; answers come in any order. When the connection is lost every caller that waits
gets an error, and whether its request was handled is not known: callers that know what a repeat does may ask again.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import count

import trio

from goqueue.client.link.share import OnAnswer, RequestShare
from goqueue.errors import Closed, GoQueueError, InvalidMessage, ProtocolError
from goqueue.net.session.client import ClientSession
from goqueue.net.session.events import AnswerReceived, GoAwayReceived, RequestFailed, SessionClosed, Welcomed
from goqueue.net.session.machine import HIGHEST_VERSION
from goqueue.net.transport.transport import Transport
from goqueue.net.wire.errors import ConnectionLost
from goqueue.net.wire.groups import Heartbeat, Receive, Settle, Why
from goqueue.net.wire.kinds import Answer, Request
from goqueue.net.wire.messages import Fetch, Hello, Produce, Welcome

HELLO_SECONDS_MAX = 10.0
BATCH_BYTES_WAITING_MAX = 16 * 1024 * 1024
"""Limit of batches that the connection has not taken yet; beyond it producers keep theirs."""
PATIENT = (Fetch, Receive, Heartbeat)
"""Requests that may wait long at the broker."""


class Pending:
    """A request that was sent, and its answer once it has come."""

    __slots__ = ("done", "left", "number", "outcome")

    _numbers = count()

    def __init__(self) -> None:
        self.number = -1
        """The number of its answer, in the order of arrival: tasks that wait for answers wake in any order."""
        self.done = trio.Event()
        self.outcome: Answer | GoQueueError | None = None
        self.left: Fetch | None = None
        """The request of an abandoned fetch, whose reader was cancelled; an identical request adopts its answer."""

    async def wait(self) -> Answer:
        await self.done.wait()
        if isinstance(self.outcome, GoQueueError):
            raise self.outcome
        assert self.outcome is not None
        return self.outcome

    def settle(self, outcome: Answer | GoQueueError) -> None:
        self.outcome, self.number = outcome, next(self._numbers)
        self.done.set()


async def greet(session: ClientSession, transport: Transport, client_name: str) -> Welcome:
    """Say hello and wait for the welcome."""
    session.hello(Hello(HIGHEST_VERSION, (), client_name))
    with trio.move_on_after(HELLO_SECONDS_MAX):
        await send_all(session, transport)
        while (frame := await transport.receive()) is not None:
            event = session.receive(frame)
            if isinstance(event, Welcomed):
                return event.welcome
            if isinstance(event, SessionClosed):
                raise event.error
    raise ConnectionLost("the broker did not say welcome")


async def send_all(session: ClientSession, transport: Transport) -> None:
    await transport.drain()
    while (frame := session.next_frame()) is not None:
        await transport.send(frame)


class Link:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._session = ClientSession()
        self._pending: dict[int, OnAnswer] = {}
        self._prompt: set[int] = set()
        """The pending requests that the broker answers at once, without a long poll."""
        self._something_to_send = trio.Event()
        requests_max = self._session.limits.requests_max
        self._places = trio.CapacityLimiter(requests_max // 8 - 1)
        self._whys = trio.CapacityLimiter(1)
        """Many consumers may ask why at once, and their settlements must not wait behind that."""
        self._polls = trio.CapacityLimiter(requests_max // 4)
        self._receives = trio.CapacityLimiter(requests_max // 8)
        self._heartbeats = trio.CapacityLimiter(requests_max // 8)
        self._batches = RequestShare(requests_max * 5 // 16)
        self._settlements = RequestShare(requests_max // 16)
        """Fetches, receives and heartbeats may wait long at the broker, so each kind has a limit of its own, and so
        have batches and settlements. No kind starves the others."""
        self._end_turn: list[Callable[[], None]] = []
        self._end_turn_settling: list[Callable[[], None]] = []
        self._has_flushed = trio.Event()
        self.is_over = False
        self._left: dict[Fetch, Pending] = {}
        self.is_leaving = False
        """The broker said go-away: ask elsewhere."""

    async def greet(self, client_name: str) -> Welcome:
        return await greet(self._session, self._transport, client_name)

    async def run(self, on_go_away: Callable[[], None] = lambda: None) -> None:
        """Carry requests and answers until the connection ends; then every waiting caller gets an error."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, nursery.cancel_scope)
                with suppress(ConnectionLost, ProtocolError):
                    await self._read(on_go_away)
                nursery.cancel_scope.cancel()
        finally:
            self._session.close()
            self.is_over = True
            self._has_flushed.set()
            lost, self._pending = self._pending, {}
            self._batches.close()
            self._left.clear()
            for on_answer in lost.values():
                on_answer(ConnectionLost("the connection was lost before the answer came"))
            self._settlements.give()
            self._end_turn.clear()
            self._call_at_end_of_turn()

    async def request(self, request: Request) -> Answer:
        """Ask and wait for the answer. Raises what the broker refused with, or `ConnectionLost`."""
        if isinstance(request, Fetch):
            async with self._polls:
                return await self._poll(request)
        async with self._places_for(request):
            return await self._ask(request).wait()

    def _places_for(self, request: Request) -> trio.CapacityLimiter:
        if isinstance(request, Receive):
            return self._receives
        if isinstance(request, Why):
            return self._whys
        return self._heartbeats if isinstance(request, Heartbeat) else self._places

    @property
    def receives_are_many(self) -> bool:
        """The limit is reached: a receive should not wait long now."""
        return self._receives.available_tokens == 0

    @property
    def heartbeats_are_many(self) -> bool:
        return self._heartbeats.available_tokens == 0

    async def _poll(self, request: Fetch) -> Answer:
        """A reader that is cancelled and returns, again and again, leaves one fetch at the broker, not many."""
        pending = self._left.pop(request, None) or self._ask(request)
        pending.left = None
        try:
            return await pending.wait()
        except trio.Cancelled:
            if not pending.done.is_set():
                pending.left, self._left[request] = request, pending
            raise

    def ask_ahead(self, request: Fetch | Receive) -> Pending | None:
        """Send a prefetch; None when the limit of such requests is reached."""
        pending, places = Pending(), self._polls if isinstance(request, Fetch) else self._receives

        def settle(outcome: Answer | GoQueueError) -> None:
            places.release_on_behalf_of(pending)
            pending.settle(outcome)

        try:
            places.acquire_on_behalf_of_nowait(pending)
        except trio.WouldBlock:
            return None
        try:
            self._post(request, settle)
        except GoQueueError as error:
            settle(error)
        return pending

    def _ask(self, request: Request) -> Pending:
        pending = Pending()

        def settle(outcome: Answer | GoQueueError) -> None:
            if pending.left is not None and self._left.get(pending.left) is pending:
                del self._left[pending.left]
            pending.settle(outcome)

        self._post(request, settle)
        return pending

    def _post(self, request: Request, on_answer: OnAnswer, *, at_once: bool = False) -> None:
        """Send, in the order of the calls; `TooManyRequests` when too many are under way. While the broker owes
        prompt answers others may follow in this turn: all are sent together at its end, unless it is `at_once`."""
        is_lone = (at_once or not self._prompt) and not self._session.bytes_waiting and self._transport.is_clear
        correlation, frame = self._send(request, is_lone=is_lone)
        self._pending[correlation] = on_answer
        if not isinstance(request, PATIENT):
            self._prompt.add(correlation)
        if frame is None or not self._transport.post(frame):
            self._something_to_send.set()

    def post_batch(self, request: Produce, on_answer: OnAnswer) -> None:
        """Send a batch now, after those sent before. Check `has_room` first."""
        self._post(request, self._batches.taken(on_answer))

    @property
    def has_room(self) -> bool:
        """Whether one more batch may be sent."""
        return self._batches.has_room and self._session.bytes_waiting < BATCH_BYTES_WAITING_MAX

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` once there is room, in the order of these calls; never, if the connection is lost."""
        self._batches.want(go_on)

    def post_settlement(self, request: Settle, on_answer: OnAnswer, *, at_once: bool = False) -> None:
        """Send a settlement, after everything sent before. `at_once`: not together with others at the end of this
        turn. Check `has_settlement_room` first."""
        self._post(request, self._settlements.taken(on_answer), at_once=at_once)

    @property
    def has_settlement_room(self) -> bool:
        return self._settlements.has_room

    def when_settlement_room(self, go_on: Callable[[], None]) -> None:
        """As `when_room`; when the connection is lost, too."""
        self._settlements.want(go_on)

    def hand_over(self) -> bool:
        """Give everything posted to the socket now. False if the socket takes no more; then await `flushed`."""
        while self._session.bytes_waiting:
            if not self._transport.is_clear:
                return False
            frame = self._session.next_frame()
            if frame is not None and not self._transport.post(frame):
                self._something_to_send.set()
                return False
        return self._transport.is_clear

    async def flushed(self) -> None:
        """Wait until the socket has everything that is posted now, or the connection is lost."""
        while not self.hand_over() and not self.is_over:
            self._something_to_send.set()
            await self._has_flushed.wait()

    def at_end_of_turn(self, call: Callable[[], None]) -> None:
        """Call this when all tasks of this turn of the event loop have run; never, if the connection is lost.
        Batches that are sent then are written at once."""
        self._end_turn.append(call)
        self._something_to_send.set()

    def settle_at_end_of_turn(self, call: Callable[[], None]) -> None:
        """As `at_end_of_turn`; when the connection is lost, too."""
        self._end_turn_settling.append(call)
        self._something_to_send.set()

    def _call_at_end_of_turn(self) -> None:
        calls, self._end_turn = self._end_turn, []
        settling, self._end_turn_settling = self._end_turn_settling, []
        for call in (*calls, *settling):
            call()

    def _send(self, request: Request, *, is_lone: bool) -> tuple[int, bytes | None]:
        try:
            return self._session.ask(request, is_lone=is_lone)
        except Closed:
            raise ConnectionLost("the connection was lost before this was asked") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidMessage(f"{type(request).__name__} holds what cannot be sent: {error}") from None

    async def close(self) -> None:
        await self._transport.aclose()

    async def _read(self, on_go_away: Callable[[], None]) -> None:
        while (frame := await self._transport.receive()) is not None:
            event = self._session.receive(frame)
            if isinstance(event, AnswerReceived):
                self._settle(event.correlation, event.answer)
            elif isinstance(event, RequestFailed):
                self._settle(event.correlation, event.error)
            elif isinstance(event, GoAwayReceived):
                self.is_leaving = True
                on_go_away()
            elif isinstance(event, SessionClosed):
                return

    def _settle(self, correlation: int, outcome: Answer | GoQueueError) -> None:
        on_answer = self._pending.pop(correlation, None)
        self._prompt.discard(correlation)
        if on_answer is not None:
            on_answer(outcome)

    async def _write(self, link: trio.CancelScope) -> None:
        try:
            while True:
                await self._something_to_send.wait()
                self._something_to_send = trio.Event()
                self._call_at_end_of_turn()
                await send_all(self._session, self._transport)
                flushed, self._has_flushed = self._has_flushed, trio.Event()
                flushed.set()
        except GoQueueError:
            link.cancel()

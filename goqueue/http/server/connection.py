"""A connection of an HTTP client: one request after the other, each with its answer.

Nothing that a client does or leaves undone holds up another one, or a shutdown: a head, a body and the taking of an
answer have a deadline each, and whoever misses it is cut off. One cancel scope has the deadlines of heads and
answers; it moves from step to step. A body that comes too slowly is refused to the handler that reads it. While a
handler works, there is no deadline, as handlers bound their own time.
"""

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

import trio

from goqueue.errors import GoQueueError
from goqueue.http.server.budget import ByteBudget
from goqueue.http.server.errors import RequestTimedOut
from goqueue.http.server.exchange import SKIPPED_BYTES_MAX, Exchange, Response
from goqueue.http.server.machine import (
    BODY_END,
    HEAD_SIZE_MAX,
    NEEDS_DATA,
    BodyPart,
    Event,
    Head,
    HttpMachine,
)
from goqueue.nursery import PlainNursery
from goqueue.storage.slices import Slices

RECEIVE_SIZE = 64 * 1024
IDLE_SECONDS_MAX = 75.0
"""Limit of the time between two requests."""
HEAD_SECONDS_MAX = 10.0
BODY_SECONDS, ANSWER_SECONDS = 10.0, 30.0
"""Time for a body, and for an answer to be taken, beside that for its size; also without any progress."""
PIECE_BYTES = 256 * 1024
"""An answer is sent in pieces of this size, and each of them is progress."""
PACE_BYTES = 16 * 1024
"""Bytes in a second that every client sends and takes at least."""
LINGER_SECONDS_MAX, LINGER_BYTES_MAX = 1.0, 32 * 1024 * 1024
"""Limits of what is read and thrown away behind the last answer, so that a close does not overtake it: whoever
sends a large body reads nothing before its end."""
SMALL_ANSWER_BYTES = 64 * 1024
"""Answers up to this size are sent always, refusals among them: they need no room of the budget."""

ENDINGS = (trio.BrokenResourceError, trio.ClosedResourceError)
Serve: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""Answers a request. It raises nothing but a refusal of the body by the connection."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """What all connections share."""

    bodies: ByteBudget
    answers: ByteBudget


class HttpConnection:
    def __init__(
        self,
        stream: trio.abc.HalfCloseableStream,
        serve: Serve,
        refuse: Callable[[str, GoQueueError], Response],
        budgets: Budgets,
        number: int,
    ) -> None:
        """`refuse` makes the answer for a request that could not be read, under an id."""
        self.leaving = trio.Event()
        self._stream = stream
        self._serve = serve
        self._refuse = refuse
        self._budgets = budgets
        self._number = number
        self._address: str | None = getattr(stream, "peer", None)
        self._machine = HttpMachine()
        self._patience = trio.CancelScope()
        self._slices = Slices()
        self._requests = 0
        self._kept_bytes = 0
        """Bytes of the body that is being read, taken from the budget."""
        self._reserved_bytes = 0
        """Bytes of the answer that is being made, likewise."""
        self._body_patience = 0.0
        """Seconds that the rest of the body may be waited for."""
        self._is_idle = True
        self._awaits_request = False
        """A part of a head is there."""
        self._is_given_up = False
        """Another client has its place."""

    async def run(self) -> None:
        """Runs until either end closes. Never raises for what the other end does."""
        try:
            with self._patience, suppress(*ENDINGS):
                while await self._exchange():
                    pass
            if self._patience.cancelled_caught and self._awaits_request and not self._is_given_up:
                await self._last_words(RequestTimedOut("the request came too slowly; send it in one go"))
        finally:
            await trio.aclose_forcefully(self._stream)

    def leave(self) -> None:
        """The broker is going away: a request under way is answered, and no other is taken."""
        self.leaving.set()
        if self._is_idle:
            self._patience.cancel()

    def yield_place(self) -> bool:
        """End it, unless it has a request. Returns whether it does."""
        if self._is_given_up or not (self._is_idle or self._awaits_request):
            return False
        self._is_given_up = True
        self._patience.cancel()
        return True

    async def _exchange(self) -> bool:
        """One request. Returns whether another one may come."""
        exchange: Exchange | None = None
        try:
            head = await self._next_head()
            if head is None:
                return False
            exchange = self._new_exchange(head)
            self._body_patience = BODY_SECONDS
            await self._serve(exchange)
            self.keep(0)
            if exchange.status is None or exchange.is_last or exchange.has_unread_body or self.leaving.is_set():
                await self._linger()
                return False
            if await self._skip_body():
                return True
            await self._linger()
            return False
        except GoQueueError as error:  # the request cannot be read, or the rest of its body
            if exchange is None or exchange.status is None:
                await self._last_words(error)
            else:  # it has its answer
                await self._linger()
            return False
        finally:
            self.keep(0)
            self._budgets.answers.give_back(self._reserved_bytes)
            self._reserved_bytes = 0

    def _new_exchange(self, head: Head) -> Exchange:
        self._requests += 1
        return Exchange(self, head, f"{self._number:x}-{self._requests}", self._address)

    async def _next_head(self) -> Head | None:
        self._is_idle = not self._machine.has_begun
        self._allow(IDLE_SECONDS_MAX if self._is_idle else HEAD_SECONDS_MAX)
        if self.leaving.is_set():
            return None
        while (event := self._machine.next_event()) is NEEDS_DATA:
            self._machine.receive(await self._stream.receive_some(RECEIVE_SIZE))
            if self._is_idle and self._machine.has_begun:
                self._is_idle, self._awaits_request = False, True
                self._allow(HEAD_SECONDS_MAX)
        self._is_idle = self._awaits_request = False
        self._allow(math.inf)
        return event if isinstance(event, Head) else None

    # For the exchange

    async def next_part(self) -> bytes:
        event = await self._next_of_body()
        if not isinstance(event, BodyPart):
            return b""
        size = len(event.data)
        self._budgets.bodies.take(size)
        self._kept_bytes += size
        return event.data

    def keep(self, size: int) -> None:
        self._budgets.bodies.give_back(self._kept_bytes - size)
        self._kept_bytes = size

    def reserve(self, size: int) -> None:
        self._budgets.answers.take(size)
        self._reserved_bytes += size

    async def send(self, data: bytes) -> None:
        size = 0 if self._reserved_bytes or len(data) <= SMALL_ANSWER_BYTES else len(data)
        with self._budgets.answers.holding(size), self._within(ANSWER_SECONDS + len(data) / PACE_BYTES):
            for at in range(0, len(data), PIECE_BYTES):
                with self._within(ANSWER_SECONDS):
                    await self._stream.send_all(data[at : at + PIECE_BYTES])

    async def unless_gone(
        self, work: Callable[[], Awaitable[None]], on_gone: Callable[[], None] | None = None
    ) -> bool:
        is_gone = False

        async def watch() -> None:
            nonlocal is_gone
            await self._wait_for_end()
            is_gone = True
            (nursery.cancel_scope.cancel if on_gone is None else on_gone)()

        async with PlainNursery() as nursery:
            nursery.start_soon(watch)
            await work()
            nursery.cancel_scope.cancel()
        return not is_gone

    async def _wait_for_end(self) -> None:
        """What comes meanwhile is the client's next request, and is kept; too much of it waits in the socket."""
        kept = 0
        with suppress(*ENDINGS):
            while data := await self._stream.receive_some(RECEIVE_SIZE):
                self._machine.receive(data)
                kept += len(data)
                if kept >= HEAD_SIZE_MAX:
                    await trio.sleep_forever()
            self._machine.receive(b"")

    # Bodies

    async def _next_of_body(self) -> Event:
        """Only the time in which the client is waited for counts, not that in which a handler works."""
        while True:
            await self._slices.step()  # a body of tiny chunks holds up nobody
            event = self._machine.next_event() if self._machine.is_in_body else BODY_END
            if event is not NEEDS_DATA:
                if isinstance(event, BodyPart):  # whoever was quick may not hold for long what is kept of the body
                    self._body_patience = min(BODY_SECONDS, self._body_patience + len(event.data) / PACE_BYTES)
                return event
            began_at = trio.current_time()
            with trio.move_on_after(self._body_patience) as patience:
                self._machine.receive(await self._stream.receive_some(RECEIVE_SIZE))
            self._body_patience -= trio.current_time() - began_at
            if patience.cancelled_caught:
                raise RequestTimedOut("the body of the request came too slowly; send it in one go")

    async def _skip_body(self) -> bool:
        """Read what the handler left of the body, if it is little; else the connection ends."""
        left = SKIPPED_BYTES_MAX
        while self._machine.is_in_body and left > 0:
            event = await self._next_of_body()
            left -= len(event.data) if isinstance(event, BodyPart) else 0
        return not self._machine.is_in_body

    # The end

    async def _last_words(self, error: GoQueueError) -> None:
        """To a client whose request was not understood. Nobody knows where its next one begins."""
        with trio.move_on_after(LINGER_SECONDS_MAX), suppress(*ENDINGS):
            head = Head("GET", b"", (), 0, is_last=True, knows_chunks=False, expects_continue=False)
            exchange = self._new_exchange(head)
            await exchange.answer(self._refuse(exchange.request_id, error))
            await self._linger()

    async def _linger(self) -> None:
        """A close with unread bytes may drop the answer on its way."""
        with trio.move_on_after(LINGER_SECONDS_MAX), suppress(*ENDINGS):
            await self._stream.send_eof()
            left = LINGER_BYTES_MAX
            while left > 0 and (data := await self._stream.receive_some(RECEIVE_SIZE)):
                left -= len(data)

    # Time

    def _allow(self, seconds: float) -> None:
        self._patience.deadline = trio.current_time() + seconds

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        with self._until(trio.current_time() + seconds):
            yield

    @contextmanager
    def _until(self, deadline: float) -> Iterator[None]:
        before, self._patience.deadline = self._patience.deadline, min(deadline, self._patience.deadline)
        try:
            yield
        finally:
            self._patience.deadline = before

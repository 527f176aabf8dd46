"""Settlements that nobody waits for: acks that leave at once, and messages whose handlers begin.

They travel in order, those of one turn of the event loop in one frame, together with those that are awaited. What
could not be settled at once, since the connection was lost or a partition was not there, is said again by a task,
until the broker has decided or the consumer closes. The first error is kept for the program's next call, unless it
has given a callback.
"""

import inspect
import logging
import math
from collections import deque
from collections.abc import Sequence

import trio

from goqueue.client.consuming.delivery import LeasedMessage, Portion, portions_of
from goqueue.client.consuming.options import OnAckError
from goqueue.client.consuming.settling import PAUSE_SECONDS_MAX, PORTIONS_MAX, Saying, Settling, Word
from goqueue.core.ledger.settlements import Action
from goqueue.errors import GoQueueError

logger = logging.getLogger("goqueue.client")

TURN_ACKS_MAX = 100
"""Number of acks after which the program lets other tasks run, so that they are sent."""

ACK, BEGIN = Word(Action.ACK), Word(Action.BEGIN)


class Unconfirmed:
    def __init__(self, settling: Settling, on_error: OnAckError | None) -> None:
        self._settling = settling
        self._on_error = on_error
        settling.collect = self._collected
        self._acks: list[LeasedMessage] = []
        self._begun: list[LeasedMessage] = []
        self._under_way: set[Saying] = set()
        self._again: deque[Saying] = deque()
        self._unreported: deque[GoQueueError] = deque()
        self._has_work, self._has_ended = trio.Event(), trio.Event()
        self._error: GoQueueError | None = None
        """The first error that the program has not heard of."""

    # The program

    def ack(self, messages: Sequence[LeasedMessage]) -> None:
        """Ack these with the next frame; see `post_soon`."""
        self._acks.extend(messages)
        for message in messages:
            message.delivery.acked_soon.add(message.offset)

    def post_soon(self) -> None:
        """Send what is gathered, if anything, at the end of this turn of the event loop."""
        if self._acks:
            self._settling.post_soon()

    @property
    def is_full(self) -> bool:
        """Others should run now, so that what was gathered is sent."""
        return len(self._acks) >= TURN_ACKS_MAX

    def begin(self, messages: Sequence[LeasedMessage]) -> None:
        """The handlers of these run once the frame that says so was handed to the socket; the caller posts it."""
        self._begun.extend(messages)

    def check(self) -> None:
        """Raise the error of an earlier ack, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def flush(self) -> None:
        """Wait until everything said so far is decided."""
        if self._acks or self._begun:
            self._settling.post_soon()
        while self._acks or self._begun or self._under_way or self._unreported:
            self._has_ended = trio.Event()
            await self._has_ended.wait()

    @property
    def count(self) -> int:
        """Messages whose acks are not decided, be their leases over or not."""
        acks = [saying for saying in self._under_way if saying.word is ACK]
        return len(self._acks) + sum([_size(portion) for saying in acks for portion in saying.portions])

    # The settlements

    def _collected(self) -> list[Saying]:
        if not self._acks and not self._begun:
            return []
        acks, self._acks = self._acks, []
        begun, self._begun = self._begun, []
        return [*self._sayings(ACK, acks), *self._sayings(BEGIN, begun)]

    def _sayings(self, word: Word, messages: Sequence[LeasedMessage]) -> list[Saying]:
        if not messages:
            return []
        portions = portions_of(messages)
        if len(portions) <= PORTIONS_MAX:
            return [self._saying(word, portions)]
        firsts = range(0, len(portions), PORTIONS_MAX)
        return [self._saying(word, portions[first : first + PORTIONS_MAX]) for first in firsts]

    def _saying(self, word: Word, portions: Sequence[Portion]) -> Saying:
        saying = Saying(word, portions, self._note_end)
        self._under_way.add(saying)
        return saying

    def _note_end(self, saying: Saying) -> None:
        if saying.again:
            self._again.append(saying)
            self._has_work.set()
        else:
            self._end(saying)

    def _end(self, saying: Saying) -> None:
        self._under_way.discard(saying)
        self._has_ended.set()
        error = saying.outcome.first_error()
        if error is not None and saying.word is not BEGIN:  # what is begun too late is acked too late, too
            self._report(error)

    def _report(self, error: GoQueueError) -> None:
        if self._on_error is None:
            self._error = self._error or error
        else:
            self._unreported.append(error)
            self._has_work.set()

    # The task

    async def run(self) -> None:
        """Say again what could not be settled at once, and call the program back with errors."""
        while True:
            await self._has_work.wait()
            self._has_work = trio.Event()
            while self._again:
                await self._repeat(self._again.popleft())
            while self._unreported:
                await self._call_back(self._unreported[0])
                self._unreported.popleft()
            self._has_ended.set()

    async def _call_back(self, error: GoQueueError) -> None:
        assert self._on_error is not None
        try:
            result = self._on_error(error)
            if inspect.isawaitable(result):
                await result
        except Exception:
            logger.exception("on_ack_error failed for: %s", error.message)

    async def _repeat(self, saying: Saying) -> None:
        while True:
            try:
                await self._settling.repeat(saying.word, saying.again, saying.outcome, math.inf)
            except GoQueueError as error:
                if error.retryable:
                    await trio.sleep(PAUSE_SECONDS_MAX)
                    continue
                saying.outcome.error = saying.outcome.error or error
            return self._end(saying)


def _size(portion: Portion) -> int:
    return portion.delivery.names.count if portion.messages is None else len(portion.messages)

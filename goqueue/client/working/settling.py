"""The settlements of a worker: acks in batches, failures one by one with their reason.

Acks are gathered while those before are under way, and no longer. A broker that is away gets them when it is back,
however long that takes; until then the leases are renewed as well as possible. A late ack is stale: the message is
redelivered, which is logged and is no reason to stop.
"""

import logging

import trio

from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.delivery import LeasedMessage
from goqueue.client.consuming.queue import REASON_LENGTH_MAX
from goqueue.errors import GoQueueError, StaleReceipt

logger = logging.getLogger("goqueue.worker")

PAUSE_SECONDS = 1.0
"""The pause between two tries to reach a broker that is away."""


class WorkerSettling:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._to_ack: list[LeasedMessage] = []
        self._comes_more = trio.Event()
        self._turn = trio.Lock()

    # Acks

    def ack(self, message: LeasedMessage) -> None:
        """Ack the message soon, unless its handler has settled it."""
        if is_open(message):
            self._to_ack.append(message)
            self._comes_more.set()

    async def run(self) -> None:
        while True:
            await self._comes_more.wait()
            self._comes_more = trio.Event()
            await self.flush()

    async def flush(self) -> None:
        """Send all gathered acks. A cancellation loses none: an ack can be repeated."""
        async with self._turn:
            while self._to_ack:
                row = self._to_ack.copy()
                await self._ack(row)
                del self._to_ack[: len(row)]

    async def _ack(self, row: list[LeasedMessage]) -> None:
        while True:
            try:
                return await self._consumer.ack(row)
            except GoQueueError as error:
                if not await _may_be_repeated(error, "%d messages could not be acked", len(row)):
                    return None

    # Failures

    async def nack(self, message: LeasedMessage, reason: str) -> None:
        while is_open(message):
            try:
                return await self._consumer.nack(message, reason=reason)
            except GoQueueError as error:
                if not await _may_be_repeated(error, "%s could not be nacked", place_of(message)):
                    return None
        return None


async def _may_be_repeated(error: GoQueueError, what: str, *arguments: object) -> bool:
    """Waits for a pause; False if the broker's answer is final."""
    if isinstance(error, StaleReceipt):
        logger.warning("a handler was done too late: %s; it comes again", error.message)
        return False
    logger.warning(f"{what}: %s", *arguments, error.message)
    if error.retryable:
        await trio.sleep(PAUSE_SECONDS)
    return error.retryable


def is_open(message: LeasedMessage) -> bool:
    """Whether it is not settled. Only the broker knows whether a lease that seems to have ended has."""
    return message.delivery.holds(message.offset) or message.offset in message.delivery.lost


def place_of(message: LeasedMessage) -> str:
    return f"{message.topic}/{message.partition} offset {message.offset}"


def reason_of(error: BaseException) -> str:
    """Type and text, cut and escaped so that they can be sent."""
    try:
        text = str(error)
    except Exception:  # an exception whose __str__ fails
        text = "its text cannot be had"
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    sound = reason[:REASON_LENGTH_MAX].encode(errors="backslashreplace").decode()
    return sound[:REASON_LENGTH_MAX]

"""The failures of a worker's handlers, told to the broker one by one with their reason.

A broker that is away hears of a failure when it is back, however long that takes; until then the leases are renewed
as well as possible. One that comes too late is stale: the message is redelivered, which is logged and is no reason
to stop.
"""

import logging

import trio

from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.delivery import LeasedMessage
from goqueue.errors import GoQueueError, StaleReceipt

logger = logging.getLogger("goqueue.worker")

PAUSE_SECONDS = 1.0
"""The pause between two tries to reach a broker that is away."""


async def tell_failure(consumer: Consumer, message: LeasedMessage, error: BaseException) -> None:
    """A nack, or a reject where the worker never tries again after such an error."""
    while is_open(message):
        try:
            return await consumer.fail(message, error)
        except GoQueueError as refusal:
            if not await _may_be_repeated(refusal, message):
                return None
    return None


def note_ack_error(error: GoQueueError) -> None:
    """Log the error of an ack that is not waited for."""
    if isinstance(error, StaleReceipt):
        logger.warning("a handler was done too late: %s; it comes again", error.message)
    else:
        logger.warning("a message could not be acked: %s", error.message)


async def _may_be_repeated(error: GoQueueError, message: LeasedMessage) -> bool:
    """Waits for a pause; False if the broker's answer is final."""
    if isinstance(error, StaleReceipt):
        note_ack_error(error)
        return False
    logger.warning("the failure of %s could not be told: %s", place_of(message), error.message)
    if error.retryable:
        await trio.sleep(PAUSE_SECONDS)
    return error.retryable


def log_failure(message: LeasedMessage, error: BaseException) -> None:
    logger.error("the handler failed for %s, attempt %d", place_of(message), message.attempt, exc_info=error)


def is_open(message: LeasedMessage) -> bool:
    """Whether it is not settled. Only the broker knows whether a lease that seems to have ended has."""
    delivery, offset = message.delivery, message.offset
    return (delivery.holds(offset) or offset in delivery.lost) and offset not in delivery.acked_soon


def place_of(message: LeasedMessage) -> str:
    return f"{message.topic}/{message.partition} offset {message.offset}"

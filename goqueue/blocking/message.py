"""A delivered message that settles itself without await."""

from typing import TYPE_CHECKING

from goqueue.client.consuming.delivery import Kinds, LeasedMessage, WithBody
from goqueue.client.reading.message import FlaggedMessage
from goqueue.types import Seconds

if TYPE_CHECKING:
    from goqueue.blocking.consumer import Consumer


class DeliveredMessage(LeasedMessage):
    """What a consumer hands out. It is to be settled within its lease: acked, nacked, rejected or released."""

    __slots__ = ()

    @property
    def _consumer(self) -> "Consumer":
        consumer: Consumer = self.delivery.owner
        return consumer

    def ack(self, *, wait: bool | None = None) -> None:
        """It is done. With `wait=False` the ack leaves at once, and is not waited for; see `Consumer.ack`."""
        self._consumer.ack(self, wait=wait)

    def nack(self, *, delay: Seconds | None = None, reason: str = "") -> None:
        """It failed: try again after `delay` seconds, else after the backoff (1 s, 2 s … 60 s, or as `retry`)."""
        self._consumer.nack(self, delay=delay, reason=reason)

    def reject(self, reason: str = "") -> None:
        """It can never succeed: to the dead-letter topic, now."""
        self._consumer.reject(self, reason)

    def fail(self, error: BaseException) -> None:
        """It failed with this error: nack with it as the reason, or reject if `never_for` of `retry` names it."""
        self._consumer.fail(self, error)

    def release(self) -> None:
        """Give it back at once; this delivery does not count."""
        self._consumer.release(self)

    def extend(self, seconds: Seconds) -> None:
        """The lease ends so many seconds from now."""
        self._consumer.extend(self, seconds)


class FlaggedDelivered(DeliveredMessage, FlaggedMessage):
    __slots__ = ()


class _DeliveredWithBody(WithBody, DeliveredMessage):
    __slots__ = ("_body",)


class _FlaggedWithBody(WithBody, FlaggedDelivered):
    __slots__ = ("_body",)


OF_THREADS = Kinds(DeliveredMessage, FlaggedDelivered, _DeliveredWithBody, _FlaggedWithBody)

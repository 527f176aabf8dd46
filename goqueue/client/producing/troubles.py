"""Why messages of a producer are not confirmed: for the log, and for the error of messages that time out.

A partition that refuses batches is one trouble, a broker that cannot be reached is one for the whole producer. Each
is logged at once and then at growing intervals, by the task that meets it.
"""

import logging
from typing import TYPE_CHECKING

import trio

from goqueue.client.link.caller import Caller
from goqueue.core.refusals import Refusal, Refusals
from goqueue.errors import DeliveryTimeout, DeliveryUnknown, GoQueueError, Unavailable

if TYPE_CHECKING:
    pass

logger = logging.getLogger("goqueue.producer")


class SendTroubles:
    def __init__(self, client: Caller) -> None:
        self._client = client
        self._partitions: dict[int, Refusals] = {}
        self._current: set[int] = set()
        self._broker = Refusals()

    def note_refused(self, topic: str, partition: int, error: GoQueueError) -> None:
        """A batch was refused and is sent again."""
        now, refusals = trio.current_time(), self._partitions.setdefault(partition, Refusals())
        self._current.add(partition)
        if refusals.note(error.code, error.message, now) and refusals.last is not None:
            place, seconds = f"{topic}/{partition}", now - refusals.last.since
            logger.warning("%s has refused messages for %.1f s, trying again: %s", place, seconds, refusals.last)

    def note_confirmed(self, partition: int) -> None:
        """Called for every batch: it has to cost nothing while all goes well."""
        if partition in self._current:
            self._current.discard(partition)
            self._partitions[partition].end(trio.current_time())

    def look_for_broker(self, topic: str) -> None:
        """Messages wait: log it if there is no connection."""
        now, broker = trio.current_time(), self._broker
        if self._client.link is not None:
            if broker.last is not None:
                broker.end(now)
        elif broker.note(Unavailable.code, self._client.why_away, now) and broker.last is not None:
            logger.warning(
                "messages to %s have waited for the broker for %.1f s: %s",
                topic,
                now - broker.last.since,
                broker.last,
            )

    # Errors of messages that time out

    def unwritten(self, partition: int | None, seconds: float) -> DeliveryTimeout:
        text, details = _told(self._why(partition))
        late = f"not confirmed within {seconds:g} s; it was not written, send it again"
        return DeliveryTimeout(late + text, **details)

    def unknown(self, partition: int, seconds: float) -> DeliveryUnknown:
        text, details = _told(self._why(partition))
        return DeliveryUnknown(
            f"not confirmed within {seconds:g} s; it may have been written or not{text}", **details
        )

    def _why(self, partition: int | None) -> Refusal | None:
        """The current trouble. A refusal by the partition counts only while the broker can be reached."""
        if self._client.link is None:
            return self._broker.last or Refusal(Unavailable.code, self._client.why_away, trio.current_time())
        found = self._partitions.get(partition) if partition is not None else None
        return None if found is None else found.last


def _told(why: Refusal | None) -> tuple[str, dict[str, str]]:
    if why is None:
        return "; the broker has not answered", {}
    return f"; the last refusal: {why}", {"reason": why.reason, "last_error": why.code}

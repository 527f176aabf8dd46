"""Messages whose time is over: those beyond a sender's delivery timeout, and those of a call with a shorter limit.

What was not sent is not written and never will be. Of what was sent and not answered nobody can say.
"""

from collections.abc import Callable, Iterable

from goqueue.client.producing.outcome import Outcome
from goqueue.client.producing.partitionqueue import PartitionQueue, PartitionQueues
from goqueue.client.producing.troubles import SendTroubles
from goqueue.core.sending.chunk import Chunk
from goqueue.core.sending.queue import ExpiredMessages
from goqueue.errors import DeliveryTimeout, GoQueueError


class Expiring:
    def __init__(
        self,
        queues: PartitionQueues,
        troubles: SendTroubles,
        fail: Callable[[Iterable[Chunk], GoQueueError], object],
        begin_anew: Callable[[PartitionQueue], None],
        pump: Callable[[PartitionQueue], None],
    ) -> None:
        self._queues, self._troubles = queues, troubles
        self._fail, self._begin_anew, self._pump = fail, begin_anew, pump

    def expire(self, now: float, seconds: float) -> None:
        """Fail messages of this age."""
        for queue in self._queues:
            self._end(queue, queue.messages.expire(now, seconds), seconds)

    def withdraw(self, outcome: Outcome, seconds: float) -> None:
        """Fail the messages of one call, whose time limit is over. The rest of their batches goes on."""
        for queue in list(self._queues):
            self._end(queue, queue.messages.withdraw(outcome, outcome.remaining), seconds)
            self._pump(queue)
            if outcome.is_settled:
                return

    def not_sent(self, seconds: float) -> DeliveryTimeout:
        """The error of a call that found no room."""
        return self._troubles.unwritten(None, seconds)

    def _end(self, queue: PartitionQueue, expired: ExpiredMessages, seconds: float) -> None:
        self._fail(expired.unwritten, self._troubles.unwritten(queue.partition, seconds))
        self._fail(expired.unknown, self._troubles.unknown(queue.partition, seconds))
        if expired.begins_anew:
            self._begin_anew(queue)

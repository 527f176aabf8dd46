"""Logs refused batches: one line for a topic at once, then one a minute while it goes on.

It logs only what an operator can mend: a full disk, a full topic, a partition that is away. Errors in a message go
to the client that sent it. `stats` counts all of them, by code.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field

from goqueue.errors import GoQueueError, InvalidMessage, ProducerRefused, StorageError

logger = logging.getLogger("goqueue.refusals")


@dataclass(slots=True)
class _Topic:
    untold: Counter[str] = field(default_factory=Counter)
    reason: str = ""


class RefusalLog:
    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        """The topics that refused a batch within the last minute or two."""

    def note(self, partition: str, error: BaseException | object) -> None:
        """A batch for this partition, by its name, was refused."""
        if not isinstance(error, GoQueueError) or not _is_the_brokers(error):
            return
        name, _, _ = partition.rpartition("/")
        topic = self._topics.get(name)
        if topic is None:
            self._topics[name] = _Topic()
            logger.warning("topic %s refuses batches: %s (%s)", name, error.message, error.code)
        else:
            topic.untold[error.code] += 1
            topic.reason = error.message

    def tell(self) -> None:
        """Once a minute: log how many more there were. A topic without refusals for a minute is forgotten."""
        for name, topic in list(self._topics.items()):
            if not topic.untold:
                del self._topics[name]
                continue
            codes = ", ".join(f"{count} {code}" for code, count in topic.untold.most_common())
            logger.warning("topic %s has refused more batches: %s; the last: %s", name, codes, topic.reason)
            topic.untold.clear()


def _is_the_brokers(error: GoQueueError) -> bool:
    if isinstance(error, InvalidMessage | ProducerRefused):
        return False
    return error.retryable or isinstance(error, StorageError)

"""Reports the position of a query to the broker as the progress of a group: for its lag, and for nothing else.

Spark reports a micro-batch as done when it plans the next one (`commit`), so never a query's last one; but it asks
for the offsets after it (`latestOffset`), which means the same.
"""

import logging
from collections.abc import Mapping

from goqueue import blocking
from goqueue.errors import GoQueueError
from goqueue.spark.connecting import connected
from goqueue.types import Offset

logger = logging.getLogger("goqueue.spark")

TELL_SECONDS_MAX = 5.0
"""Limit of the query's wait for a report."""

Reached = Mapping[str, Mapping[int, Offset]]
"""The next offset to read, by topic and partition."""


class QueryProgress:
    """Reports each position once, even if that fails: Spark may ask for new offsets a hundred times a second."""

    def __init__(self, group: str | None) -> None:
        self._group = group
        self._told: dict[str, Mapping[int, Offset]] = {}

    def tell(self, client: blocking.Client, reached: Reached) -> None:
        if self._group is None:
            return
        for topic, offsets in reached.items():
            if self._told.get(topic) != offsets:
                self._told[topic] = offsets
                tell_progress(client, self._group, topic, offsets)


def tell_progress(client: blocking.Client, group: str, topic: str, offsets: Mapping[int, Offset]) -> None:
    """A failure is only logged: a query goes on from its checkpoint."""
    try:
        with blocking.fail_after(TELL_SECONDS_MAX):
            client.commit(group, topic, offsets)
    except (GoQueueError, TimeoutError) as error:
        logger.warning("the progress of group %s in topic %s was not told to the broker: %s", group, topic, error)


def tell_at_the_end(url: str, group: str, reached: Mapping[str, Mapping[str, Offset]]) -> None:
    """For a query that was stopped, and no longer has a client."""
    try:
        with connected(url, seconds_max=TELL_SECONDS_MAX) as client:
            for topic, offsets in reached.items():
                tell_progress(client, group, topic, {int(number): offset for number, offset in offsets.items()})
    except GoQueueError as error:
        logger.warning("the progress of group %s was not told to the broker: %s", group, error)

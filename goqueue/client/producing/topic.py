"""The topic of a producer, which may gain partitions, or be deleted and created again."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from goqueue.client.link.caller import Caller
from goqueue.core.sending.partitioner import Partitioner
from goqueue.errors import GoQueueError, UnknownTopic

if TYPE_CHECKING:
    from goqueue.client.link.topics import Topic

REFRESH_SECONDS = 30.0
"""Limit of the age of the description of a topic that is used; then it is asked for again."""


class FollowedTopic:
    def __init__(
        self,
        client: Caller,
        topic: "Topic",
        *,
        first_partition: int,
        on_refreshed: Callable[[bool], None],
        on_gone: Callable[[UnknownTopic], None],
        on_unanswered: Callable[[], None],
    ) -> None:
        """`on_refreshed` gets whether it is another topic of the same name. One of the three is called after each
        `begin_refresh`, so that nothing waits for ever.
        """
        self._client = client
        self.now = topic
        self.partitioner = Partitioner(len(topic.partitions), first_partition)
        self.partitioner.avoid(_unusable(topic))
        self._on_refreshed, self._on_gone, self._on_unanswered = on_refreshed, on_gone, on_unanswered
        self._refreshed_at = trio.current_time()
        self._is_refreshing = False

    def refresh_if_old(self, now: float) -> None:
        if now > self._refreshed_at + REFRESH_SECONDS:
            self.begin_refresh()

    def begin_refresh(self) -> None:
        if not self._is_refreshing:
            self._is_refreshing = True
            self._client.spawn(self._refresh_in_background)

    async def _refresh_in_background(self) -> None:
        try:
            await self.refresh()
        except UnknownTopic as error:
            self._on_gone(error)
        except GoQueueError:
            self._on_unanswered()
        finally:
            self._refreshed_at = trio.current_time()
            self._is_refreshing = False

    async def refresh(self) -> None:
        """Ask the broker for the topic, and use the answer."""
        topic = await self._client.topic(self.now.name)
        self._refreshed_at = trio.current_time()
        is_other = topic.uuid != self.now.uuid
        self.now = topic
        self.partitioner.resize(len(topic.partitions))
        self.partitioner.avoid(_unusable(topic))
        self._on_refreshed(is_other)


def _unusable(topic: "Topic") -> list[int]:
    """The partitions that were lost or could not be opened."""
    return [each.number for each in topic.partitions if each.error is not None]

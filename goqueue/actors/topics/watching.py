"""Topics at a glance, and who is told when they change.

The outline is made once for each change, however many groups ask for it.
"""

from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import TopicOutline, TopicsChanged
from goqueue.core.topics.metadata import Metadata

TIDY_ABOVE_MIN = 64


class Watchers:
    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._listeners: dict[ActorRef, None] = {}
        self._tidy_above = TIDY_ABOVE_MIN
        self._outline: tuple[TopicOutline, ...] | None = None

    @property
    def outline(self) -> tuple[TopicOutline, ...]:
        if self._outline is None:
            self._outline = tuple(TopicOutline(each.name, each.uuid, each.partitions) for each in self._metadata)
        return self._outline

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self, listener: ActorRef) -> tuple[TopicOutline, ...]:
        self._listeners[listener] = None
        if len(self._listeners) > self._tidy_above:
            self._forget_those_gone()
        return self.outline

    def tell(self, sender: str) -> None:
        """The topics are others now."""
        self._outline = None
        self._forget_those_gone()
        for listener in self._listeners:
            listener.news(sender, TopicsChanged())

    def _forget_those_gone(self) -> None:
        """They ask anew when they start. Between two such looks as many must come as there were."""
        self._listeners = {each: None for each in self._listeners if not each.is_down}
        self._tidy_above = max(TIDY_ABOVE_MIN, 2 * len(self._listeners))

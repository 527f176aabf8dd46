"""Topics at a glance, and who is told when they change.

The outline is made once for each change, however many groups ask for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from goqueue.actors.grouprequests import TopicsChanged
from goqueue.actors.messages import Request
from goqueue.actors.ref import ActorRef
from goqueue.core.metadata import Metadata


@dataclass(frozen=True, slots=True)
class TopicOutline:
    name: str
    uuid: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class OutlineTopics(Request[Sequence[TopicOutline]]):
    """Every topic, in order of name. No partition is asked."""


@dataclass(frozen=True, slots=True)
class WatchTopics(Request[Sequence[TopicOutline]]):
    """As `OutlineTopics`; from now on `listener` is told `TopicsChanged` as news. Twice is once."""

    listener: ActorRef


class Watchers:
    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._listeners: dict[ActorRef, None] = {}
        self._outline: tuple[TopicOutline, ...] | None = None

    @property
    def outline(self) -> tuple[TopicOutline, ...]:
        if self._outline is None:
            self._outline = tuple(TopicOutline(each.name, each.uuid, each.partitions) for each in self._metadata)
        return self._outline

    def add(self, listener: ActorRef) -> tuple[TopicOutline, ...]:
        self._listeners[listener] = None
        return self.outline

    def tell(self, sender: str) -> None:
        """The topics are others now. Who is gone is forgotten: it asks anew when it starts."""
        self._outline = None
        for listener in [each for each in self._listeners if each.is_down]:
            del self._listeners[listener]
        for listener in self._listeners:
            listener.news(sender, TopicsChanged())

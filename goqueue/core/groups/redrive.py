"""Sending dead letters back: which of them, and where to.

The destination is journaled with each chosen letter, as the reason why it leaves the dead-letter topic:

    group        to its own topic and partition, for the group that gave it up; the others pass it over
    all          to its own topic and partition, for everybody
    to:{topic}   to another topic, for everybody, under the same number modulo
"""

from collections.abc import Set
from dataclasses import dataclass

from goqueue.core.groups.deadletter import Story
from goqueue.types import Offset

_GROUP, _ALL, _TO = "group", "all", "to:"


@dataclass(frozen=True, slots=True)
class Destination:
    topic: str | None = None
    """None: the topic that the letter came from."""
    is_for_all: bool = False

    @classmethod
    def wanted(cls, to: str | None, all_groups: bool) -> "Destination":
        return cls(to, all_groups or to is not None)

    def to_text(self) -> str:
        if self.topic is not None:
            return _TO + self.topic
        return _ALL if self.is_for_all else _GROUP

    @classmethod
    def from_text(cls, text: str) -> "Destination":
        if text.startswith(_TO):
            return cls(text.removeprefix(_TO), True)
        return cls(None, text == _ALL)

    def topic_for(self, story: Story) -> str:
        return self.topic or story.topic

    def group_for(self, story: Story) -> str | None:
        """The only group that is to get it; None: all groups."""
        return None if self.is_for_all else story.group


@dataclass(frozen=True, slots=True)
class RedriveChoice:
    """Chooses the letters that fit everything that is given."""

    destination: Destination
    group: str | None = None
    offsets: Set[Offset] | None = None
    reason: str | None = None

    def takes(self, offset: Offset, story: Story | None, topics: Set[str], groups: Set[str]) -> bool:
        """Only letters that the broker made, and only if their topic and their group exist."""
        if story is None or self.destination.topic_for(story) not in topics:
            return False
        receiver = self.destination.group_for(story)
        if receiver is not None and receiver not in groups:
            return False
        return (
            self.group in (None, story.group)
            and (self.offsets is None or offset in self.offsets)
            and (self.reason is None or self.reason in story.reason)
        )

"""Sending dead letters back: which of them, and where to. The destination is journaled with each chosen letter."""

from collections.abc import Set
from dataclasses import dataclass

from goqueue.core.groups.deadletter import Story
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.names import check_group_name, check_publishable
from goqueue.errors import ProtocolError
from goqueue.types import Offset


def check_redrive(
    topic: str, group: str | None, to: str | None, *, all_groups: bool, per_second: int | None
) -> None:
    check_publishable(topic)
    if group is not None:
        check_group_name(group)
    if to is not None:
        check_publishable(to)
        if all_groups:
            raise ProtocolError("a redrive goes to another topic or to all groups of this one, not both")
    if per_second == 0:
        raise ProtocolError("per_second is 0, at which nothing is ever sent; leave it out for no limit")


def wanted_destination(to: str | None, all_groups: bool) -> Destination:
    """Another topic is for everybody."""
    return Destination(to, all_groups or to is not None)


def destination_in(reason: str) -> Destination:
    """Journals before 2026-11-18 have the destination as the reason: group, all, or to:{topic}."""
    if reason.startswith("to:"):
        return Destination(reason.removeprefix("to:"), True)
    return Destination(None, reason == "all")


@dataclass(frozen=True, slots=True)
class RedriveChoice:
    """Chooses the letters that fit everything that is given."""

    destination: Destination
    group: str | None = None
    offsets: Set[Offset] | None = None
    reason: str | None = None

    def takes(self, offset: Offset, story: Story | None, topics: Set[str], groups: Set[str]) -> bool:
        """Only letters that the broker made, and only if their topic and their group exist."""
        if story is None or self.destination.topic_for(story.topic) not in topics:
            return False
        receiver = self.destination.group_for(story.group)
        if receiver is not None and receiver not in groups:
            return False
        return (
            self.group in (None, story.group)
            and (self.offsets is None or offset in self.offsets)
            and (self.reason is None or self.reason in story.reason)
        )

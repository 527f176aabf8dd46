"""Rates from two looks at a broker. Time is the broker's own, so a slow connection does not bend them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COUNTED = {
    "published": "published.messages",
    "delivered": "delivered.messages",
    "acked": "settled.acked",
    "read": "fetched.messages",
    "refused": "refused",
    "requests": "requests",
    "syncs": "fsync.rounds",
}
"""The rates, and the counters of which they are."""


@dataclass(frozen=True, slots=True)
class TopicLook:
    name: str
    uuid: str
    partitions: int
    end: int
    """The sum of the partitions' ends."""
    size: int


@dataclass(frozen=True, slots=True)
class GroupLook:
    name: str
    state: str
    members: int
    committed: int
    """The sum of the partitions' committed offsets."""
    lag: int
    in_flight: int
    waiting: int
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True)
class Look:
    counters: Mapping[str, Any]
    status: str = "ready"
    degraded: Sequence[str] = ()
    """The codes of what impairs the broker."""
    topics: Sequence[TopicLook] = ()
    groups: Sequence[GroupLook] = ()


@dataclass(frozen=True, slots=True)
class TopicRate:
    topic: TopicLook
    per_second: float | None


@dataclass(frozen=True, slots=True)
class GroupRate:
    group: GroupLook
    per_second: float | None
    """Messages with which it is done; None for want of an earlier look, or after a reset to an earlier offset."""


@dataclass(frozen=True, slots=True)
class Figures:
    look: Look
    seconds: float | None
    """Between the two looks; None: there was one look, or another life of the broker before."""
    rates: Mapping[str, float | None] = field(default_factory=dict)
    topics: Sequence[TopicRate] = ()
    """The busiest first."""
    groups: Sequence[GroupRate] = ()
    """The one that is furthest behind first."""


def figures(before: Look | None, after: Look) -> Figures:
    seconds = _between(before, after)
    if before is None or seconds is None:
        before = None
    rates = {
        name: None if before is None else _rate(before.counters.get(counter), after.counters.get(counter), seconds)
        for name, counter in COUNTED.items()
    }
    ends = {} if before is None else {topic.uuid: topic.end for topic in before.topics}
    done = {} if before is None else {group.name: group.committed for group in before.groups}
    topics = [TopicRate(topic, _rate(ends.get(topic.uuid), topic.end, seconds)) for topic in after.topics]
    groups = [GroupRate(group, _rate(done.get(group.name), group.committed, seconds)) for group in after.groups]
    return Figures(
        after,
        seconds,
        rates,
        sorted(topics, key=lambda each: (-(each.per_second or 0), -each.topic.size, each.topic.name)),
        sorted(groups, key=lambda each: (-each.group.lag, -(each.per_second or 0), each.group.name)),
    )


def _between(before: Look | None, after: Look) -> float | None:
    if before is None:
        return None
    seconds = float(after.counters["uptime_seconds"]) - float(before.counters["uptime_seconds"])
    return seconds if seconds > 0 else None


def _rate(before: float | None, after: float | None, seconds: float | None) -> float | None:
    if before is None or after is None or seconds is None or after < before:
        return None
    return (after - before) / seconds

"""Looks at a broker that is not there."""

from typing import Any

from goqueue.cli.top.rates import GroupLook, Look, TopicLook


def topic(name: str, end: int = 0, size: int = 0, uuid: str = "") -> TopicLook:
    return TopicLook(name, uuid or name, 3, end, size)


def group(name: str, committed: int = 0, lag: int = 0, **others: Any) -> GroupLook:
    given = {"state": "stable", "members": 1, "in_flight": 0, "waiting": 0, "oldest_seconds": None, **others}
    return GroupLook(name, committed=committed, lag=lag, **given)


def look(uptime: float, counters: dict[str, Any] | None = None, **others: Any) -> Look:
    return Look({"uptime_seconds": uptime, "connections.open": 1, **(counters or {})}, **others)

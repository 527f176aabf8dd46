"""Which values are held to a schema at all: no larger, no deeper and no more involved than the broker can bear.

The validator cannot be interrupted. At the default bound in bytes no value takes it more than some 20 ms; an
operator who raises that bound takes longer stalls.
"""

from dataclasses import dataclass
from typing import Any

from goqueue.core.schemas.reading.cost import DEPTH_MAX, SchemaCost
from goqueue.errors import InvalidMessage, TooLarge

VALUE_BYTES = 256 * 1024
"""The bound of a value unless the topic has another one."""
CONTAINERS_MAX = 20_000
"""Limit of the brackets and braces in a value, at `VALUE_BYTES`."""
WORK_MAX = 2_000_000
"""Limit of the parts of a value times the schemas that each may be held to, at `VALUE_BYTES`."""


@dataclass(frozen=True, slots=True)
class ValueBounds:
    """The bounds of one topic for one schema."""

    bytes_max: int
    cost: SchemaCost
    bytes_free: int
    """Values up to this size need no look."""

    @classmethod
    def of(cls, bytes_max: int, cost: SchemaCost) -> "ValueBounds":
        """A value has at most one part for two bytes."""
        scale = max(1.0, bytes_max / VALUE_BYTES)
        free = min(bytes_max, CONTAINERS_MAX, int(2 * WORK_MAX * scale) // cost.load)
        return cls(bytes_max, cost, min(free, 2 * cost.depth_max) if cost.depth_max < DEPTH_MAX else free)

    def fault(self, data: bytes) -> InvalidMessage | None:
        """What is too large about it, before it is parsed."""
        if len(data) <= self.bytes_free:
            return None
        scale = max(1.0, self.bytes_max / VALUE_BYTES)
        if len(data) > self.bytes_max:
            return _too_large(f"{len(data):,} bytes, and {self.bytes_max:,} are")
        containers = data.count(b"{") + data.count(b"[")
        if containers > CONTAINERS_MAX * scale:
            return _too_large(f"{containers:,} brackets and braces, and {int(CONTAINERS_MAX * scale):,} are")
        parts = 1 + containers + data.count(b",")
        if parts * self.cost.load > WORK_MAX * scale:
            return _too_large(f"{parts:,} parts, and {int(WORK_MAX * scale) // self.cost.load:,} are")
        return None

    def is_too_deep(self, value: Any) -> bool:
        return self.cost.depth_max < DEPTH_MAX and _is_deeper(value, self.cost.depth_max)


def _too_large(what: str) -> TooLarge:
    return TooLarge(
        f"it has {what} held to this schema at most; publish less at a time, or raise schema_value_bytes"
    )


def _is_deeper(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True

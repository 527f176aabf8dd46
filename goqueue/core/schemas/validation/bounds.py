"""Which values are held to a schema at all: no larger, no deeper and no more involved than the broker can bear.

The validator cannot be interrupted. With the default bound in bytes no value takes it much more than 20 ms; an
operator who raises that bound takes longer stalls, and all bounds rise with it.
"""

from dataclasses import dataclass
from typing import Any

from goqueue.core.schemas.reading.cost import DEPTH_MAX, SchemaCost
from goqueue.core.schemas.reading.patterns import PatternCost
from goqueue.core.topics.config import SCHEMA_VALUE_BYTES
from goqueue.errors import TooLarge

VALUE_BYTES = SCHEMA_VALUE_BYTES
"""The bound of a value unless the topic has another one. The bounds below are for it."""
CONTAINERS_MAX = 20_000
"""Limit of the brackets and braces in a value."""
WORK_MAX = 2_000_000
"""Limit of the parts of a value times the schemas that each may be held to."""
MATCHING_MAX = 300_000_000
"""Limit of the bytes of a value times those of the compiled patterns that each may be matched with."""


@dataclass(frozen=True, slots=True)
class ValueBounds:
    """The bounds of one topic for one schema."""

    bytes_max: int
    containers_max: int
    parts_max: int
    depth_max: int
    matching_max: int
    patterns: PatternCost
    bytes_free: int
    """Values up to this size need no look: they cannot be beyond the other bounds."""

    @classmethod
    def of(cls, bytes_max: int, cost: SchemaCost) -> "ValueBounds":
        scale = max(1.0, bytes_max / VALUE_BYTES)
        containers, parts, matching = (int(most * scale) for most in (CONTAINERS_MAX, WORK_MAX, MATCHING_MAX))
        parts //= cost.load
        free = min(bytes_max, containers, 2 * parts)  # a part has two bytes at least
        free = min(free, matching // max(1, cost.patterns.reading_on + cost.patterns.tied))
        if cost.depth_max < DEPTH_MAX:
            free = min(free, 2 * cost.depth_max)
        return cls(bytes_max, containers, parts, cost.depth_max, matching, cost.patterns, free)

    def fault(self, data: bytes) -> TooLarge | None:
        """What is too large about it, before it is parsed."""
        if len(data) <= self.bytes_free:
            return None
        if len(data) > self.bytes_max:
            return _too_large("bytes", len(data), self.bytes_max)
        containers = data.count(b"{") + data.count(b"[")
        if containers > self.containers_max:
            return _too_large("brackets and braces", containers, self.containers_max)
        parts = 1 + containers + data.count(b",")
        if parts > self.parts_max:
            return _too_large("parts", parts, self.parts_max)
        return self._matching_fault(data)

    def _matching_fault(self, data: bytes) -> TooLarge | None:
        texts = 1 + data.count(b'"') // 2
        tied = min(len(data) * self.patterns.tied, texts * self.patterns.tied_at_most)
        if (matching := len(data) * self.patterns.reading_on + tied) > self.matching_max:
            return _too_large("bytes", len(data), len(data) * self.matching_max // matching)
        return None

    def is_too_deep(self, value: Any) -> bool:
        """The parser has its own bound for values that are held to schemas without loops."""
        return self.depth_max < DEPTH_MAX and _is_deeper(value, self.depth_max)


def _too_large(noun: str, found: int, most: int) -> TooLarge:
    return TooLarge(
        f"{found:,} {noun}, and values of at most {most:,} are held to this schema; publish less at a time, "
        "or raise schema_value_bytes of the topic"
    )


def _is_deeper(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        level = [inner for each in level for inner in _parts(each) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()

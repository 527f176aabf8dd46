"""What a member of a group reads: topics by name, or all whose names fit a pattern.

Patterns are those of a shell: `*` any characters, `?` one, `[ab]` one of these, `[!ab]` none of these. They were
chosen over regular expressions because names are full of dots, which there would have to be escaped. No name holds
a character of a pattern, so a text says by itself which of the two it is.

A pattern means the topics that people made. The broker's own (`__...`) and dead letters (`....dlq`) fit only a
pattern that begins, or ends, just so: a consumer of `*` does not want last week's failures mixed in.

Topics come and go: a subscription is resolved against those that are there, as often as they change.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from reprlib import repr as shortened

from goqueue.core.names import DEAD_LETTER_SUFFIX, INTERNAL_PREFIX, check_topic_name
from goqueue.errors import InvalidName

PATTERN_LENGTH_MAX = 400
TOPICS_MAX = 1_000
"""Limit of the names in a list; a pattern may fit any number of topics."""

_WILD = frozenset("*?[")
_PATTERN_SHAPE = re.compile(r"[A-Za-z0-9._\-*?!\[\]]+")


@dataclass(frozen=True)
class Subscription:
    """Either names, in order and each once, or a pattern."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def to(cls, asked: object) -> "Subscription":
        """To a name, a list of names or a pattern, as a user or the wire gives it; or `InvalidName`."""
        if isinstance(asked, str):
            return cls(pattern=_checked_pattern(asked)) if _WILD & set(asked) else cls((_checked_name(asked),))
        if isinstance(asked, list | tuple):
            return cls(_checked_names(asked))
        raise InvalidName(f"a subscription is a name, a list of names or a pattern, not {type(asked).__name__}")

    def to_plain(self) -> str | list[str]:
        """The plain value that `to` accepts."""
        return self.pattern if self.pattern is not None else list(self.names)

    def resolve(self, topics: Iterable[str]) -> frozenset[str]:
        """The given topics that the member reads."""
        if self.pattern is None:
            return frozenset(self.names).intersection(topics)
        return frozenset(topic for topic in topics if self._fits(topic))

    def missing(self, topics: Iterable[str]) -> list[str]:
        """The names that no topic has. A pattern misses nothing: it waits for what may come."""
        there = frozenset(topics)
        return [name for name in self.names if name not in there]

    def _fits(self, topic: str) -> bool:
        assert self.pattern is not None
        if topic.startswith(INTERNAL_PREFIX) and not self.pattern.startswith(INTERNAL_PREFIX):
            return False
        if topic.endswith(DEAD_LETTER_SUFFIX) and not self.pattern.endswith(DEAD_LETTER_SUFFIX):
            return False
        return self._expression.match(topic) is not None

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        assert self.pattern is not None
        return re.compile(translate(self.pattern))


def _checked_pattern(pattern: str) -> str:
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise InvalidName(
            f"pattern {shortened(pattern)} has {len(pattern)} characters; use {PATTERN_LENGTH_MAX} at most"
        )
    if not _PATTERN_SHAPE.fullmatch(pattern):
        raise InvalidName(
            f"pattern {shortened(pattern)} has characters that no name has; "
            f"beside those of names it may hold '*', '?' and '[...]'"
        )
    return pattern


def _checked_names(asked: list[object] | tuple[object, ...]) -> tuple[str, ...]:
    if not 1 <= len(asked) <= TOPICS_MAX:
        raise InvalidName(f"a subscription names 1 to {TOPICS_MAX:,} topics, not {len(asked):,}; or use a pattern")
    return tuple(sorted({_checked_name(name) for name in asked}))


def _checked_name(name: object) -> str:
    if isinstance(name, str) and _WILD & set(name):
        raise InvalidName(f"{shortened(name)} in a list is a pattern; subscribe to names, or to one pattern alone")
    return check_topic_name(name, by_broker=True)

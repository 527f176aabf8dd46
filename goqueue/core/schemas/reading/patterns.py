"""The patterns of a schema, and what they cost.

The engine is linear: it never tries the same again. But its steps for each character grow with the size of the
compiled pattern, and so does the time that it takes to compile it. No engine tells that size; the smallest limit
under which a pattern compiles does, as a power of two.

A pattern that is tied to the beginning of a text, and matches no text of any length, is done with a long text after
a few characters. All others may read a text to its end.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import jsonschema_rs

from goqueue.core.schemas.reading.documents import Documents, Place
from goqueue.core.schemas.reading.refusing import refused

SIZES = tuple(1 << exponent for exponent in range(8, 21))
"""Limits that are tried, in bytes."""
PATTERN_SIZE_MAX = SIZES[-1]
PATTERNS_SIZE_MAX = PATTERN_SIZE_MAX
"""Limit of all patterns of a schema together. To compile as much takes about 15 ms."""
SIZE_PER_CHARACTER = 16
"""A character of a long pattern takes as much time to compile, whatever size comes of it."""
SIZE_PER_STEP = 16
"""The least that a compiled pattern needs for each character that it matches, in bytes."""

_ENDLESS = re.compile(r"\{\d+,\}")


@dataclass(frozen=True, slots=True)
class PatternCost:
    """Sizes are of compiled patterns, in bytes."""

    reading_on: int = 0
    """Those that may read a text to its end."""
    tied: int = 0
    """Those that are done after some characters."""
    tied_at_most: int = 0
    """The same, each times the characters after which it is done."""

    def __add__(self, other: "PatternCost") -> "PatternCost":
        return PatternCost(
            self.reading_on + other.reading_on, self.tied + other.tied, self.tied_at_most + other.tied_at_most
        )


class Patterns:
    """Each pattern is compiled on its own, and counts once."""

    def __init__(self) -> None:
        self._costs: dict[str, PatternCost] = {}
        self._compiling = 0

    def measure(self, documents: Documents) -> Generator[None, None, None]:
        """Raises `InvalidSchema` for a pattern that the engine does not take; yields after each one."""
        for place in documents.places:
            for keyword, pattern in patterns_at(place):
                if pattern not in self._costs:
                    self._note(pattern, _size(place, keyword, pattern))
                    yield

    def _note(self, pattern: str, size: int) -> None:
        tied = is_tied(pattern)
        self._costs[pattern] = PatternCost(0, size, size * size // SIZE_PER_STEP) if tied else PatternCost(size)
        self._compiling += max(size, SIZE_PER_CHARACTER * len(pattern))
        if self._compiling > PATTERNS_SIZE_MAX:
            raise refused("#", f"its patterns have more than {PATTERNS_SIZE_MAX:,} bytes, compiled; split it")

    def cost_at(self, place: Place) -> PatternCost:
        """The cost of those that a value is matched with here, or the names of its properties are."""
        return sum((self._costs[pattern] for _, pattern in patterns_at(place)), PatternCost())


def patterns_at(place: Place) -> Iterator[tuple[str, str]]:
    if isinstance(place.schema, dict):
        pattern = place.schema.get("pattern")
        if isinstance(pattern, str):
            yield "pattern", pattern
        named = place.schema.get("patternProperties")
        if isinstance(named, dict):
            yield from (("patternProperties", name) for name in named)


def is_tied(pattern: str) -> bool:
    """It begins where the text begins, and ends after so many characters. When in doubt, it does not."""
    if not pattern.startswith("^"):
        return False
    at, is_in_class = 1, False
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif is_in_class:
            is_in_class = character != "]"
        elif character in "*+|" or _ENDLESS.match(pattern, at) or _is_special_group(pattern, at):
            return False
        else:
            is_in_class = character == "["
        at += 1
    return True


def _is_special_group(pattern: str, at: int) -> bool:
    """It may change what `^` means."""
    return pattern.startswith("(?", at) and not pattern.startswith("(?:", at)


def _size(place: Place, keyword: str, pattern: str) -> int:
    for size in SIZES:
        options = jsonschema_rs.RegexOptions(size_limit=size)
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options, offline=True)
        except jsonschema_rs.ValidationError:
            continue
        return size
    raise refused(
        f"{place.path}/{keyword}",
        f"the pattern {pattern} is not for a linear engine: look-around and references back are not supported, "
        f"nor patterns of more than {PATTERN_SIZE_MAX:,} bytes, compiled",
    )

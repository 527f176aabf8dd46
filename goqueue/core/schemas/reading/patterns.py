"""The patterns of a schema, and how large each of them is once it is compiled.

The engine is linear: it never tries the same again. But its steps for each character grow with the size of the
pattern, and so does the time that it takes to compile it. No engine tells the size; the smallest limit under which
a pattern compiles does, as a power of two.
"""

from collections.abc import Generator, Iterator

import jsonschema_rs

from goqueue.core.schemas.reading.documents import Documents, Place
from goqueue.core.schemas.reading.refusing import refused

SIZES = tuple(1 << exponent for exponent in range(10, 21))
"""Limits that are tried, in bytes."""
PATTERN_SIZE_MAX = SIZES[-1]
PATTERNS_SIZE_MAX = PATTERN_SIZE_MAX
"""Limit of all patterns of a schema together. To compile as much takes about 15 ms."""
SIZE_PER_CHARACTER = 16
"""A character of a long pattern takes as much time to compile, whatever size comes of it."""


class PatternSizes:
    """Each pattern is compiled on its own, and counts once."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def measure(self, documents: Documents) -> Generator[None, None, None]:
        """Raises `InvalidSchema` for a pattern that the engine does not take; yields after each one."""
        for place in documents.places:
            for keyword, pattern in patterns_at(place):
                if pattern not in self._sizes:
                    self._sizes[pattern] = _size(place, keyword, pattern)
                    yield
        if sum(map(_time_to_compile, self._sizes.items())) > PATTERNS_SIZE_MAX:
            raise refused("#", f"its patterns have more than {PATTERNS_SIZE_MAX:,} bytes, compiled; split it")

    def size_at(self, place: Place) -> int:
        """The patterns that a value is matched with here, or the names of its properties are."""
        return sum(self._sizes[pattern] for _, pattern in patterns_at(place))


def patterns_at(place: Place) -> Iterator[tuple[str, str]]:
    if isinstance(place.schema, dict):
        pattern = place.schema.get("pattern")
        if isinstance(pattern, str):
            yield "pattern", pattern
        named = place.schema.get("patternProperties")
        if isinstance(named, dict):
            yield from (("patternProperties", name) for name in named)


def _time_to_compile(item: tuple[str, int]) -> int:
    """As the size of a pattern that takes as long."""
    pattern, size = item
    return max(size, SIZE_PER_CHARACTER * len(pattern))


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

"""Whether a pattern of `patternProperties` matches a property's name, where that can be told quickly.

Patterns come from strangers, and Python's `re` may backtrack for hours. So only plain ones are tried: no groups
that repeat, no look-around, no back-references, no escape whose meaning differs between dialects, and not more
repetitions than a short name permits. Of all others nobody knows: the comparison is then on the safe side.
"""

import re
from functools import lru_cache

NAME_MAX = 256
EFFORT_MAX = 20_000
"""Limit of the steps that backtracking may take: the name's length to the power of the repetitions."""

_ESCAPES = frozenset("dDwWsS.\\/-[](){}+*?^$|_")
_REPEATING = frozenset("*+?{")
_OF_OTHER_DIALECTS = ("[[", "[^[", "[]", "[^]", "&&", "--", "~~", "||", ")*", ")+", ")?", "){", "(?", "$\n")


def matches(pattern: str, name: str) -> bool | None:
    """None: that cannot be told."""
    plain = _plain(pattern)
    if plain is None or len(name) > NAME_MAX or not (name.isascii() and name.isprintable()):
        return None
    expression, repetitions = plain
    if (len(name) + 1) ** (repetitions + (not pattern.startswith("^"))) > EFFORT_MAX:
        return None
    return expression.search(name) is not None


@lru_cache(maxsize=256)
def _plain(pattern: str) -> tuple[re.Pattern[str], int] | None:
    """The expression, and how many repetitions it has."""
    if len(pattern) > NAME_MAX or any(each in pattern for each in _OF_OTHER_DIALECTS) or not pattern.isascii():
        return None
    escaped = re.findall(r"\\(.?)", pattern, re.DOTALL)
    if not _ESCAPES.issuperset(escaped):
        return None
    bare = re.sub(r"\\.", "", pattern, flags=re.DOTALL)
    try:
        return re.compile(pattern, re.ASCII), sum(each in _REPEATING for each in bare)
    except (re.error, OverflowError):
        return None

"""A schema's text as JSON, bounded before it is parsed.

The text was read once before, strictly (`core/schemas/text`). Here it is parsed for the validator, by a parser that
cannot be interrupted and to which small objects cost far more than their bytes. So brackets are counted first.
"""

from collections.abc import Generator
from typing import Any

import orjson

from goqueue.core.schemas.reading.refusing import refused
from goqueue.core.schemas.text import DEPTH_MAX

CONTAINERS_MAX = 10_000
"""Limit of the objects and arrays in a schema. To compile as many takes some 10 ms, and cannot be interrupted."""
MEMBERS_MAX = 60_000
"""Limit of the commas in a schema, and so of the values in an `enum`."""
WALKED_AT_ONCE = 500


def parsed(text: str) -> Generator[None, None, Any]:
    """What the text says. Raises `InvalidSchema`; yields after each small piece of work."""
    if text.count("{") + text.count("[") > CONTAINERS_MAX or text.count(",") > MEMBERS_MAX:
        raise refused(
            "#", f"more than {CONTAINERS_MAX:,} objects and arrays, or {MEMBERS_MAX:,} values; split the schema"
        )
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise refused("#", f"no JSON: {error}") from None
    yield
    yield from _check_depth(value)
    return value


def _check_depth(value: Any) -> Generator[None, None, None]:
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        inner: list[Any] = []
        for walked, each in enumerate(level, 1):
            inner.extend(each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
            if walked % WALKED_AT_ONCE == 0:
                yield
        if not inner:
            return
        level = inner
    raise refused("#", f"nested more than {DEPTH_MAX} levels deep; give the inner ones a name in $defs")

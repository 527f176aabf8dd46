"""A schema's text as JSON, bounded before it is parsed.

A parser cannot be interrupted, and small objects cost it far more than their bytes: so brackets are counted first.
"""

import re
from collections.abc import Generator
from typing import Any

import orjson

from goqueue.core.schemas.reading.refusing import refused
from goqueue.errors import InvalidSchema

SCHEMA_SIZE_MAX = 1024 * 1024
TOO_LARGE = 42209
"""The number of the registry's error for a schema beyond `SCHEMA_SIZE_MAX`."""
CONTAINERS_MAX = 10_000
"""Limit of the objects and arrays in a schema. Compiling as many takes about 10 ms."""
MEMBERS_MAX = 60_000
"""Limit of the commas in a schema, and so of the values in an `enum`."""
DEPTH_MAX = 128
WALKED_AT_ONCE = 500

_STRING = re.compile(rb'"[^"]*"')


def parsed(text: str) -> Generator[None, None, Any]:
    """What the text says. Raises `InvalidSchema`; yields after each small piece of work."""
    data = _encoded(text)
    if data.count(b"{") + data.count(b"[") > CONTAINERS_MAX or data.count(b",") > MEMBERS_MAX:
        raise refused(
            "#", f"more than {CONTAINERS_MAX:,} objects and arrays, or {MEMBERS_MAX:,} values; split the schema"
        )
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise refused("#", f"no JSON: {error}") from None
    yield
    members = yield from _count_members(value)
    if _colons(data) != members:
        raise refused("#", "an object has the same member twice, and only one of them would count; remove one")
    return value


def _colons(data: bytes) -> int:
    """Those between names and values."""
    without_escapes = data.replace(rb"\\", b"").replace(rb"\"", b"")
    return _STRING.sub(b"", without_escapes).count(b":")


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise refused("#", "the text has lone surrogates, which UTF-8 cannot hold") from None
    if len(data) > SCHEMA_SIZE_MAX:
        raise InvalidSchema(
            f"the schema has {len(data):,} bytes; {SCHEMA_SIZE_MAX:,} are allowed, split it", error_code=TOO_LARGE
        )
    return data


def _count_members(value: Any) -> Generator[None, None, int]:
    """The members of all objects; refused when the nesting is too deep."""
    members = 0
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        inner: list[Any] = []
        for walked, each in enumerate(level):
            if isinstance(each, dict):
                members += len(each)
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
            if walked % WALKED_AT_ONCE == WALKED_AT_ONCE - 1:
                yield
        if not inner:
            return members
        level = inner
    raise refused("#", f"nested more than {DEPTH_MAX} levels deep; give the inner ones a name in $defs")

"""Reading the text of a schema, and when two schemas are the same.

A text is read strictly: JSON as RFC 8259 has it, no member named twice, no NaN, no half of a surrogate pair, within
the bounds below. What cannot be read so is refused, since readers would not agree on what it says.

Two schemas are the same when their JSON is equal with members in the same order, and so are their references,
metadata and rule sets. White space does not count, nor how a number or a character is written. Normalized, the
order of members and references does not count either. Both kinds of sameness are kept as digests (SHA-256), so that
whole texts need not be compared.
"""

import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DecimalException
from hashlib import sha256
from typing import Any, NoReturn, TypeAlias, TypeVar
from uuid import UUID

from goqueue.core.schemas.schema import Schema
from goqueue.core.schemas.subjects import canonical
from goqueue.errors import InvalidSchema

TEXT_SIZE_MAX = 1024 * 1024
EXTRAS_SIZE_MAX = 64 * 1024
"""Limit of the metadata, and of the rule set."""
DEPTH_MAX = 128
NODES_MAX = 20_000
"""Limit of the values in a text: objects, arrays, and what is in them."""
NUMBER_LENGTH_MAX = 1_000
EXPONENT_MAX = 307
"""Every number is one that a double can hold, if not to its last digit."""
INVALID_SCHEMA, SCHEMA_TOO_LARGE = 42201, 42209

Json: TypeAlias = Any
ResultT = TypeVar("ResultT")

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_ESCAPES = re.compile(r"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F])", re.DOTALL)
_NUMBER_MARK = "\ud800"
"""Half of a surrogate pair opens what stands for a number. No text has it, so no number is taken for a text."""


@dataclass(frozen=True, slots=True)
class SchemaContent:
    """A schema that was read, and what it is the same as."""

    schema: Schema
    digest: bytes
    """The digest of the JSON with its members in order, and of all that belongs to it."""
    normal: bytes
    """The same of its normal form: members and references sorted."""

    @property
    def guid(self) -> UUID:
        return guid_of(self.digest)


def guid_of(digest: bytes) -> UUID:
    """The same schema has the same one on every node. Version 8 is for contents of one's own."""
    head = bytearray(digest[:16])
    head[6], head[8] = head[6] & 0x0F | 0x80, head[8] & 0x3F | 0x80
    return UUID(bytes=bytes(head))


def read_schema(schema: Schema) -> SchemaContent:
    """`InvalidSchema` when the text, the metadata or the rule set cannot be read."""
    return finished(reading(schema))


def reading(schema: Schema) -> Generator[None, None, SchemaContent]:
    """The same, in steps of some milliseconds."""
    parts = [
        (yield from _reading("schema", schema.text, TEXT_SIZE_MAX)),
        (yield from _reading("metadata", schema.metadata, EXTRAS_SIZE_MAX, dict)),
        (yield from _reading("rule set", schema.rule_set, EXTRAS_SIZE_MAX, dict)),
    ]
    references = [[each.name, canonical(each.subject), each.version] for each in schema.references]
    digest = _digest([schema.type.value, parts, references])
    yield
    normal = _digest([schema.type.value, parts, sorted(references)], sort_keys=True)
    return SchemaContent(schema, digest, normal)


def finished(steps: Generator[None, None, ResultT]) -> ResultT:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: ResultT = end.value
            return result


def _digest(whole: Json, *, sort_keys: bool = False) -> bytes:
    packed = json.dumps(whole, separators=(",", ":"), sort_keys=sort_keys)
    return sha256(packed.encode()).digest()


def _reading(name: str, text: str | None, size_max: int, kind: type | None = None) -> Generator[None, None, Json]:
    """Numbers are marked texts in it, so that equal ones are equal however they are written."""
    if text is None:
        return None
    _check_size(name, text, size_max)
    yield
    _check_count(name, text)
    yield
    found = _parsed(name, text)
    yield
    _check_tree(name, found)
    if kind is not None and type(found) is not kind:
        raise invalid(f"the {name} is a JSON object, not {type(found).__name__}")
    yield
    return found


def _parsed(name: str, text: str) -> Json:
    try:
        return json.loads(
            text, parse_float=_number, parse_int=_number, parse_constant=_constant, object_pairs_hook=_members
        )
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError as error:
        raise invalid(f"the {name} is no JSON that can be read: {error}; correct its text") from error


def _check_size(name: str, text: str, size_max: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _half_pair(name) from None
    if size > size_max:
        raise InvalidSchema(
            f"the {name} has {size:,} bytes, and may have {size_max:,}; move parts of it to subjects of their own, "
            "and refer to them",
            error_code=SCHEMA_TOO_LARGE,
        )
    if any(found[1] for found in _ESCAPES.finditer(text)):
        raise _half_pair(name)


def _check_count(name: str, text: str) -> None:
    """Before the text is read, so that reading it is bounded. Each comma and each bracket is one value at least."""
    if text.count(",") <= NODES_MAX and text.count("[") + text.count("{") <= NODES_MAX:
        return
    outside = _STRING.sub("", text)
    if max(outside.count(","), outside.count("[") + outside.count("{")) > NODES_MAX:
        raise _too_many(name)


def _check_tree(name: str, tree: Json) -> None:
    level, count, depth = [tree], 1, 0
    while level := [child for each in level for child in children_of(each)]:
        depth, count = depth + 1, count + len(level)
        if depth > DEPTH_MAX:
            raise _too_deep(name)
        if count > NODES_MAX:
            raise _too_many(name)


def children_of(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object names its member {twice[:100]!r} twice")
    return members


def _number(text: str) -> str:
    if len(text) > NUMBER_LENGTH_MAX:
        raise ValueError(f"a number has {len(text):,} digits")
    try:
        value = Decimal(text).normalize(_EXACT)
    except DecimalException:
        raise ValueError("the exponent of a number is too large") from None
    if value and abs(value.adjusted()) > EXPONENT_MAX:
        raise ValueError("a number is too large or too small to be computed with")
    return _NUMBER_MARK + (str(value) if value else "0")


_EXACT = Context(prec=NUMBER_LENGTH_MAX, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def invalid(text: str) -> InvalidSchema:
    return InvalidSchema(text, error_code=INVALID_SCHEMA)


def _half_pair(name: str) -> InvalidSchema:
    return invalid(f"the {name} has half of a surrogate pair, which is no character; correct its text")


def _too_deep(name: str) -> InvalidSchema:
    return invalid(f"the {name} is nested more than {DEPTH_MAX} deep; define its parts beside each other")


def _too_many(name: str) -> InvalidSchema:
    return invalid(f"the {name} has more than {NODES_MAX:,} values; move parts of it to subjects of their own")

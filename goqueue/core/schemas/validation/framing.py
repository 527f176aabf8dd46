"""Which version of its subject's schema a key or a value names, and where its JSON begins.

Confluent's serializers put the schema's id before the JSON: a byte 0 and four bytes, big-endian; or its guid into a
header: a byte 1 and sixteen bytes. Their deserializers take both forms in both places, and so does this. Header
`schema-id` is ours: decimal text, for values.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

from goqueue.core.schemas.schema import SchemaId

SchemaName: TypeAlias = SchemaId | UUID

SCHEMA_ID_HEADER = "schema-id"
VALUE_SCHEMA_HEADER = "__value_schema_id"
KEY_SCHEMA_HEADER = "__key_schema_id"
BY_ID, BY_GUID = 0, 1
"""What a prefix begins with. No JSON begins so."""
_ID_SIZE, _GUID_SIZE = 1 + 4, 1 + 16
_ID_DIGITS_MAX = 10


class WrongFraming(ValueError):
    """The text says what is wrong, and nothing of the value."""


class Framed(NamedTuple):
    name: SchemaName | None
    """None: the newest one is meant."""
    payload: bytes


def named_by_headers(headers: Mapping[str, bytes], *, is_key: bool) -> SchemaName | None:
    """`schema-id` goes before Confluent's header."""
    if not is_key and SCHEMA_ID_HEADER in headers:
        return _decimal(headers[SCHEMA_ID_HEADER])
    header = KEY_SCHEMA_HEADER if is_key else VALUE_SCHEMA_HEADER
    if header not in headers:
        return None
    name, size = _prefix(headers[header], f"header {header}")
    if size != len(headers[header]):
        raise WrongFraming(f"header {header} has {len(headers[header])} bytes instead of {size}")
    return name


def unframed(data: bytes) -> Framed:
    if data[:1] not in (b"\x00", b"\x01"):
        return Framed(None, data)
    name, size = _prefix(data, "the prefix")
    return Framed(name, data[size:])


def header_of(schema_id: SchemaId) -> dict[str, bytes]:
    """As producers name the schema of a value."""
    return {SCHEMA_ID_HEADER: b"%d" % schema_id}


def prefix_of(schema_id: SchemaId) -> bytes:
    return b"\x00" + schema_id.to_bytes(_ID_SIZE - 1, "big")


def _prefix(data: bytes, where: str) -> tuple[SchemaName, int]:
    if data[:1] == b"\x00" and len(data) >= _ID_SIZE:
        return int.from_bytes(data[1:_ID_SIZE], "big"), _ID_SIZE
    if data[:1] == b"\x01" and len(data) >= _GUID_SIZE:
        return UUID(bytes=bytes(data[1:_GUID_SIZE])), _GUID_SIZE
    raise WrongFraming(f"{where} is no schema id: a byte 0 and four bytes, or a byte 1 and a guid of sixteen")


def _decimal(data: bytes) -> SchemaId:
    if not data.isdigit() or len(data) > _ID_DIGITS_MAX:
        raise WrongFraming(f"header {SCHEMA_ID_HEADER} is no decimal number")
    return int(data)

"""Which version of its schema a message names, and where its JSON begins: as the broker reads it
(goqueue/core/schemas/validation/framing.py), in expressions that Spark compiles.

A name is text: an id in decimal, or a guid as 32 hexadecimal digits. A message whose header and prefix name two
schemas has both, with a blank between: an id and a guid may be of one schema. What is no name begins with a !, and
says what is wrong.
"""

from typing import TYPE_CHECKING
from uuid import UUID

from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's own pages do)

from goqueue.core.schemas.schema import SchemaId
from goqueue.core.schemas.validation.framing import SCHEMA_ID_HEADER, VALUE_SCHEMA_HEADER

if TYPE_CHECKING:
    from pyspark.sql import Column

FAULT = "!"
BY_ID, BY_GUID = "00", "01"
"""The first byte of a prefix, in hexadecimal."""
ID_SIZE, GUID_SIZE = 1 + 4, 1 + 16
_REST = 2**31 - 1


def names_of(schema_id: SchemaId, guid: UUID) -> tuple[str, ...]:
    """All names under which messages may name it."""
    known = str(schema_id), guid.hex
    return (*known, " ".join(known), " ".join(reversed(known)))


def named(headers: "Column", value: "Column") -> "Column":
    """Null where a message names no version."""
    by_header, by_prefix = _named_by_headers(headers), _named_by_prefix(value)
    return (
        F.when(by_header.startswith(FAULT), by_header)
        .when(by_prefix.startswith(FAULT), by_prefix)
        .when(by_header != by_prefix, F.concat_ws(" ", by_header, by_prefix))
        .otherwise(F.coalesce(by_header, by_prefix))
    )


def payload(value: "Column") -> "Column":
    """The value without a prefix."""
    first = F.hex(F.substring(value, 1, 1))
    by_id, by_guid = F.substring(value, ID_SIZE + 1, _REST), F.substring(value, GUID_SIZE + 1, _REST)
    return F.when(first == BY_ID, by_id).when(first == BY_GUID, by_guid).otherwise(value)


def fault_of(name: "Column", subject: str) -> "Column":
    """Why a message with this name cannot be read; the same for all ids, as there may be a million."""
    return (
        F.when(name.startswith(FAULT), F.substring(name, 2, _REST))
        .when(name.contains(" "), F.lit("the header and the prefix name different schemas"))
        .otherwise(F.lit(f"it names a schema that is no version of subject {subject}"))
    )


def _named_by_headers(headers: "Column") -> "Column":
    ours, theirs = _header(headers, SCHEMA_ID_HEADER), _header(headers, VALUE_SCHEMA_HEADER)
    return F.when(ours.isNotNull(), _decimal(ours)).when(theirs.isNotNull(), _whole_prefix(theirs))


def _header(headers: "Column", name: str) -> "Column":
    return F.get(F.filter(headers, lambda each: each["key"] == name), F.lit(0))["value"]


def _decimal(data: "Column") -> "Column":
    text = data.cast("string")
    spelt = F.when(text.rlike(r"\A[0-9]{1,10}\z"), text.cast("long").cast("string"))
    return F.coalesce(spelt, F.lit(f"{FAULT}header {SCHEMA_ID_HEADER} is no decimal number"))


def _whole_prefix(data: "Column") -> "Column":
    size, found = F.length(data), _named_by_prefix(data)
    first = F.hex(F.substring(data, 1, 1))
    is_whole = ((first == BY_ID) & (size == ID_SIZE)) | ((first == BY_GUID) & (size == GUID_SIZE))
    return F.when(is_whole, found).otherwise(F.lit(f"{FAULT}header {VALUE_SCHEMA_HEADER} is no schema id"))


def _named_by_prefix(data: "Column") -> "Column":
    head, size = F.hex(F.substring(data, 1, GUID_SIZE)), F.length(data)
    by_id, by_guid = head.startswith(BY_ID), head.startswith(BY_GUID)
    return (
        F.when(by_id & (size >= ID_SIZE), F.conv(F.substring(head, 3, 8), 16, 10))
        .when(by_guid & (size >= GUID_SIZE), F.lower(F.substring(head, 3, 32)))
        .when(by_id | by_guid, F.lit(f"{FAULT}the prefix is no schema id"))
    )

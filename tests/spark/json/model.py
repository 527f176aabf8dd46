"""Whether a message fits a schema, read plainly: what Spark's expressions are compared with."""

import json
import re
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from goqueue.spark.json.columns import DATE, DATE_TIME

Schema = dict[str, Any]


def fits(schema: Schema, value: bytes | None) -> bool:
    if value is None:
        return False
    try:
        document = json.loads(
            value.decode(), object_pairs_hook=_each_once, parse_float=Decimal, parse_constant=_no_constant
        )
        value.decode().encode()
        json.dumps(document, default=str, ensure_ascii=False).encode()  # a lone surrogate is no text
    except ValueError:
        return False
    return not value.startswith(b"\xef\xbb\xbf") and _fits(schema, schema, document)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _fits(root: Schema, schema: Any, value: Any) -> bool:
    if schema is True:
        return True
    if "$ref" in schema:
        return _fits(root, root["$defs"][schema["$ref"].rpartition("/")[2]], value)
    if "oneOf" in schema:
        return any(_fits(root, each, value) for each in schema["oneOf"])
    types = schema.get("type", [])
    types = types if isinstance(types, list) else [types]
    if types and not any(_is(name, value) for name in types):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str):
        return _fits_string(schema, value)
    if isinstance(value, dict):
        return _fits_object(root, schema, value)
    if isinstance(value, list):
        count = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1 << 31)
        return count and all(_fits(root, schema.get("items", True), each) for each in value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _fits_number(schema, value)
    return True


def _is(name: str, value: Any) -> bool:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "string": isinstance(value, str),
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "number": is_number and isfinite(_as_float(value)),
        "integer": is_number and isfinite(_as_float(value)) and value == int(value) and -(2**63) <= value < 2**63,
    }[name]


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except (OverflowError, TypeError):
        return float("inf")


def _fits_number(schema: Schema, value: Any) -> bool:
    number = int(value) if schema.get("type") == "integer" else float(value)
    return (
        number >= schema.get("minimum", number)
        and number <= schema.get("maximum", number)
        and not ("exclusiveMinimum" in schema and number <= schema["exclusiveMinimum"])
        and not ("exclusiveMaximum" in schema and number >= schema["exclusiveMaximum"])
        and not ("multipleOf" in schema and number % schema["multipleOf"])
    )


def _fits_string(schema: Schema, value: str) -> bool:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 31):
        return False
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return False
    if schema.get("format") == "date":
        return bool(re.fullmatch(DATE[1:-1], value)) and _exists(date.fromisoformat, value)
    if schema.get("format") == "date-time":
        return bool(re.fullmatch(DATE_TIME[1:-1], value)) and _is_time(value.upper())
    return True


def _is_time(value: str) -> bool:
    """Offsets go to 23:59, as RFC 3339 has them."""
    hours, minutes = (0, 0) if value.endswith("Z") else (int(value[-5:-3]), int(value[-2:]))
    return _exists(datetime.fromisoformat, value[:19]) and hours < 24 and minutes < 60


def _exists(read: Any, value: str) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _fits_object(root: Schema, schema: Schema, value: dict[str, Any]) -> bool:
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    if any(name not in value for name in schema.get("required", ())):
        return False
    for name, each in value.items():
        if name not in properties and rest is False:
            return False
        if not _fits(root, properties.get(name, rest), each):
            return False
    return True

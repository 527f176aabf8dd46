"""Parses a line of input: a message, or the reason why it is none.

A message is a dict of the arguments of `producer.send`, so a new argument is one name more in `OPTIONS`.
"""

import json
from base64 import b64decode
from reprlib import repr as shortened
from typing import Any

from goqueue.cli.program.times import LENGTHS_ALLOWED, length_of
from goqueue.errors import InvalidMessage

OPTIONS = ("priority", "partition", "delay", "deliver_at", "ttl", "message_id")
"""Fields that are passed to the producer unchanged."""
LENGTHS = ("delay", "ttl")
"""Fields that are lengths of time: seconds, or text with a unit."""
FIELDS = {"key", "key_base64", "value", "value_base64", "headers", *OPTIONS}
PASSED_OVER = {"topic", "offset", "timestamp"}
"""Fields that `consume` writes and that a new message gets anew."""


def message_in_line(line: bytes, separator: bytes | None) -> dict[str, Any]:
    if separator is None:
        return {"value": line}
    key, found, value = line.partition(separator)
    if not found:
        raise InvalidMessage(f"has no key: {separator.decode(errors='replace')!r} does not occur in it")
    return {"key": key or None, "value": value}


def message_in_json(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise InvalidMessage('is not an object like {"value": "text"}')
    if unknown := sorted(set(fields) - FIELDS - PASSED_OVER):
        raise InvalidMessage(f"{unknown[0]!r} is not a field; there are {', '.join(sorted(FIELDS))}")
    content = {"key": _bytes_of(fields, "key"), "value": _bytes_of(fields, "value"), "headers": _headers_of(fields)}
    if content["value"] is None and "value" not in fields:
        raise InvalidMessage("has neither value nor value_base64")
    if content["value"] is None and not content["key"]:
        raise InvalidMessage(
            'without a value it is a tombstone, which deletes a key; give "key", or "" as the value'
        )
    return content | {name: _option(name, fields[name]) for name in OPTIONS if fields.get(name) is not None}


def _option(name: str, value: object) -> object:
    if name not in LENGTHS or not isinstance(value, str):
        return value
    seconds = length_of(value)
    if seconds is None:
        raise InvalidMessage(f"{name} is {shortened(value)}; give {LENGTHS_ALLOWED}")
    return seconds


def _bytes_of(fields: dict[str, Any], name: str) -> bytes | None:
    text, encoded = fields.get(name), fields.get(f"{name}_base64")
    if text is not None and encoded is not None:
        raise InvalidMessage(f"has both {name} and {name}_base64")
    return _encoded(name, text) if encoded is None else _decoded(f"{name}_base64", encoded)


def _headers_of(fields: dict[str, Any]) -> dict[str, bytes]:
    headers = fields.get("headers") or {}
    if not isinstance(headers, dict):
        raise InvalidMessage("headers are an object of names and texts")
    return {name: _header(name, value) for name, value in headers.items()}


def _header(name: str, value: object) -> bytes:
    if isinstance(value, dict) and set(value) == {"base64"}:
        return _decoded(f"header {name}", value["base64"])
    encoded = _encoded(f"header {name}", value)
    if encoded is None:
        raise InvalidMessage(f"header {name} is null; give text")
    return encoded


def _encoded(name: str, text: object) -> bytes | None:
    if text is None:
        return None
    try:
        return text.encode()  # type: ignore[attr-defined, no-any-return]
    except (AttributeError, UnicodeEncodeError):
        raise InvalidMessage(f"{name} is {_kind_of(text)}; {_instead(name, text)}") from None


def _kind_of(value: object) -> str:
    if isinstance(value, str):
        return "no text that UTF-8 can hold"
    kinds = {dict: "an object", list: "a list", bool: "true or false"}
    return f"{kinds.get(type(value), 'a number')}, not text"


def _instead(name: str, value: object) -> str:
    if isinstance(value, str):
        return f'give its bytes as "{name}_base64"' if name in ("key", "value") else 'give {"base64": "…"}'
    return "put its JSON into quotes, as a string"


def _decoded(name: str, encoded: object) -> bytes:
    try:
        return b64decode(encoded, validate=True)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise InvalidMessage(f"{name} is not base64") from None

"""Reads queries and JSON bodies into models.

A bound in bytes alone would let a small hostile body stop the broker: a mebibyte of tiny objects takes fifty times
as long to parse as one of honest messages. So brackets and braces are counted first, which costs next to nothing.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from goqueue.http.routing.route import NDJSON, OCTETS, Model
from goqueue.http.server.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from goqueue.http.server.exchange import JSON
from goqueue.http.server.machine import Head

JSON_SIZE_MAX = 4 * 1024 * 1024
BRACKETS_MAX = 50_000
FAULTS_MAX = 5
"""Limit of the faults that one refusal names."""
CURE = f"send fewer messages at a time, or each on a line of its own ({NDJSON}), or a large value as {OCTETS}"
SCHEMA_CURE = "split the schema, and let its parts refer to each other"
ModelT = TypeVar("ModelT", bound=Model)


def parse_json(data: bytes, cure: str = CURE) -> Any:
    if data.count(b"{") + data.count(b"[") > BRACKETS_MAX:
        raise BodyTooLarge(
            f"the body has more than {BRACKETS_MAX:,} brackets and braces; {cure}", limit=BRACKETS_MAX
        )
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None


def read_model(model: type[ModelT], values: Any, *, of_query: bool = False) -> ModelT:
    """Text of a query becomes the number or the truth that its field wants; JSON has its own types."""
    if not isinstance(values, Mapping):
        raise InvalidRequest(f"the body is an object, not {type(values).__name__}")
    try:
        return model.model_validate(values, strict=None if of_query else True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        named = faults[:FAULTS_MAX]
        more = f"; and {len(faults) - FAULTS_MAX} more" if len(faults) > FAULTS_MAX else ""
        raise InvalidRequest("; ".join(map(_fault, named)) + more, fields=list(map(_place, named))) from None


def _fault(fault: Any) -> str:
    place = _place(fault)
    if fault["type"] == "extra_forbidden":
        return f"there is no field {place!r} here"
    if fault["type"] == "missing":
        return f"{place} is missing"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{place}: {message[:1].lower()}{message[1:]}" if place else message


def _place(fault: Any) -> str:
    return ".".join(str(each) for each in fault["loc"])


def media_type(head: Head) -> str:
    """Without its parameters."""
    values = head.values(b"content-type")
    return values[0].decode("latin-1").partition(";")[0].strip().lower() if values else ""


def check_encoding(head: Head) -> None:
    if head.values(b"content-encoding"):
        raise UnsupportedMediaType("bodies are not compressed here; leave out Content-Encoding")


def check_media_type(head: Head, takes: tuple[str, ...]) -> None:
    """Pages of other sites can send forms and plain text without being asked; no route takes these."""
    given = media_type(head)
    if given in takes:
        return
    said = given or "no content type"
    if given.startswith("application/vnd.kafka."):
        raise UnsupportedMediaType(
            f"{given} is Kafka's; goqueue takes POST /topics/{{topic}}/messages with {JSON} and"
            ' {"messages": [{"key": …, "value": …}]}'
        )
    raise UnsupportedMediaType(
        f"the request has {said}; send {' or '.join(takes)} as its Content-Type", takes=list(takes)
    )


__all__ = ["JSON", "JSON_SIZE_MAX", "check_encoding", "check_media_type", "media_type", "parse_json", "read_model"]

"""Reads queries and JSON bodies into models.

A bound in bytes alone would let a small hostile body stop the broker: a mebibyte of tiny objects takes fifty times
as long to parse as one of honest messages. So brackets and braces are counted first, which costs next to nothing.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from goqueue.core.records.jsonvalue import value_of_json
from goqueue.http.routing.route import NDJSON, OCTETS, Model
from goqueue.http.server.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from goqueue.http.server.exchange import JSON
from goqueue.http.server.machine import Head

JSON_SIZE_MAX = 4 * 1024 * 1024
BRACKETS_MAX = 50_000
FIELDS_MAX = 100
FAULTS_MAX = 5
"""Limit of the faults that one refusal names."""
CURE = f"send fewer messages at a time, or each on a line of its own ({NDJSON}), or a large value as {OCTETS}"
SCHEMA_CURE = "split the schema, and let its parts refer to each other"
UNKNOWN, MISSING = "is not known", "is missing"
EXACT_SIZE_MAX = 1024 * 1024
ModelT = TypeVar("ModelT", bound=Model)


def parse_json(data: bytes, what: str = "the body", cure: str = CURE) -> Any:
    if data.count(b"{") + data.count(b"[") > BRACKETS_MAX:
        raise BodyTooLarge(f"{what} has more than {BRACKETS_MAX:,} brackets and braces; {cure}", limit=BRACKETS_MAX)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"{what} is not JSON: {error}") from None


def parse_exactly(data: bytes, what: str = "the body") -> Any:
    """JSON that `parse_json` has read before, with whole numbers beyond 64 bits, which that one rounds. It takes
    ten times as long: so not for a long body."""
    if len(data) > EXACT_SIZE_MAX:
        raise InvalidRequest(
            f"{what} has numbers beyond 64 bits in a value_json; it has at most {EXACT_SIZE_MAX:,} bytes then. Send"
            " fewer messages at a time, or the JSON as text in `value`, which is stored as it is"
        )
    try:
        return value_of_json(data)
    except ValueError as error:
        raise InvalidRequest(f"{what} is not JSON: {error}") from None


def read_model(model: type[ModelT], values: Any, *, of_query: bool = False) -> ModelT:
    """Text of a query becomes the number or the truth that its field wants; JSON has its own types."""
    if not isinstance(values, Mapping):
        raise InvalidRequest(f"the body is an object, not {type(values).__name__}")
    if len(values) > FIELDS_MAX:
        raise InvalidRequest(f"there are {len(values):,} fields; no body or query here has as many")
    try:
        return model.model_validate(values, strict=None if of_query else True)
    except ValidationError as error:
        raise _refusal(error, values) from None


def _refusal(error: ValidationError, values: Mapping[str, Any]) -> InvalidRequest:
    """One sentence for each field: where it may be one thing or another, the faults as both stand in it."""
    faults: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False, include_context=False):
        faults.setdefault(_place(fault, values), []).append(_fault(fault))
    named = [_sentence(place, said) for place, said in islice(faults.items(), FAULTS_MAX)]
    more = f"; and {len(faults) - FAULTS_MAX} more" if len(faults) > FAULTS_MAX else ""
    return InvalidRequest("; ".join(named) + more, fields=list(faults)[:FAULTS_MAX])


def _sentence(place: str, said: Sequence[str]) -> str:
    if said == [UNKNOWN]:
        return f"there is no field {place!r} here"
    told = ", or ".join(said)
    return f"{place} {told}" if said == [MISSING] else f"{place}: {told}" if place else told


def _fault(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return UNKNOWN
    if fault["type"] == "missing":
        return MISSING
    message = fault["msg"].removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}"


def _place(fault: Any, values: Any) -> str:
    """The path of the field. What else stands in a fault's place names one of several types."""
    path = []
    for step in fault["loc"]:
        if isinstance(values, Mapping) and step in values:
            values = values[step]
        elif isinstance(values, list) and isinstance(step, int):
            values = values[step] if step < len(values) else None
        elif fault["type"] != "missing":
            continue
        path.append(str(step))
    return ".".join(path)


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

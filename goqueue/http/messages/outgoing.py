"""Messages in answers: each part as text where it is text that can be read, else as base64 under another name."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import orjson

from goqueue.client.consuming.delivery import LeasedMessage, ReceivedDelivery
from goqueue.client.reading.message import Message, stamp_of
from goqueue.http.routing.bytes import base64_of, key_in_json, text_of
from goqueue.http.routing.reading import BRACKETS_MAX
from goqueue.types import Priority

PRIORITY_NAMES = tuple(map(str, Priority))


class Form(Enum):
    """How values are shown, as the parameter `encoding` says."""

    AUTO = "auto"
    TEXT = "text"
    BASE64 = "base64"
    JSON = "json"


def message_in_json(message: Message, form: Form = Form.AUTO) -> dict[str, Any]:
    """Each part that is looked at costs as much as all of JSON: so they are read together."""
    timestamp, priority, key_size = stamp_of(message)
    shown: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": timestamp / 1_000_000,
    }
    if key_size:
        shown.update(key_in_json(message.key))
    value = message.value
    if form is Form.AUTO and value is not None and (text := text_of(value)) is not None:  # as most often
        shown["value"] = text
    else:
        shown.update(value_in_json(value, form))
    headers = message.headers
    shown["headers"] = {name: _header(content) for name, content in headers.items()} if headers else {}
    shown["priority"] = PRIORITY_NAMES[priority]
    return shown


def delivered_in_json(
    delivery: ReceivedDelivery, messages: Sequence[LeasedMessage], form: Form
) -> Iterator[dict[str, Any]]:
    """Messages of one delivery, each with the receipt that settles it."""
    for message, (attempt, receipt) in zip(messages, delivery.receipts_of(messages), strict=True):
        shown = message_in_json(message, form)
        shown["attempt"], shown["receipt"] = attempt, receipt
        yield shown


def value_in_json(value: bytes | None, form: Form) -> dict[str, Any]:
    """With `text` and `json`, a value that is neither comes as base64 all the same: nothing is lost or guessed."""
    if value is None:
        return {"value": None}
    if form is Form.JSON:
        return {"value_json": _fragment(value)} if _is_json(value) else {"value_base64": base64_of(value)}
    if form is Form.TEXT:
        try:
            return {"value": value.decode()}
        except UnicodeDecodeError:
            return {"value_base64": base64_of(value)}
    text = None if form is Form.BASE64 else text_of(value)
    return {"value_base64": base64_of(value)} if text is None else {"value": text}


def _fragment(value: bytes) -> orjson.Fragment:
    """On one line: where JSON is more than one, the line ends mean nothing, but they would end an event."""
    return orjson.Fragment(value.replace(b"\r", b" ").replace(b"\n", b" "))


def _is_json(value: bytes) -> bool:
    """Values come from strangers: one of a million brackets would stop the broker while it is parsed."""
    if value.count(b"{") + value.count(b"[") > BRACKETS_MAX:
        return False
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return False
    return True


def _header(value: bytes) -> Any:
    text = text_of(value)
    return {"base64": base64_of(value)} if text is None else text

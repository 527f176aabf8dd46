"""Messages that a request publishes: read from JSON, checked, and gathered by partition.

Most messages are a value, or a key and a value, as text: these are gathered without an object for each. All others
become a chunk of their own. A message that is wrong in itself is refused alone, and the others go on.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import orjson

from goqueue.client.producing.content import check_content
from goqueue.client.producing.options import SendPlan, send_options
from goqueue.core.records.jsonvalue import json_bytes
from goqueue.core.records.record import HEADERS_SIZE_MAX, KEY_SIZE_MAX
from goqueue.core.sending.chunk import Chunk, Content
from goqueue.core.sending.partitioner import Partitioner, partition_of_key
from goqueue.errors import GoQueueError, TooLarge
from goqueue.http.routing.bytes import bytes_of
from goqueue.http.server.errors import InvalidRequest
from goqueue.storage.slices import Slices
from goqueue.types import Microseconds

OTHER_NAMES = {"deliverAt": "deliver_at", "messageId": "message_id"}
OPTIONS = ("priority", "partition", "delay", "deliver_at", "ttl")
FIELDS = (
    *("value", "value_base64", "value_json", "key", "key_base64", "headers"),
    *(*OPTIONS, "message_id"),
)
KNOWN_FIELDS = frozenset({*FIELDS, *OTHER_NAMES})
HEADERS_MAX = 16_384
"""Limit of the headers of a message, before they are looked at; more never fit into their size."""
LARGE_NUMBER = re.compile(rb"(?:^|[:,\[])-?\d(?:\.\d+)?e\+?(?:19|[2-9]\d|\d{3})(?=[,\]}]|$)")
"""As whole numbers beyond 64 bits look when they were rounded."""
AT_ONCE = 100
"""Messages that are read before others may run. Those that are refused take the longest."""
VALUE_FIELDS, KEY_FIELDS = ("value", "value_base64", "value_json"), ("key", "key_base64")

Result: TypeAlias = dict[str, Any]
"""What became of a message, as the answer has it."""


@dataclass(slots=True)
class PartitionPortion:
    """The messages of one partition, in order."""

    content: Content
    chunks: list[Chunk] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    """The values of plain messages that are in no chunk yet."""
    keys: list[bytes | None] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    """Their message ids; either all have one or none has."""
    has_keys: bool = False

    def add(self, place: int, value: bytes, key: bytes | None, name: bytes | None) -> None:
        self.values.append(value)
        self.keys.append(key)
        self.places.append(place)
        if name is not None:
            self.names.append(name)
        if key:
            self.has_keys = True

    def add_chunk(self, chunk: Chunk) -> None:
        self.close()
        self.chunks.append(chunk)

    def close(self) -> None:
        if self.values:
            keys = self.keys if self.has_keys else None
            self.chunks.append(Chunk(None, self.content, self.values, self.places, keys, self.names or None))
            self.values, self.keys, self.places, self.names, self.has_keys = [], [], [], [], False


@dataclass(slots=True)
class GatheredMessages:
    count: int
    portions: dict[int, PartitionPortion]
    refused: dict[int, GoQueueError]
    """The messages that are wrong in themselves, by place."""
    may_be_rounded: bool
    """A value in JSON has a number beyond 64 bits. A whole one was rounded when it was parsed."""


class MessageGathering:
    """Messages of one request, or of one batch of its lines."""

    def __init__(
        self, now: Microseconds, partitioner: Partitioner, name: str | None = None, first: int = 0
    ) -> None:
        """`name`: the messages are `name/0`, `name/1` … unless they have ids of their own; here they begin with
        `first`. So that a repeat is noticed, those without a key go where the name says."""
        self._arguments = now, partitioner, name, first
        self._now = now
        self._partitioner = partitioner
        self._may_be_rounded = False
        self._name = None if name is None else name.encode()
        self._first = first
        self._keyless = (
            partitioner.choose() if self._name is None else partition_of_key(self._name, partitioner.partitions)
        )
        self._plain = Content(now)
        self._portions: dict[int, PartitionPortion] = {}
        self._refused: dict[int, GoQueueError] = {}

    def anew(self) -> "MessageGathering":
        return MessageGathering(*self._arguments)

    async def gather(self, messages: Sequence[Any]) -> GatheredMessages:
        slices = Slices()
        for begin in range(0, len(messages), AT_ONCE):
            self._gather(messages, begin, min(begin + AT_ONCE, len(messages)))
            await slices.step()
        return self.gathered(len(messages))

    def _gather(self, messages: Sequence[Any], begin: int, end: int) -> None:
        """No function for each plain message but that which keeps it: most of a request is this."""
        partitions, keyless, portions = self._partitioner.partitions, self._keyless, self._portions
        is_named, name = self._name is not None, None
        for place in range(begin, end):
            message = messages[place]
            if type(message) is dict and type(value := message.get("value")) is str:
                count, number, key = len(message), keyless, None
                if count == 2 and type(text := message.get("key")) is str and len(text) * 4 <= KEY_SIZE_MAX:
                    key = text.encode()
                    number = partition_of_key(key, partitions) if key else keyless
                if count == 1 or key is not None:
                    if is_named:
                        name = self._name_at(place)
                    portion = portions.get(number) or self._portion(number)
                    portion.add(place, value.encode(), key, name)
                    continue
            self.add(place, message)

    def add(self, place: int, message: object) -> None:
        """Any message."""
        try:
            value, key, plan = read_message(message, self._now)
            if value and "value_json" in cast(Mapping[str, Any], message) and LARGE_NUMBER.search(value):
                self._may_be_rounded = True
            self.add_read(place, value, key, plan)
        except GoQueueError as error:
            self._refused[place] = untraced(error)

    def add_read(self, place: int, value: bytes | None, key: bytes | None, plan: SendPlan) -> None:
        name = plan.name or self._name_at(place)
        if plan.partition is not None or key:
            number = self._partitioner.choose(key, plan.partition)
        elif plan.name is not None:  # its repeat goes there, too
            number = partition_of_key(plan.name, self._partitioner.partitions)
        else:
            number = self._keyless
        keys, names = [key] if key else None, None if name is None else [name]
        chunk = Chunk(None, plan.content, [value], [place], keys, names, plan.partition)
        self._portion(number).add_chunk(chunk)

    def _name_at(self, place: int) -> bytes | None:
        return None if self._name is None else b"%b/%d" % (self._name, self._first + place)

    def refuse(self, place: int, error: GoQueueError) -> None:
        self._refused[place] = error

    def gathered(self, count: int) -> GatheredMessages:
        for portion in self._portions.values():
            portion.close()
        self._partitioner.begin_next_batch()
        return GatheredMessages(count, self._portions, self._refused, self._may_be_rounded)

    def _portion(self, number: int) -> PartitionPortion:
        portion = self._portions.get(number)
        if portion is None:
            portion = self._portions[number] = PartitionPortion(self._plain)
        return portion


def untraced(error: GoQueueError) -> GoQueueError:
    """An error that is kept as what became of a message. Its tracebacks would keep the frame that keeps it, in a
    circle: thousands of them are much work for the garbage collector."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def read_message(message: object, now: Microseconds) -> tuple[bytes | None, bytes | None, SendPlan]:
    """Value, key, and what the other fields mean."""
    if not isinstance(message, dict):
        raise InvalidRequest(f"a message is an object with a value, not {type(message).__name__}")
    unknown = next((name for name in message if name not in KNOWN_FIELDS), None)
    if unknown is not None:
        raise InvalidRequest(f"a message has no field {unknown!r}; there are {', '.join(FIELDS)}")
    for other, name in OTHER_NAMES.items():
        if other in message:
            if name in message:
                raise InvalidRequest(f"{other} and {name} are the same field; give one of them")
            message = {**message, name: message[other]}
            del message[other]
    value, key = _value_of(message), _key_of(message)
    headers = _headers_of(message.get("headers"))
    options = {name: message[name] for name in OPTIONS if message.get(name) is not None}
    if "partition" in options and type(options["partition"]) is not int:
        raise InvalidRequest(f"partition is a whole number, not {type(options['partition']).__name__}")
    check_content(value, key, headers)
    return value, key, send_options(now, headers=headers, message_id=_name_of(message.get("message_id")), **options)


def _value_of(message: Mapping[str, Any]) -> bytes | None:
    given = [name for name in VALUE_FIELDS if name in message]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise InvalidRequest(f"a message has exactly one of {', '.join(VALUE_FIELDS)}; this one has {found}")
    value = message[given[0]]
    if given[0] == "value_json":
        return _written(value)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidRequest(
            f"{given[0]} is text, not {type(value).__name__}; send JSON as value_json, and bytes as value_base64"
        )
    return value.encode() if given[0] == "value" else bytes_of(value, "value_base64")


def _written(value: object) -> bytes:
    """As any client writes JSON, in a tenth of the time where that can be."""
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):  # a number of more than 64 bits, or deep nesting
        return json_bytes(value)


def _key_of(message: Mapping[str, Any]) -> bytes | None:
    given = [name for name in KEY_FIELDS if message.get(name) is not None]
    if len(given) > 1:
        raise InvalidRequest("key and key_base64 are the same field; give one of them")
    if not given:
        return None
    key = message[given[0]]
    if not isinstance(key, str):
        raise InvalidRequest(f"{given[0]} is text, not {type(key).__name__}")
    return key.encode() if given[0] == "key" else bytes_of(key, "key_base64")


def _headers_of(headers: object) -> dict[str, bytes] | None:
    if headers is None:
        return None
    if not isinstance(headers, dict):
        raise InvalidRequest(f"headers are an object of names and values, not {type(headers).__name__}")
    if len(headers) > HEADERS_MAX:
        raise TooLarge(f"there are {len(headers):,} headers; together they have at most {HEADERS_SIZE_MAX:,} bytes")
    return {name: _header(name, value) for name, value in headers.items()}


def _header(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        return bytes_of(value["base64"], f"header {name}")
    raise InvalidRequest(f'header {name!r} is text, or {{"base64": …}}')


def _name_of(name: object) -> str | None:
    if name is None or isinstance(name, str):
        return name
    raise InvalidRequest(f"message_id is text, not {type(name).__name__}")

"""Whether the messages of a batch fit the schemas of their topic.

Almost every message names no schema, or the newest one as producers do, has no other headers, and fits. So one
short loop judges these: a call of the parser and one of the validator each. What any other message is, is told
apart behind it.
"""

from collections.abc import Callable, Generator
from struct import Struct
from typing import Any, NamedTuple

import orjson

from goqueue.core.records.record import DUE_TIME, HEADER_SIZE, Flag, pack_headers, unpack_headers
from goqueue.core.schemas.validation.bounds import VALUE_BYTES
from goqueue.core.schemas.validation.framing import header_of, prefix_of
from goqueue.core.schemas.validation.subjects import SubjectJudgement
from goqueue.core.schemas.validation.topicschemas import SubjectSchemas, TopicSchemas
from goqueue.errors import BadRecord, InvalidMessage
from goqueue.types import Buffer

SLICE_BYTES = 32 * 1024
"""After so many bytes of records others may run: that is about half a millisecond."""

_SIZES = Struct(">3xB22xHI")
_HEADERS, _TOMBSTONE = int(Flag.HEADERS), int(Flag.TOMBSTONE)
_DELAYED, _CONTROL = int(Flag.DELAYED), int(Flag.CONTROL)


class SchemaVerdict(NamedTuple):
    bad: list[BadRecord]
    judged: int
    """Keys and values that were held to a schema, the bad ones among them."""


class SchemaJudgement:
    """Judges batches of one topic, as long as its schemas stay."""

    def __init__(self, schemas: TopicSchemas, *, value_bytes_max: int = VALUE_BYTES) -> None:
        self._values = _judging(schemas.values, schemas, value_bytes_max, is_key=False)
        self._keys = _judging(schemas.keys, schemas, value_bytes_max, is_key=True)
        self._subjects = [each for each in (self._values, self._keys) if each is not None]

    def verdict(self, records: Buffer, count: int) -> Generator[None, None, SchemaVerdict]:
        """Judge the records of a checked body; yields after each small piece of work."""
        body = records if isinstance(records, bytes) else bytes(records)
        for subject in self._subjects:
            subject.begin()
        is_valid, size_max, prefix, header = yield from self._quick()
        loads, sizes = orjson.loads, _SIZES.unpack_from
        before, bad, quick = self._judged, list[BadRecord](), count
        position, pause = 0, SLICE_BYTES
        for number in range(count):
            flags, key_size, section_size = sizes(body, position)
            begin = position + HEADER_SIZE
            position = begin + key_size + section_size
            if position > pause:
                yield
                pause = position + SLICE_BYTES
            if not flags and section_size <= size_max:
                at = begin + key_size
                if body.startswith(prefix, at):
                    at += len(prefix)
                try:
                    if is_valid(loads(body[at:position])):
                        continue
                except ValueError:
                    pass  # framed in another way, or no JSON
            elif flags == _HEADERS and section_size <= size_max and body.startswith(header, begin + key_size):
                try:
                    if is_valid(loads(body[begin + key_size + len(header) : position])):
                        continue
                except ValueError:
                    pass
            quick -= 1
            if not flags & _CONTROL:
                fault = yield from self._fault(
                    flags, body[begin : begin + key_size], body[begin + key_size : position]
                )
                if fault is not None:
                    bad.append(BadRecord(number, fault))
        return SchemaVerdict(bad, (quick if size_max >= 0 else 0) + self._judged - before)

    @property
    def _judged(self) -> int:
        return sum(each.judged for each in self._subjects)

    def _quick(self) -> Generator[None, None, tuple[Callable[[Any], bool], int, bytes, bytes]]:
        """The validator of the short loop, up to which size values need no other look (negative: none does), and
        the prefix and the only header that name the same schema."""
        if self._values is None or self._keys is not None:
            return bool, -1, b"", b""
        held = yield from self._values.newest()
        if held.validator is None or held.bounds is None:
            return bool, -1, b"", b""
        name = held.version.id
        return held.validator.is_valid, held.bounds.bytes_free, prefix_of(name), pack_headers(header_of(name))

    def _fault(self, flags: int, key: bytes, section: bytes) -> Generator[None, None, InvalidMessage | None]:
        begin = DUE_TIME.size if flags & _DELAYED else 0
        headers, begin = unpack_headers(section, begin) if flags & _HEADERS else ({}, begin)
        if self._keys is not None and key:
            fault = yield from self._keys.fault(key, headers)
            if fault is not None:
                return fault
        if self._values is None or flags & _TOMBSTONE:
            return None
        return (yield from self._values.fault(section[begin:], headers))


def _judging(
    subject: SubjectSchemas | None, schemas: TopicSchemas, bytes_max: int, *, is_key: bool
) -> SubjectJudgement | None:
    if subject is None or not subject.versions:
        return None
    return SubjectJudgement(subject, schemas.compiled, bytes_max=bytes_max, is_key=is_key)

"""From msgpack to typed values, strictly, one field after the other.

The annotations of a message say what may come, so nothing is built that they do not ask for: where a number
belongs, msgpack is allowed no array, map or extension; where a list belongs, its count is compared with its limit,
and its items take room as they come. However a hostile frame is nested, it costs no more memory than a few times
its size. What is not asked for (unknown trailing fields) is stepped over, never built.

A reader is a function made once for each annotation.
"""

from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgpack
from msgpack.exceptions import OutOfData, StackError, UnpackException

from goqueue.errors import ProtocolError
from goqueue.net.wire.fields import NAME_SIZE_MAX, Count, Range, Size, is_scalar
from goqueue.types import Buffer, Scalar

NIL = 0xC0
WORDS = {
    int: "an integer",
    str: "text",
    bytes: "bytes",
    bool: "true or false",
    float: "a float",
    NoneType: "nil",
    list: "an array",
    dict: "a map",
}
UNREADABLE = (ProtocolError, ValueError, UnpackException)
"""What reading may raise: ours, and what msgpack raises."""


class Source:
    """A frame that is being read. Without `feed` and its copy, msgpack offers no reading step by step."""

    __slots__ = ("array_header", "frame", "items_left", "map_header", "skip", "tell", "unpack")

    def __init__(self, frame: Buffer) -> None:
        unpacker = msgpack.Unpacker(
            max_buffer_size=max(len(frame), 1),
            max_array_len=0,
            max_map_len=0,
            max_ext_len=0,
            max_str_len=len(frame),
            max_bin_len=len(frame),
        )
        unpacker.feed(frame)
        self.frame = frame
        self.items_left = len(frame)
        """How many items its lists may still have, all together. An item takes a byte at least."""
        self.unpack = unpacker.unpack
        self.array_header = unpacker.read_array_header
        self.map_header = unpacker.read_map_header
        self.skip = unpacker.skip
        self.tell = unpacker.tell

    def left(self) -> int:
        return len(self.frame) - int(self.tell())

    def at_nil(self) -> bool:
        position = self.tell()
        return bool(position < len(self.frame) and self.frame[position] == NIL)


Reader: TypeAlias = Callable[[Source], Any]


def reader_of(annotation: Any) -> Reader:
    """The reader for a field of this type."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _limited(*get_args(annotation))
    if origin in (Union, UnionType):
        return _optional(reader_of(_without_none(annotation)))
    if annotation is bool:
        return _boolean
    return body_reader(annotation)


def body_reader(body: Any) -> Reader:
    """The reader for a message, or for a part of one that has fields."""
    hints = get_type_hints(body, include_extras=True)
    names = tuple(body._fields)
    readers = tuple(reader_of(hints[name]) for name in names)
    required = len(names) - len(body._field_defaults)
    known = len(names)
    ranges = _ranges_of(hints.values())

    def read(source: Source) -> Any:
        values: list[Any] = []
        count = source.array_header()
        if count < required:
            raise ProtocolError(f"{body.__name__} has {count} fields; at least {required} belong there")
        try:
            if ranges is not None and count == known:
                _read_integers(source, ranges, values)
            else:
                for each in readers if count >= known else readers[:count]:
                    values.append(each(source))  # noqa: PERF401  (on an error, their number names the field)
        except UNREADABLE as error:
            raise ProtocolError(f"{body.__name__}.{names[len(values)]}: {reason_of(error)}") from None
        for _ in range(count - known):
            source.skip()
        return body(*values)

    return read


def _without_none(annotation: Any) -> Any:
    (kept,) = [each for each in get_args(annotation) if each is not NoneType]
    return kept


def _limited(base: Any, limit: Range | Size | Count) -> Reader:
    if isinstance(limit, Range):
        return _integer(limit)
    if isinstance(limit, Size):
        return _sized(base, limit)
    if get_origin(base) is dict:
        return _map(limit.most)
    return _list(reader_of(get_args(base)[0]), limit.most)


def _integer(limit: Range) -> Reader:
    lowest, highest = limit

    def read(source: Source) -> int:
        value = source.unpack()
        if type(value) is not int or not lowest <= value <= highest:
            raise _out_of_range(limit, value)
        return value

    return read


def _ranges_of(annotations: Iterable[Any]) -> tuple[Range, ...] | None:
    """The limits of a body of nothing but numbers. Lists of them are long: they are read without a call each."""
    limits = [get_args(each)[1] if get_origin(each) is Annotated else None for each in annotations]
    ranges = tuple(limit for limit in limits if isinstance(limit, Range))
    return ranges if len(ranges) == len(limits) else None


def _read_integers(source: Source, ranges: Iterable[Range], values: list[int]) -> None:
    unpack = source.unpack
    for limit in ranges:
        value = unpack()
        lowest, highest = limit
        if type(value) is not int or not lowest <= value <= highest:
            raise _out_of_range(limit, value)
        values.append(value)


def _out_of_range(limit: Range, value: object) -> ProtocolError:
    return ProtocolError(f"an integer from {limit.lowest} to {limit.highest} belongs here, not {_shown(value)}")


def _sized(base: type[str] | type[bytes], limit: Size) -> Reader:
    smallest, largest = limit

    def read(source: Source) -> str | bytes:
        value = source.unpack()
        if type(value) is not base or not smallest <= len(value) <= largest:
            raise ProtocolError(
                f"{WORDS[base]} of length {smallest} to {largest} belongs here, not {_shown(value)}"
            )
        return value

    return read


def _boolean(source: Source) -> bool:
    value = source.unpack()
    if type(value) is not bool:
        raise ProtocolError(f"true or false belongs here, not {_shown(value)}")
    return value


def _optional(read: Reader) -> Reader:
    def read_or_none(source: Source) -> Any:
        return source.unpack() if source.at_nil() else read(source)

    return read_or_none


def _list(read: Reader, most: int) -> Reader:
    def read_all(source: Source) -> tuple[Any, ...]:
        count = _bounded(source.array_header(), most)
        source.items_left -= count
        if source.items_left < 0:
            raise ProtocolError("all lists together have more items than a request may have, or than follow")
        return tuple([read(source) for _ in range(count)])

    return read_all


def _map(most: int) -> Reader:
    def read_all(source: Source) -> dict[str, Scalar]:
        count = _bounded(source.map_header(), most)
        return dict([_entry(source) for _ in range(count)])

    return read_all


def _entry(source: Source) -> tuple[str, Scalar]:
    key, value = source.unpack(), source.unpack()
    if type(key) is not str or len(key) > NAME_SIZE_MAX:
        raise ProtocolError(f"the keys of a map are text of at most {NAME_SIZE_MAX} characters, not {_shown(key)}")
    if not is_scalar(value):
        raise ProtocolError(f"text, bytes, a number, a truth or nil belongs under {key!r}, not {_shown(value)}")
    return key, value


def _bounded(count: int, most: int) -> int:
    if count > most:
        raise ProtocolError(f"there are {count} items; {most} are allowed")
    return count


def reason_of(error: Exception) -> str:
    """In words of ours: msgpack says nothing at all about some of its errors."""
    if isinstance(error, OutOfData):
        return "the frame ends too early"
    if isinstance(error, StackError):
        return "it is nested too deep"
    return str(error) or "a byte that msgpack never uses"


def _shown(value: object) -> str:
    if type(value) is int:
        return str(value)
    word = WORDS.get(type(value), "something else")
    return f"{word} of length {len(value)}" if isinstance(value, str | bytes) else word

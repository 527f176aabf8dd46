"""Frames: a msgpack array of kind, correlation id and body, and of the throttle where there is one.

    [kind, correlation id, body]                    [kind, correlation id, body, throttle_ms]

Reading goes in two steps, since they fail differently. A frame whose opening cannot be read belongs to nobody, and
the connection is no longer to be trusted. One whose body cannot be read is the failure of that request alone.

A small frame is built at once and looked at (quick.py); a large one, and whatever is not right, is read
strictly (reading.py).
"""

from typing import Any, NamedTuple, TypeVar, cast

import msgpack

from goqueue.errors import ProtocolError
from goqueue.net.wire.errors import FrameTooLarge, UnknownKind
from goqueue.net.wire.fields import U32, U32_MAX
from goqueue.net.wire.kinds import BODIES, KINDS, Body, Request
from goqueue.net.wire.limits import Limits
from goqueue.net.wire.quick import Checker, Unfit, body_checker, built_from
from goqueue.net.wire.registry import name_of
from goqueue.net.wire.strict import UNREADABLE, Reader, Source, body_reader, reader_of, reason_of
from goqueue.types import Buffer

RequestT = TypeVar("RequestT", bound=Request)

CORRELATION_MAX = U32_MAX
NOBODY = 0
"""The correlation id of what neither asks nor answers."""
HEAD_COUNT = 3

_READERS: dict[int, Reader] = {int(kind): body_reader(body) for kind, body in BODIES.items()}
_CHECKERS: dict[int, Checker] = {}
"""Each is made when the first body of its kind comes: all of them would take a command longer than its work."""
_read_u32 = reader_of(U32)
_pack = msgpack.Packer().pack
"""One for all: a packer of its own for each frame would begin with 256 KiB of room."""


class Opening(NamedTuple):
    """The beginning of a frame, and the rest of it: as it was built, or as it is still to be read."""

    kind: int
    correlation: int
    frame: Buffer
    built: list[Any] | None = None
    source: Source | None = None
    length: int = 0


class Frame(NamedTuple):
    correlation: int
    body: Body
    throttle_ms: int


def encode(body: Body, correlation: int = NOBODY, throttle_ms: int = 0) -> bytes:
    kind = KINDS[type(body)]
    packed: bytes = _pack((kind, correlation, body, throttle_ms) if throttle_ms else (kind, correlation, body))
    return packed


def decode(data: Buffer, size_max: int) -> Frame:
    return read_body(open_frame(data, size_max))


def check_bounds(body: RequestT, limits: Limits) -> RequestT:
    """The request as the other end would read it, or the error that its reader would raise.

    For requests that do not come in a frame. They are written and read once, so that no bound is declared, or is
    checked, in a second way.
    """
    try:
        frame = encode(body)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"{type(body).__name__} cannot be written: {error}") from None
    return cast(RequestT, read_body(open_frame(frame, limits.message_size_max), limits.items_max).body)


def open_frame(data: Buffer, size_max: int) -> Opening:
    """Read who it is for. `ProtocolError` when that cannot be known."""
    if len(data) > size_max:
        raise FrameTooLarge(f"the frame has {len(data)} bytes; {size_max} are allowed", size_max=size_max)
    built = built_from(data)
    if built is not None and len(built) >= HEAD_COUNT:
        kind, correlation = built[0], built[1]
        if type(kind) is int is type(correlation) and 0 <= kind <= U32_MAX and 0 <= correlation <= U32_MAX:
            return Opening(kind, correlation, data, built)
    return open_strictly(data)  # which says why, if it is wrong


def open_strictly(data: Buffer) -> Opening:
    source = Source(data)
    try:
        count = source.array_header()
        if count < HEAD_COUNT:
            raise ProtocolError(f"a frame has at least {HEAD_COUNT} elements, not {count}")
        return Opening(_read_u32(source), _read_u32(source), data, None, source, count)
    except UNREADABLE as error:
        raise ProtocolError(f"this is no frame of goqueue: {reason_of(error)}") from None


def read_body(opening: Opening, items_max: int | None = None) -> Frame:
    """Read the rest, which must end where the frame ends. Its lists may have so many items, all together."""
    if opening.kind not in _READERS:
        raise UnknownKind(f"kind {opening.kind} is unknown; the other end may be newer", kind=opening.kind)
    if opening.built is not None and (items_max is None or len(opening.frame) <= items_max):
        try:
            return _checked(opening, opening.built)
        except Unfit:
            pass
    return _read_strictly(opening, items_max)


def _checked(opening: Opening, built: list[Any]) -> Frame:
    throttle_ms = built[HEAD_COUNT] if len(built) > HEAD_COUNT else 0
    if type(throttle_ms) is not int or not 0 <= throttle_ms <= U32_MAX:
        raise Unfit
    check = _CHECKERS.get(opening.kind) or _checker_of(opening.kind)
    return Frame(opening.correlation, check(built[2]), throttle_ms)


def _checker_of(kind: int) -> Checker:
    check = _CHECKERS[kind] = body_checker(BODIES[kind])
    return check


def _read_strictly(opening: Opening, items_max: int | None) -> Frame:
    if opening.source is None:
        opening = open_strictly(opening.frame)
    assert opening.source is not None
    if items_max is not None:
        opening.source.items_left = items_max
    try:
        return _read_rest(opening, opening.source, _READERS[opening.kind])
    except UNREADABLE as error:
        raise ProtocolError(f"{name_of(opening.kind)} cannot be read: {reason_of(error)}") from None


def _read_rest(opening: Opening, source: Source, read: Reader) -> Frame:
    body: Any = read(source)
    throttle_ms = _read_u32(source) if opening.length > HEAD_COUNT else 0
    for _ in range(opening.length - HEAD_COUNT - 1):
        source.skip()
    if source.left():
        raise ProtocolError(f"{source.left()} bytes follow the frame's end")
    return Frame(opening.correlation, body, throttle_ms)

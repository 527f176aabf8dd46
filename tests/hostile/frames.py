"""Frames that mean harm, drawn from a seed: sound ones of every kind, and everything that can be done to them."""

import struct
from collections.abc import Callable
from random import Random
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgpack

from goqueue.net.wire.codec import CORRELATION_MAX, encode
from goqueue.net.wire.fields import Count, Range, Size
from goqueue.net.wire.kinds import BODIES, Body
from goqueue.net.wire.messages import Hello, Part

FEW = 5
IDS = (0, 1, 2, 3, 7, CORRELATION_MAX)
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**63,
    2**64 - 1,
    1.5,
    float("nan"),
    "text",
    b"bytes",
    [],
    {},
    [[]],
    {"a": []},
)
NESTINGS = (1, 30, 600, 5_000, 60_000)
HUGE_COUNTS = (0xFFFF, 0xFFFF_FFFF)
SIZES = (0, 1, 31, 300, 70_000)


def frames_of(seed: int, count: int) -> list[bytes]:
    random = Random(seed)
    return [hostile_frame(random) for _ in range(count)]


def hostile_frame(random: Random) -> bytes:
    return random.choice(WAYS)(random)


def sound_frame(random: Random) -> bytes:
    kind = random.choice(list(BODIES.values()))
    return encode(drawn_body(random, kind), random.choice(IDS), random.choice((0, 0, 3)))


# Bodies with any field values that their annotations allow.


def drawn_body(random: Random, body: Any) -> Body:
    hints = get_type_hints(body, include_extras=True)
    return body(*(_drawn(random, hints[name]) for name in body._fields))  # type: ignore[no-any-return]


def _drawn(random: Random, annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _limited(random, *get_args(annotation))
    if origin in (Union, UnionType):
        (kept,) = [each for each in get_args(annotation) if each is not NoneType]
        return None if random.random() < 0.5 else _drawn(random, kept)
    return random.random() < 0.5 if annotation is bool else drawn_body(random, annotation)


def _limited(random: Random, base: Any, limit: Range | Size | Count) -> Any:
    if isinstance(limit, Range):
        return random.choice((limit.lowest, limit.highest, random.randint(*limit)))
    if isinstance(limit, Size):
        size = random.randint(limit.smallest, min(limit.largest, max(limit.smallest, 40)))
        return "ü" * size if base is str else random.randbytes(size)
    if get_origin(base) is dict:
        return {str(number): random.choice((None, 1, "x", b"y", 2.5)) for number in range(random.randint(0, FEW))}
    return tuple(_drawn(random, get_args(base)[0]) for _ in range(random.randint(0, FEW)))


# What can be done to them.


def _head(random: Random, kind: int) -> bytes:
    """A frame up to its body."""
    return b"\x93" + bytes(msgpack.packb(int(kind))) + bytes(msgpack.packb(random.choice(IDS)))


def truncated(random: Random) -> bytes:
    frame = sound_frame(random)
    return frame[: random.randrange(len(frame))]


def flipped(random: Random) -> bytes:
    frame = bytearray(sound_frame(random))
    for _ in range(random.randint(1, 3)):
        frame[random.randrange(len(frame))] ^= 1 << random.randrange(8)
    return bytes(frame)


def lengthened(random: Random) -> bytes:
    return sound_frame(random) + random.randbytes(random.choice(SIZES))


def of_wrong_types(random: Random) -> bytes:
    frame: list[Any] = msgpack.unpackb(sound_frame(random), strict_map_key=False)
    body = frame[2]
    place, at = (body, random.randrange(len(body))) if body and random.random() < 0.8 else (frame, 2)
    place[at] = random.choice(WRONG)
    return bytes(msgpack.packb(frame))


def nested(random: Random) -> bytes:
    """Arrays in arrays, or maps in maps, where a field belongs."""
    kind, depth = random.choice(list(BODIES)), random.choice(NESTINGS)
    opening = random.choice((b"\x91", b"\x81\xa1k", b"\x9f", b"\xdc\x00\x01"))
    return _head(random, kind) + opening * depth + b"\xc0"


def lying(random: Random) -> bytes:
    """A count or a length of billions, and nothing behind it."""
    kind, count = random.choice(list(BODIES)), random.choice(HUGE_COUNTS)
    claim = random.choice((b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9")) + struct.pack(">I", count)
    return (
        _head(random, kind)
        + random.choice((b"", b"\x91", b"\x92\x01"))
        + claim
        + random.randbytes(random.choice(SIZES))
    )


def crowded(random: Random) -> bytes:
    """As many tiny items as fit: each takes more memory than wire."""
    kind = random.choice(list(BODIES))
    item = random.choice((b"\xc0", b"\x90", b"\x80", b"\x01", b"\xa0"))
    count = random.choice((1_000, 16_384, 60_000))
    return (
        _head(random, kind)
        + random.choice((b"", b"\x91", b"\x92\x01"))
        + b"\xdd"
        + struct.pack(">I", count)
        + item * count
    )


def of_unknown_kind(random: Random) -> bytes:
    kind = random.choice((0, 6, 8, 15, 999, 2**32 - 1, 2**32, -1))
    return bytes(msgpack.packb([kind, random.choice((*IDS, -1, 2**32)), []]))


def part(random: Random) -> bytes:
    """Of a message that may never be finished, begins anywhere, or is of another size than its first part said."""
    total = random.choice((0, 1, 100, 4_000, 100_000, 2**32 - 1))
    position = random.choice((0, 0, 1, 50, total, max(0, total - 10), 2**32 - 1))
    return encode(Part(total, min(position, 2**32 - 1), random.randbytes(random.choice(SIZES))), random.choice(IDS))


def part_of_parts(random: Random) -> bytes:
    """A whole message in one part: a sound one under another id, a part, or a hostile one."""
    inner = random.choice((sound_frame, part, truncated, nested))(random)
    return encode(Part(len(inner), 0, inner), random.choice(IDS))


def hello(random: Random) -> bytes:
    version = random.choice((0, 1, 2, 65_535))
    return encode(Hello(version, (), "hostile", random.choice((None, bytes(16)))), random.choice((0, 0, 1)))


def noise(random: Random) -> bytes:
    return random.randbytes(random.choice(SIZES))


WAYS: tuple[Callable[[Random], bytes], ...] = (
    sound_frame,
    truncated,
    flipped,
    lengthened,
    of_wrong_types,
    nested,
    lying,
    crowded,
    of_unknown_kind,
    part,
    part_of_parts,
    hello,
    noise,
)

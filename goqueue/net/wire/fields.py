"""The types of the fields of messages, each with its limit.

The limit is part of the annotation, so that the decoder, the tests and the reader of a message see the same one.
Integers end at 2⁶³−1, which every language has.
"""

from types import NoneType
from typing import Annotated, NamedTuple

from goqueue.types import Scalar


class Range(NamedTuple):
    """Which integers a field takes, both ends included."""

    lowest: int
    highest: int


class Size(NamedTuple):
    """How many bytes or characters a field takes, both ends included."""

    smallest: int
    largest: int


class Count(NamedTuple):
    """How many items a list or map takes at most."""

    most: int


INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)

U32_MAX = 2**32 - 1
U16 = Annotated[int, Range(0, 2**16 - 1)]
U32 = Annotated[int, Range(0, U32_MAX)]
U63 = Annotated[int, Range(0, INTEGER_MAX)]

NAME_SIZE_MAX = 256
PROSE_SIZE_MAX = 4096

Name = Annotated[str, Size(0, NAME_SIZE_MAX)]
"""Topics, clients, nodes, codes. Which names are allowed is not the wire's business: it only bounds them."""
Prose = Annotated[str, Size(0, PROSE_SIZE_MAX)]
"""A sentence for a person."""
Uuid = Annotated[bytes, Size(16, 16)]
Secret = Annotated[bytes, Size(0, 8192)]
Blob = Annotated[bytes, Size(0, 2**31 - 1)]
"""Records. The frame or message around it bounds it before it is read."""

SCALAR_SIZE_MAX = 65_536
"""Limit of a text or of bytes in a map."""
PROPERTIES_MAX = 1024
Properties = Annotated[dict[Name, Scalar], Count(PROPERTIES_MAX)]
"""A map for what has no fixed shape: configuration, details of an error, counters."""

LIST_COUNT_MAX = 16_384
"""Limit of the items of one list: partitions, batches, topics."""
Many = Count(LIST_COUNT_MAX)

SCALARS = (str, bytes, int, float, bool, NoneType)


def is_scalar(value: object) -> bool:
    """Whether a map may hold it, as far as one look tells: text, bytes, a number, a truth or nil."""
    if type(value) is int:
        return INTEGER_MIN <= value <= INTEGER_MAX
    return type(value) in SCALARS and not (type(value) in (bytes, str) and len(value) > SCALAR_SIZE_MAX)  # type: ignore[arg-type]

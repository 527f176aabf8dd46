"""A large record as the pieces of its msgpack form, made one after the other: nobody waits for all of it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgpack

PIECE_BYTES = 1024 * 1024
"""A piece is cut behind the field or the item that makes it so large."""


class LongList(NamedTuple):
    name: str
    length: int
    items: Iterable[Any]


def pieces_of(fields: Mapping[str, Any], *lists: LongList) -> Iterator[bytes]:
    """Together they are the map of these fields, and of the lists behind them."""
    gathered = bytearray()
    for some in _packed(fields, lists):
        gathered += some
        if len(gathered) >= PIECE_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _packed(fields: Mapping[str, Any], lists: Iterable[LongList]) -> Iterator[bytes]:
    packer, lists = msgpack.Packer(), list(lists)
    yield packer.pack_map_header(len(fields) + len(lists))
    for name, value in fields.items():
        yield packer.pack(name) + packer.pack(value)
    for each in lists:
        yield packer.pack(each.name) + packer.pack_array_header(each.length)
        yield from map(packer.pack, each.items)

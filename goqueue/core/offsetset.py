"""A set of offsets as a sparse bitmap, for offsets that are too mixed to be one run.

Offsets are kept in chunks of 4,096, each one Python int with a bit for every offset that is there. A chunk without
any is not kept; all full chunks share one int. So a million scattered offsets that lie close together take some
hundred kilobytes, and adding or discarding one costs the same whether the set holds ten or ten million: it touches
one chunk, and the numbers of the chunks, which are kept in order.

Runs are inclusive at both ends, as receipts and entries name them.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

from goqueue.errors import UnknownFormat
from goqueue.types import Offset

CHUNK_BITS = 12
CHUNK_SIZE = 1 << CHUNK_BITS
WORD_SIZE = 64

_WITHIN = CHUNK_SIZE - 1
_FULL = (1 << CHUNK_SIZE) - 1
_FULL_WORD = (1 << WORD_SIZE) - 1
_NUMBERS = tuple(range(CHUNK_SIZE))
"""Made once: to make these numbers takes longer than to choose among them."""
_AS_FLAGS = bytes(byte == b"1"[0] for byte in range(256))


class Run(NamedTuple):
    first: Offset
    last: Offset

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class OffsetSet:
    __slots__ = ("_chunks", "_numbers", "_size")

    def __init__(self, runs: Iterable[tuple[Offset, Offset]] = ()) -> None:
        self._chunks: dict[int, int] = {}
        self._numbers: list[int] = []
        self._size = 0
        if runs:
            for number, mask in _masks_of(runs).items():
                self._put(number, mask)

    @classmethod
    def of(cls, offsets: Iterable[Offset]) -> "OffsetSet":
        """The set of these offsets."""
        found = list(offsets)
        return cls(zip(found, found, strict=True))

    def copy(self) -> "OffsetSet":
        made = OffsetSet()
        made._chunks, made._numbers, made._size = self._chunks.copy(), self._numbers.copy(), self._size
        return made

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetSet) and self._chunks == other._chunks

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, offset: Offset) -> bool:
        return bool(self._chunks.get(offset >> CHUNK_BITS, 0) >> (offset & _WITHIN) & 1)

    def add(self, first: Offset, last: Offset) -> int:
        """Add a range; returns how many of its offsets are new."""
        before, number = self._size, first >> CHUNK_BITS
        if 0 <= last - first <= _WITHIN - (first & _WITHIN):  # in one chunk, as most often
            mask = ((1 << (last - first + 1)) - 1) << (first & _WITHIN)
            self._put(number, self._chunks.get(number, 0) | mask)
            return self._size - before
        for number, mask in _masks(first, last):
            self._put(number, self._chunks.get(number, 0) | mask)
        return self._size - before

    def add_mask(self, base: Offset, mask: int) -> None:
        """Add the offsets of a mask, which begins at `base`."""
        mask <<= base & _WITHIN
        number = base >> CHUNK_BITS
        while mask:
            self._put(number, self._chunks.get(number, 0) | mask & _FULL)
            mask, number = mask >> CHUNK_SIZE, number + 1

    def discard(self, first: Offset, last: Offset) -> int:
        """Remove a range; returns how many of its offsets were present. However long it is, it costs only the
        chunks that exist."""
        before, number = self._size, first >> CHUNK_BITS
        if 0 <= last - first <= _WITHIN - (first & _WITHIN):  # in one chunk, as most often
            if number in self._chunks:
                mask = ((1 << (last - first + 1)) - 1) << (first & _WITHIN)
                self._put(number, self._chunks[number] & ~mask)
            return before - self._size
        for number in self._numbers_within(first, last):
            self._put(number, self._chunks[number] & ~_mask_within(number, first, last))
        return before - self._size

    def update(self, others: "OffsetSet") -> None:
        """Add these offsets. Like the next methods, it costs chunks, not offsets or runs."""
        for number, mask in others._chunks.items():
            self._put(number, self._chunks.get(number, 0) | mask)

    def common(self, others: "OffsetSet") -> "OffsetSet":
        """The offsets that are in both sets."""
        found, chunks = OffsetSet(), self._chunks
        for number, mask in others._chunks.items():
            found._put(number, chunks.get(number, 0) & mask)
        return found

    def without(self, others: "OffsetSet") -> "OffsetSet":
        """The offsets that are in this set only."""
        found, chunks = OffsetSet(), others._chunks
        for number, mask in self._chunks.items():
            found._put(number, mask & ~chunks.get(number, 0))
        return found

    def remove(self, others: "OffsetSet") -> None:
        """Remove the offsets that are in both sets."""
        chunks = self._chunks
        for number, mask in others._chunks.items():
            if number in chunks:
                self._put(number, chunks[number] & ~mask)

    def take(self, others: "OffsetSet") -> "OffsetSet":
        """Remove and return the offsets that are in both sets."""
        found = self.common(others)
        self.remove(found)
        return found

    def take_below(self, end: Offset) -> "OffsetSet":
        """Remove and return the offsets below `end`."""
        taken, place = OffsetSet(), bisect_left(self._numbers, end >> CHUNK_BITS)
        taken._numbers = self._numbers[:place]
        taken._chunks = {number: self._chunks.pop(number) for number in taken._numbers}
        taken._size = sum(map(int.bit_count, taken._chunks.values()))
        del self._numbers[:place]
        self._size -= taken._size
        if end & _WITHIN and self._numbers[:1] == [end >> CHUNK_BITS]:
            number = self._numbers[0]
            below = _mask_within(number, 0, end - 1)
            taken._put(number, self._chunks[number] & below)
            self._put(number, self._chunks[number] & ~below)
        return taken

    def last(self, count: int) -> list[Offset]:
        """The last `count` offsets, in order."""
        first = missing = 0
        for number in reversed(self._numbers):
            first, missing = number << CHUNK_BITS, missing + self._chunks[number].bit_count()
            if missing >= count:
                break
        return [offset for run in self.runs(first) for offset in range(run.first, run.last + 1)][-count:]

    def count(self, first: Offset, last: Offset) -> int:
        """The number of offsets in this range."""
        if 0 <= last - first <= _WITHIN - (first & _WITHIN):  # in one chunk, as most often
            rest = self._chunks.get(first >> CHUNK_BITS, 0) >> (first & _WITHIN)
            return (rest & ((1 << (last - first + 1)) - 1)).bit_count()
        numbers = self._numbers_within(first, last)
        return sum((self._chunks[number] & _mask_within(number, first, last)).bit_count() for number in numbers)

    def has_any(self, runs: Iterable[Sequence[Offset]]) -> bool:
        """Whether any offset of these ranges is present. What follows the two ends of one is ignored."""
        for run in runs:  # noqa: SIM110  # for every settlement: without a generator
            if self.count(run[0], run[1]):
                return True
        return False

    def runs(self, first: Offset = 0, last: Offset | None = None) -> Iterator[Run]:
        """Longest runs, in order, cut to the range. The set must not change meanwhile."""
        begin = end = -1
        for base, mask in self._masks_within(first, last):
            at, rest = base, mask
            while rest:
                gap = _lowest(rest)
                rest, at = rest >> gap, at + gap
                size = (~rest & (rest + 1)).bit_length() - 1
                if at != end:
                    if end > begin:
                        yield Run(begin, end - 1)
                    begin = at
                rest, at = rest >> size, at + size
                end = at
        if end > begin:
            yield Run(begin, end - 1)

    def offsets(self) -> Iterator[Offset]:
        """One by one, in order: in bulk it costs less than runs where these are short."""
        return chain.from_iterable(map(self._offsets_in, self._numbers))

    def _offsets_in(self, number: int) -> Iterator[Offset]:
        mask = self._chunks[number]
        lowest = _lowest(mask)
        bits = bin(mask >> lowest)[:1:-1].encode().translate(_AS_FLAGS)
        return map(((number << CHUNK_BITS) + lowest).__add__, compress(_NUMBERS, bits))

    @property
    def first(self) -> Offset | None:
        return self._first_at(0)

    @property
    def bounds(self) -> Run | None:
        """The first and the last offset; None when there is none."""
        if not self._numbers:
            return None
        base = self._numbers[-1] << CHUNK_BITS
        return Run(self._first_at(0) or 0, base + self._chunks[self._numbers[-1]].bit_length() - 1)

    def _masks_within(self, first: Offset, last: Offset | None) -> Iterator[tuple[Offset, int]]:
        """For each chunk of the range its first offset, and its mask within the range."""
        numbers = self._numbers if last is None else self._numbers_within(first, last)
        for place in range(bisect_left(numbers, first >> CHUNK_BITS), len(numbers)):
            number = numbers[place]
            base = number << CHUNK_BITS
            end = base + _WITHIN if last is None else last
            is_whole = first <= base and base + _WITHIN <= end
            yield (
                base,
                self._chunks[number] if is_whole else self._chunks[number] & _mask_within(number, first, end),
            )

    def first_run(self, at: Offset = 0) -> Run | None:
        """The first run at or after this offset; if it has begun before, the rest of it."""
        first = self._first_at(at)
        return None if first is None else Run(first, self.first_gap(first) - 1)

    def first_gap(self, at: Offset) -> Offset:
        """The first offset from here on that is not in the set."""
        while True:
            rest = self._chunks.get(at >> CHUNK_BITS, 0) >> (at & _WITHIN)
            gap = at + (~rest & (rest + 1)).bit_length() - 1
            if gap == at or gap & _WITHIN:
                return gap
            at = gap

    def _first_at(self, at: Offset) -> Offset | None:
        rest = self._chunks.get(at >> CHUNK_BITS, 0) >> (at & _WITHIN)
        if rest:
            return at + _lowest(rest)
        place = bisect_right(self._numbers, at >> CHUNK_BITS)
        if place == len(self._numbers):
            return None
        number = self._numbers[place]
        return (number << CHUNK_BITS) + _lowest(self._chunks[number])

    def _numbers_within(self, first: Offset, last: Offset) -> list[int]:
        low = bisect_left(self._numbers, first >> CHUNK_BITS)
        return self._numbers[low : bisect_right(self._numbers, last >> CHUNK_BITS, low)] if first <= last else []

    def _put(self, number: int, mask: int) -> None:
        before = self._chunks.get(number, 0)
        self._size += mask.bit_count() - before.bit_count()
        if mask:
            self._chunks[number] = _FULL if mask == _FULL else mask
            if not before:
                insort(self._numbers, number)
        elif before:
            del self._chunks[number]
            del self._numbers[bisect_left(self._numbers, number)]

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Numbers of chunks and their masks, the lowest byte first. No bytes at all stand for a full chunk."""
        return ((number, _bytes_of(self._chunks[number])) for number in self._numbers)

    @classmethod
    def from_chunks(cls, chunks: Iterable[tuple[int, bytes]]) -> "OffsetSet":
        offsets = cls()
        for number, mask in chunks:
            offsets._put(number, int.from_bytes(mask, "little") & _FULL if mask else _FULL)
        return offsets

    def words(self) -> Iterator[tuple[Offset, int]]:
        """Masks of 64 offsets that are not empty, in order, each with the first of these offsets."""
        for number, mask in ((number, self._chunks[number]) for number in self._numbers):
            base = number << CHUNK_BITS
            for at in range(0, mask.bit_length(), WORD_SIZE):
                if word := mask >> at & _FULL_WORD:
                    yield base + at, word

    @property
    def words_max(self) -> int:
        """Upper bound of the number of `words`."""
        return min(self._size, len(self._chunks) * CHUNK_SIZE // WORD_SIZE)

    def to_plain(self) -> list[Any]:
        """The chunks, flat."""
        return [part for chunk in self.chunks() for part in chunk]

    @classmethod
    def from_plain(cls, plain: Any) -> "OffsetSet":
        try:
            numbers = map(int, plain[::2])
            return cls.from_chunks(zip(numbers, plain[1::2], strict=True))
        except (TypeError, ValueError) as error:
            raise UnknownFormat(
                "a set of offsets is not as it is written; start a goqueue that knows it"
            ) from error


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _bytes_of(mask: int) -> bytes:
    return b"" if mask == _FULL else mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def _masks_of(runs: Iterable[tuple[Offset, Offset]]) -> dict[int, int]:
    """The masks of all chunks. Many runs that lie close together cost little more than one: they are first joined
    in a small int that begins at the first of them."""
    masks, base, end, mask = dict[int, int](), 0, 0, 0
    for first, last in runs:
        if not base <= first <= last < end:
            _put_in(masks, base, mask)
            base, end, mask = first, (first | _WITHIN) + 1, 0
            if last >= end:
                for number, part in _masks(first, last):
                    masks[number] = masks.get(number, 0) | part
                continue
        mask |= ((1 << last - first + 1) - 1) << first - base
    _put_in(masks, base, mask)
    return masks


def _put_in(masks: dict[int, int], base: Offset, mask: int) -> None:
    if mask:
        number = base >> CHUNK_BITS
        masks[number] = masks.get(number, 0) | mask << (base & _WITHIN)


def _masks(first: Offset, last: Offset) -> Iterator[tuple[int, int]]:
    """The chunks of a range, and the part of each that lies in it."""
    for number in range(first >> CHUNK_BITS, (last >> CHUNK_BITS) + 1):
        yield number, _mask_within(number, first, last)


def _mask_within(number: int, first: Offset, last: Offset) -> int:
    base = number << CHUNK_BITS
    low, high = max(first - base, 0), min(last - base, _WITHIN)
    if high - low == _WITHIN:
        return _FULL
    return ((1 << (high - low + 1)) - 1) << low

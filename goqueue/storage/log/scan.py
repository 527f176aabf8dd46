"""Walks over the batches of a file, and over damaged ranges between them.

The walk goes by lengths and trusts nothing: each envelope and body must match its CRC and begin at the offset where
the one before ended. Where that fails, everything up to the next sound batch is one damaged range. That batch is
found by its magic, and taken only if its checksums hold and its offset and append time do not go back. When only a
body is damaged the walk skips the whole batch, so that the contents of a message are never taken for a batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from goqueue.core.records.batch import (
    BODY_SIZE_MAX,
    ENVELOPE_SIZE,
    MAGIC_AND_VERSION,
    Envelope,
    body_is_sound,
    parse_envelope,
)
from goqueue.environment import File
from goqueue.types import Microseconds, Offset

WINDOW_SIZE = 1024 * 1024


class FoundBatch(NamedTuple):
    """A sound batch. Its body is `window[body_at : body_at + envelope.length]`."""

    position: int
    envelope: Envelope
    window: memoryview
    body_at: int

    @property
    def body(self) -> memoryview:
        return self.window[self.body_at : self.body_at + self.envelope.length]

    @property
    def end_position(self) -> int:
        return self.position + self.envelope.size


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of bytes without sound batches, and its offsets. It ends at the next sound batch."""

    path: str
    position: int
    end_position: int
    offset: Offset
    end_offset: Offset


class Scanner:
    """Reads a file window by window. `position` is where it is, and `offset` what it expects there."""

    def __init__(
        self, file: File, *, position: int, offset: Offset, size: int, window_size: int = WINDOW_SIZE
    ) -> None:
        self.file = file
        self.position = position
        self.offset = offset
        self.size = size
        self.window_size = window_size
        self._append_time: Microseconds = 0

    async def next(self) -> list[FoundBatch | Damage]:
        """The contents of the next window, in order; an empty list at the end of the file.

        Damage that reaches the end of the file has an `end_offset` equal to its `offset`: no batch behind it says
        how many offsets it spans.
        """
        while self.position < self.size:
            window = await self._window(self.position, self.window_size)
            items = self._sound_batches(window)
            if not items:
                items = await self._large_batch_or_damage(window)
            if items:
                return items
        return []

    async def _window(self, position: int, length: int) -> memoryview:
        return memoryview(await self.file.read(position, min(length, self.size - position)))

    def _sound_batches(self, window: memoryview) -> list[FoundBatch | Damage]:
        items: list[FoundBatch | Damage] = []
        begin = self.position
        while (found := self._batch_in(window, self.position - begin, self.position)) is not None:
            if found.envelope.base_offset != self.offset:
                break
            items.append(found)
            self._go_behind(found)
        return items

    def _go_behind(self, found: FoundBatch) -> None:
        self.position = found.end_position
        self.offset = found.envelope.end_offset
        self._append_time = found.envelope.append_time

    def _batch_in(self, window: memoryview, at: int, position: int) -> FoundBatch | None:
        envelope = parse_envelope(window, at)
        if envelope is None:
            return None
        found = FoundBatch(position, envelope, window, at + ENVELOPE_SIZE)
        return found if body_is_sound(envelope, found.body) else None

    async def _large_batch_or_damage(self, window: memoryview) -> list[FoundBatch | Damage]:
        """The window begins with a batch that needs a larger window, or with damage."""
        envelope = parse_envelope(window, 0)
        if envelope is not None and self._expected(envelope):
            found = self._batch_in(await self._window(self.position, envelope.size), 0, self.position)
            if found is not None:
                self._go_behind(found)
                return [found]
            return [await self._damage(self.position + envelope.size)]
        # A sound batch with a later offset may be right here: then the missing offsets were cut out before it.
        return [await self._damage(self.position)]

    def _expected(self, envelope: Envelope) -> bool:
        fits = self.position + envelope.size <= self.size and envelope.length <= BODY_SIZE_MAX
        return fits and envelope.base_offset == self.offset

    async def _batch_at(self, position: int) -> FoundBatch | None:
        head = await self._window(position, ENVELOPE_SIZE)
        envelope = parse_envelope(head, 0)
        if envelope is None or envelope.length > BODY_SIZE_MAX:
            return None
        return self._batch_in(await self._window(position, envelope.size), 0, position)

    async def _damage(self, search_from: int) -> Damage:
        """Return the damage between here and the next sound batch, and go to that batch."""
        begin, offset = self.position, self.offset
        found = await self._next_sound(search_from)
        self.position = found.position if found else self.size
        self.offset = found.envelope.base_offset if found else offset
        return Damage(self.file.path, begin, self.position, offset, self.offset)

    async def _next_sound(self, search_from: int) -> FoundBatch | None:
        while search_from < self.size:
            window = bytes(await self._window(search_from, WINDOW_SIZE))
            for at in _places_of_magic(window):
                found = await self._batch_at(search_from + at)
                if found is not None and self._may_follow(found.envelope):
                    return found
            search_from += max(1, len(window) - ENVELOPE_SIZE + 1)
        return None

    def _may_follow(self, envelope: Envelope) -> bool:
        return envelope.base_offset >= self.offset and envelope.append_time >= self._append_time


def _places_of_magic(window: bytes) -> Iterator[int]:
    """Positions at which envelopes may begin; those whole in the window are checked here, without another read."""
    at = window.find(MAGIC_AND_VERSION)
    while at >= 0:
        if len(window) - at < ENVELOPE_SIZE or parse_envelope(window, at) is not None:
            yield at
        at = window.find(MAGIC_AND_VERSION, at + 1)

"""Replaces the file of a sealed segment by a smaller one.

Records that stay keep their bytes and offsets. A batch that loses some keeps its envelope's range; batches that
lose all leave one empty envelope for the whole run of them, so the file still covers every offset from its base
to its end.

The order makes a crash harmless at every step: the new log is durable under a temporary name; the new seal
replaces the old one, and until the log is renamed it does not fit the file, so a start would scan; then one
rename replaces the log, and the seal fits.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import reduce
from operator import or_

import trio
from crc32c import crc32c

from goqueue.core.records.batch import Attribute, Envelope, compress, records_of, seal_envelope
from goqueue.core.records.record import RecordPlace, walk_records
from goqueue.storage.log.index import SparseIndex
from goqueue.storage.log.scan import Damage, FoundBatch
from goqueue.storage.log.segment import SEAL, Segment, read_history
from goqueue.storage.log.summary import Summary
from goqueue.storage.log.volume import TEMPORARY
from goqueue.types import Buffer

Keeps = Callable[[Envelope, RecordPlace, memoryview], bool]
"""Whether to keep a record, by the envelope of its batch, its position in the batch, and the batch's records."""


class Rewrite:
    """A new log file under a temporary name, beside the one that it will replace."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.index = SparseIndex()
        self.summary = Summary(segment.base_offset, segment.base_offset)
        self._gap: Envelope | None = None
        self._volume = segment.volume
        self.temporary = segment.path() + TEMPORARY
        self._file = self._volume.disk.open(self.temporary, create=True)
        self._file.truncate(0)

    async def finish(self) -> None:
        self._end_gap()
        await self._volume.sync([self._file])

    def close(self) -> None:
        """Remove the temporary file, unless it was renamed."""
        self._file.close()
        if self._volume.disk.exists(self.temporary):
            self._volume.disk.remove(self.temporary)

    def add(self, envelope: Envelope, body: Buffer) -> None:
        self._end_gap()
        self._write(envelope, body)

    def skip(self, envelope: Envelope) -> None:
        """Extend the gap by a batch that lost all its records."""
        empty = envelope._replace(
            length=0, record_count=0, attributes=0, priority_mask=0, body_crc=crc32c(b""), highest_timestamp=0
        )
        if self._gap is not None:
            begin = self._gap.base_offset
            empty = empty._replace(base_offset=begin, last_offset_delta=envelope.end_offset - begin - 1)
            empty = empty._replace(durable_offset=self._gap.durable_offset)
        self._gap = empty._replace(producer_id=0, producer_epoch=0, base_sequence=0)

    def _end_gap(self) -> None:
        if self._gap is not None:
            self._write(self._gap, b"")
            self._gap = None

    def _write(self, envelope: Envelope, body: Buffer) -> None:
        self._file.write(self.summary.size, [seal_envelope(envelope), body])
        self.index.note(self.summary.base_offset, self.summary.size, envelope)
        self.summary.note(envelope)


class Untouched(Enum):
    """Why there is no copy."""

    NOTHING_GOES = auto()
    DAMAGED = auto()


async def rewrite(segment: Segment, keeps: Keeps) -> Rewrite | Untouched:
    """A durable copy with only the records to keep."""
    visited = await _visit(segment, lambda found: not _loses_any(found, keeps))
    if visited is not Visited.SOME:
        return Untouched.NOTHING_GOES if visited is Visited.ALL else Untouched.DAMAGED
    copy = Rewrite(segment)
    try:
        if await _visit(segment, lambda found: _copy_kept(copy, found, keeps)) is Visited.ALL:
            await copy.finish()
            return copy
    except BaseException:
        copy.close()
        raise
    copy.close()
    return Untouched.DAMAGED


async def put_in_place(copy: Rewrite) -> Segment | None:
    """Replace the segment by the copy; None when a start could not tell them apart."""
    old = copy.segment
    history = await read_history(old.volume, old.path(SEAL))
    if history is None or copy.summary.size == old.summary.size:
        return None
    new = Segment.rewritten(old, copy.summary, copy.index)
    await new.write_seal(history)
    old.volume.disk.rename(copy.temporary, new.path())
    old.volume.forget(new.path())
    return new


async def joined(segments: Sequence[Segment]) -> Rewrite | None:
    """A durable copy of neighbours in one file, to replace the first; None when one is damaged."""
    copy = Rewrite(segments[0])
    try:
        for segment in segments:
            if await _visit(segment, lambda found: _copy_whole(copy, found)) is not Visited.ALL:
                copy.close()
                return None
        await copy.finish()
    except BaseException:
        copy.close()
        raise
    return copy


async def put_joined_in_place(copy: Rewrite, last: Segment) -> Segment | None:
    """Give the copy the name of the first segment; None when the history up to the last one is not known."""
    volume = last.volume
    history = await read_history(volume, last.path(SEAL))
    if history is None:
        return None
    new = Segment.rewritten(copy.segment, copy.summary, copy.index)
    await new.write_seal(history)
    volume.disk.rename(copy.temporary, new.path())
    volume.forget(new.path())
    return new


class Visited(Enum):
    ALL = auto()
    SOME = auto()
    """The visitor stopped the walk."""
    DAMAGED = auto()


async def _visit(segment: Segment, visit: Callable[[FoundBatch], bool]) -> Visited:
    """Pass batches to `visit` while it returns True."""
    with segment.volume.reader(segment.path()) as file:
        scanner = segment.scanner(file)
        while items := await scanner.next():
            for item in items:
                if isinstance(item, Damage):
                    return Visited.DAMAGED
                if not visit(item):
                    return Visited.SOME
            await trio.lowlevel.checkpoint()  # reads from memory do not wait, and others want to run
    return Visited.ALL if scanner.offset == segment.end_offset else Visited.DAMAGED


def _loses_any(found: FoundBatch, keeps: Keeps) -> bool:
    return found.envelope.record_count > len(_kept(found, keeps)[0])


def _kept(found: FoundBatch, keeps: Keeps) -> tuple[list[RecordPlace], Buffer]:
    """The records of a batch that stay, and the uncompressed body."""
    records = memoryview(records_of(found.envelope, found.body))
    places = walk_records(records, found.envelope.record_count)
    return [place for place in places if keeps(found.envelope, place, records)], records


def _copy_kept(copy: Rewrite, found: FoundBatch, keeps: Keeps) -> bool:
    envelope = found.envelope
    kept, records = _kept(found, keeps)
    if not kept:
        copy.skip(envelope)
    elif len(kept) == envelope.record_count:
        copy.add(envelope, found.body)
    else:
        copy.add(*_smaller(envelope, kept, records))
    return True


def _copy_whole(copy: Rewrite, found: FoundBatch) -> bool:
    if found.envelope.record_count:
        copy.add(found.envelope, found.body)
    else:
        copy.skip(found.envelope)
    return True


def _smaller(envelope: Envelope, kept: list[RecordPlace], records: Buffer) -> tuple[Envelope, bytes]:
    body = b"".join(records[place.position : place.end] for place in kept)
    if envelope.attributes & Attribute.ZSTD:
        body = compress(body)
    return envelope._replace(
        length=len(body),
        record_count=len(kept),
        body_crc=crc32c(body),
        priority_mask=reduce(or_, (1 << place.priority for place in kept)),
        highest_timestamp=max(place.timestamp for place in kept),
    ), body

"""The internal log `__metadata`: the node's topics, one record for each change.

It is a log like any other, so it recovers, is verified and will be replicated like any other. Each record's
value is a msgpack map. A snapshot replaces all records before it, which are then removed.
"""

from collections.abc import Iterator
from typing import Any

import msgpack

from goqueue.config import LogConfig
from goqueue.core.names import METADATA_LOG
from goqueue.core.records.batch import ENVELOPE_SIZE, accept, parse_envelope, records_of
from goqueue.core.records.record import decode_records, encode_record
from goqueue.errors import DamagedData, DiskFull, UnknownFormat
from goqueue.storage.directory.datadirectory import recovery_command
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.types import Buffer, Microseconds

READ_SIZE = 1024 * 1024
RECORDS_MAX = 1_000
"""Limit of records in the log; with more, the next is a snapshot, so that a start reads few."""
SEGMENT_BYTES = 1024 * 1024
"""Segments are small, as the records before a snapshot are removed in whole segments."""


class MetadataLog:
    def __init__(self, log: Log) -> None:
        self._log = log

    @classmethod
    async def open(cls, volume: Volume, directory: str) -> tuple["MetadataLog", list[object]]:
        """The log, and every record in it. Damage stops the start: a topic may hide behind it (G13)."""
        log = await Log.open(volume, directory, LogConfig(segment_bytes=SEGMENT_BYTES))
        try:
            return cls(log), await _read_all(log)
        except BaseException:
            log.abandon()
            raise

    @property
    def wants_snapshot(self) -> bool:
        return self._log.end_offset - self._log.log_start > RECORDS_MAX

    async def write(self, record: dict[str, Any], now: Microseconds) -> None:
        """Durable when it returns. On a full disk nothing has changed, and it works again once there is room."""
        try:
            self._log.append([accept(encode_record(0, now, msgpack.packb(record)), 1)], now)
        except DiskFull:
            await self._log.commit()  # the cut must be durable; until then the log takes no append
            raise
        self._log.advance_high_watermark(await self._log.commit())

    async def write_snapshot(self, record: dict[str, Any], now: Microseconds) -> None:
        start = self._log.end_offset
        await self.write(record, now)
        await self._log.delete_before(start)

    async def close(self) -> None:
        await self._log.close()

    def abandon(self) -> None:
        self._log.abandon()


async def _read_all(log: Log) -> list[object]:
    offset, records = log.log_start, []
    while offset < log.high_watermark:
        try:
            found = await log.read(offset, READ_SIZE)
        except DamagedData as damage:
            raise _damaged(log.directory, damage) from damage
        records += [value for place, value in _values(found.data) if place >= offset]
        offset = found.next_offset
    return records


def _damaged(directory: str, damage: DamagedData) -> UnknownFormat:
    data = directory.removesuffix(f"/logs/{METADATA_LOG}/0")
    return UnknownFormat(
        f"the list of topics is damaged: offsets {damage.offset} to {damage.end_offset - 1} of {directory} cannot "
        f"be read; run `{recovery_command(data)}`, which rebuilds it from the partitions' folders"
    )


def _values(data: Buffer) -> Iterator[tuple[int, object]]:
    view, position = memoryview(data), 0
    while position < len(view):
        envelope = parse_envelope(view, position)
        assert envelope is not None, "a read returned a batch that is not sound"
        body = records_of(envelope, view[position + ENVELOPE_SIZE : position + envelope.size])
        for record in decode_records(body, envelope.record_count, envelope.base_offset):
            yield record.offset, msgpack.unpackb(record.value)
        position += envelope.size

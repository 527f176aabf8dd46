"""Short words for the tests of the log."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from goqueue.config import LogConfig
from goqueue.core.records.batch import (
    ENVELOPE_SIZE,
    NO_PRODUCER,
    Attribute,
    Batch,
    Envelope,
    Producer,
    accept,
    compress,
    parse_envelope,
    records_of,
)
from goqueue.core.records.record import FLAGS_FROM_BROKER, MESSAGE_ID_HEADER, Record, decode_records, encode_record
from goqueue.errors import DamagedData
from goqueue.storage.log.log import Log
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Buffer

DIRECTORY = "/data/logs/orders/0"
NOW = 1_700_000_000_000_000
SMALL = LogConfig(segment_bytes=2_000)
"""Segments of a few batches, so that a test sees many of them."""


def batch(
    *values: bytes,
    key: bytes | None = None,
    keys: Sequence[bytes] | None = None,
    ids: Sequence[bytes | None] | None = None,
    timestamp: int = NOW,
    priority: int = 2,
    flags: int = 0,
    due: int | None = None,
    zstd: bool = False,
    producer: Producer = NO_PRODUCER,
) -> Batch:
    body = b"".join(
        encode_record(
            number,
            timestamp,
            value,
            key=keys[number] if keys else key,
            headers=_id_header(ids[number]) if ids else None,
            priority=priority,
            flags=flags,
            due=due,
        )
        for number, value in enumerate(values)
    )
    return accept(
        compress(body) if zstd else body,
        len(values),
        attributes=Attribute.ZSTD if zstd else 0,
        producer=producer,
        allowed_flags=FLAGS_FROM_BROKER,
    )


def _id_header(message_id: bytes | None) -> dict[str, bytes]:
    return {} if message_id is None else {MESSAGE_ID_HEADER: message_id}


@asynccontextmanager
async def mounted(disk: SimulatedDisk) -> AsyncIterator[Volume]:
    """A volume of its own on a disk, such as one that a crash left."""
    async with trio.open_nursery() as nursery:
        volume = Volume(disk)
        await nursery.start(volume.run)
        yield volume
        nursery.cancel_scope.cancel()


async def open_log(volume: Volume, config: LogConfig = SMALL) -> Log:
    return await Log.open(volume, DIRECTORY, config)


async def publish(log: Log, *batches: Batch, now: int = NOW) -> list[int]:
    """Append and make visible, as a partition does for acks=all."""
    offsets = log.append(batches, now)
    log.advance_high_watermark(await log.commit())
    return offsets


def envelopes_in(data: Buffer) -> list[tuple[Envelope, memoryview]]:
    found = []
    view, position = memoryview(data), 0
    while position < len(view):
        envelope = parse_envelope(view, position)
        assert envelope is not None
        found.append((envelope, view[position + ENVELOPE_SIZE : position + envelope.size]))
        position += envelope.size
    return found


def records_in(data: Buffer) -> list[Record]:
    return [
        record
        for envelope, body in envelopes_in(data)
        for record in decode_records(records_of(envelope, body), envelope.record_count, envelope.base_offset)
    ]


async def read_all(log: Log, start: int | None = None, bytes_max: int = 10_000) -> list[Record]:
    """Every record from `start` on that a reader sees, going round damage."""
    offset = log.log_start if start is None else start
    records: list[Record] = []
    while offset < log.high_watermark:
        try:
            found = await log.read(offset, bytes_max)
        except DamagedData as damage:
            offset = max(offset + 1, damage.end_offset)
            continue
        records += [record for record in records_in(found.data) if record.offset >= offset]
        assert found.next_offset > offset
        offset = found.next_offset
    return records


async def values_in(log: Log, start: int | None = None) -> list[bytes]:
    return [record.value for record in await read_all(log, start)]


def file_names(disk: SimulatedDisk, suffix: str = "") -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(suffix)]


def path_of(base: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base:020d}{suffix}"

"""Copies all data of a broker over the wire: a snapshot of one moment, then every partition up to it.

Batches are copied as they are on disk, each checked by its checksums. Meanwhile the broker goes on. It may be
restarted; retention and compaction may remove messages, and topics may be deleted: each of these is reported, so
that the copy can say what it holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import trio

from goqueue.client.link.caller import Caller
from goqueue.core.records.batch import ENVELOPE_SIZE, Envelope, body_is_sound, parse_envelope
from goqueue.errors import CorruptMessage, DamagedData, GoQueueError, OffsetOutOfRange, Unavailable
from goqueue.net.wire import messages as wire
from goqueue.net.wire import schemas as schema
from goqueue.net.wire.failures import error_of
from goqueue.types import Offset

BYTES_MAX = 1024 * 1024
WAIT_MS = 1_000
PATIENCE_SECONDS = 30.0
"""Limit of the wait for a partition that is being restarted."""
PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Batches:
    """Whole batches, in order; the first may begin before the requested offset."""

    batches: tuple[tuple[Envelope, memoryview], ...]


@dataclass(frozen=True, slots=True)
class RemovedPiece:
    """The partition now begins here."""

    start: Offset


@dataclass(frozen=True, slots=True)
class DamagedPiece:
    """Offsets up to here cannot be read any more."""

    end_offset: Offset
    reason: str


Piece: TypeAlias = Batches | RemovedPiece | DamagedPiece


async def take_snapshot(client: Caller) -> wire.Snapshot:
    return await client.call(wire.TakeSnapshot(), wire.Snapshot)


async def registry_pieces(client: Caller, snapshot: wire.Snapshot) -> list[bytes]:
    """The schema registry of that moment; none from a broker that does not send it. Ask for it at once: the broker
    keeps it for this connection only."""
    return [
        (await client.call(schema.FetchRegistry(number), schema.RegistryPiece)).data
        for number in range(snapshot.registry_pieces)
    ]


async def piece_at(client: Caller, topic: bytes, partition: int, offset: Offset) -> Piece:
    """The batches at this offset, which is below the partition's end. `UnknownTopic` once its topic is deleted."""
    request = wire.Fetch(WAIT_MS, BYTES_MAX, (wire.FetchPartition(topic, partition, 0, offset),))
    deadline = trio.current_time() + PATIENCE_SECONDS
    while True:
        [found] = (await client.call(request, wire.Fetched)).partitions
        if found.error is not None:
            piece = _piece_of(error_of(found.error), offset, is_last=trio.current_time() >= deadline)
        else:
            piece = Batches(tuple(_batches_in(found.data))) if found.data else None
        if piece is not None:
            return piece
        if trio.current_time() >= deadline:
            raise Unavailable(f"the broker does not show offset {offset} of partition {partition} any more")
        await trio.sleep(PAUSE_SECONDS)


def _piece_of(error: GoQueueError, offset: Offset, *, is_last: bool) -> Piece | None:
    """None if a repeat may help."""
    start = error.details.get("start")
    if isinstance(error, OffsetOutOfRange) and isinstance(start, int) and start > offset:
        return RemovedPiece(start)
    if isinstance(error, DamagedData) and error.end_offset > offset:
        return DamagedPiece(error.end_offset, error.message)
    if error.retryable and not is_last:
        return None
    raise error


def _batches_in(data: bytes) -> Iterator[tuple[Envelope, memoryview]]:
    view, position = memoryview(data), 0
    while position < len(view):
        envelope = parse_envelope(view, position)
        end = position + (envelope.size if envelope is not None else 0)
        if envelope is None or not body_is_sound(envelope, view[position + ENVELOPE_SIZE : end]):
            raise CorruptMessage("a batch changed on its way; run the backup again")
        yield envelope, view[position:end]
        position = end

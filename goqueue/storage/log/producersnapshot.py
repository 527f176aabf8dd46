"""The file `producers`: the states of a partition's producers, when they are many.

    0 "GQP"   3 version=1   4 CRC32C of everything else   8 msgpack:
      [replay from, covers to, forgotten to, number of producers], then each producer as in a seal

Up to `ProducerLimits.inline_max` producers are part of every seal and recovery point. More would make every
checkpoint slow, so they are written here, and only when the log has grown: a start loads this file and replays the
batches from `replay_from` on.

The states are encoded in slices of 2 ms while appends go on. So some already know batches from `replay_from` on,
up to `covers_to`; replaying those changes nothing. The file gets its name once the log is durable up to
`covers_to`: it never knows a batch that a power cut can take away. The forgotten id is read last, so that a
producer that is forgotten meanwhile is either in the file or covered by that id.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgpack
from crc32c import crc32c

from goqueue.core.log.nodeproducers import ProducerLimits
from goqueue.core.log.producers import ProducerStates
from goqueue.storage.log.scan import FoundBatch
from goqueue.storage.log.segment import Segment
from goqueue.storage.log.summary import producer_note
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices
from goqueue.types import Offset

NAME = "producers"
MAGIC = b"GQP"
VERSION = 1
SIZE_MAX = 64 * 1024 * 1024
WHAT_BECOMES_OF_DAMAGE = "it does not match its checksum; the next start reads the producers from the log instead"
_MAGIC_AND_VERSION = MAGIC + bytes([VERSION])


@dataclass(frozen=True, slots=True)
class EncodedProducers:
    """A snapshot that may be written once the log is durable up to its end after the encoding."""

    replay_from: Offset
    noted: int
    """The number of batches that the states had noted when the encoding began."""
    data: bytes


@dataclass(frozen=True, slots=True)
class FoundProducers:
    replay_from: Offset
    states: ProducerStates


@dataclass(slots=True)
class ProducerTail:
    """The part of the log that a start replays to restore the producers."""

    limits: ProducerLimits
    begin: Offset = 0
    in_file: bool = False
    """The states up to `begin` are in the file; else in the recovery point."""
    _noted: int = 0
    _bytes: int = 0

    def has_outgrown(self, states: ProducerStates, appended_bytes: int) -> bool:
        """Whether the file is to be written anew, or for the first time."""
        if len(states) <= self.limits.inline_max:
            return False
        batches_max = max(self.limits.replayed_batches_min, len(states) // 2)
        is_long = states.noted - self._noted >= batches_max
        return not self.in_file or is_long or appended_bytes - self._bytes >= self.limits.replayed_bytes_max

    def begin_at(self, offset: Offset, noted: int, appended_bytes: int, *, in_file: bool) -> None:
        self.begin, self._noted, self._bytes, self.in_file = offset, noted, appended_bytes, in_file


async def encode_producers(
    states: ProducerStates, end: Callable[[], Offset], slice_seconds: float
) -> EncodedProducers:
    """`end` returns the end of the log, also while this waits."""
    packer, slices, pieces = msgpack.Packer(), Slices(slice_seconds), []
    replay_from, noted = end(), states.noted
    for producer_id in states.ids():
        state = states.get(producer_id)
        if state is not None:
            pieces.append(packer.pack(state.snapshot(producer_id)))
        await slices.step()
    head = packer.pack([replay_from, end(), states.forgotten_to, len(pieces)])
    packed = b"".join([head, *pieces])
    crc = crc32c(packed, crc32c(_MAGIC_AND_VERSION)).to_bytes(4, "big")
    return EncodedProducers(replay_from, noted, _MAGIC_AND_VERSION + crc + packed)


async def write_producers(volume: Volume, directory: str, encoded: EncodedProducers) -> None:
    await volume.replace(directory, NAME, [encoded.data])


async def read_producers(volume: Volume, directory: str) -> FoundProducers | None:
    """None when there is no sound file."""
    try:
        data = await volume.read_whole(f"{directory}/{NAME}", SIZE_MAX)
    except FileNotFoundError:
        return None
    return await decode_producers(data, volume.producers.limits)


async def decode_producers(data: bytes, limits: ProducerLimits) -> FoundProducers | None:
    """None when they are not sound."""
    if sound_version(data) != VERSION:
        return None
    unpacker, slices = msgpack.Unpacker(max_buffer_size=SIZE_MAX), Slices(limits.slice_seconds)
    unpacker.feed(memoryview(data)[8:])
    replay_from, _, forgotten_to, count = unpacker.unpack()
    states = ProducerStates(limits.partition_max, forgotten_to)
    for _ in range(count):
        states.restore(unpacker.unpack())
        await slices.step()
    return FoundProducers(replay_from, states)


def sound_version(data: bytes) -> int | None:
    """The version of a file that matches its checksum, known or not."""
    if data[:3] != MAGIC or len(data) < 8 or crc32c(data[8:], crc32c(data[:4])).to_bytes(4, "big") != data[4:8]:
        return None
    return data[3]


async def replayed_producers(segments: Iterable[Segment], found: FoundProducers) -> FoundProducers:
    """The states at the end of these segments."""
    for segment in segments:
        if segment.end_offset > found.replay_from:
            await _replay(segment, found.states, found.replay_from)
    return found


async def _replay(segment: Segment, states: ProducerStates, offset: Offset) -> None:
    with segment.volume.reader(segment.path()) as file:
        place = (await segment.index(file)).place_of_offset(max(0, offset - segment.base_offset))
        scanner = segment.scanner(file, place)
        while items := await scanner.next():
            for item in items:
                if (
                    isinstance(item, FoundBatch)
                    and item.envelope.producer_id
                    and item.envelope.base_offset >= offset
                ):
                    states.replay(*producer_note(item.envelope))

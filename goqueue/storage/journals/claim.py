"""How much of a journal is durable, written down beside it: `{journal}.durable`.

    0 "GQD"   3 version=1   4 CRC32C of everything else   8 number: every entry below it was fsynced

A frame claims what lies before it. The last frame has no such witness, and a file that is cut between two frames
looks as if it had never been longer. The claim closes that gap: a journal that ends below its claim lost entries.

The file is overwritten in place and not synced. It is written after the sync of what it claims, so an old one or a
missing one claims less than there is, never more. A torn one fails its checksum and counts as missing.
"""

from struct import Struct

from crc32c import crc32c

from goqueue.errors import StorageError
from goqueue.storage.log.volume import Volume

SUFFIX = ".durable"
_CLAIM = Struct(">3sBIQ")
_MAGIC, _VERSION = b"GQD", 1


def encode_claim(number: int) -> bytes:
    crc = crc32c(_CLAIM.pack(_MAGIC, _VERSION, 0, number))
    return _CLAIM.pack(_MAGIC, _VERSION, crc, number)


def decode_claim(data: bytes) -> int | None:
    """The number, or None when the claim is not sound."""
    if len(data) != _CLAIM.size:
        return None
    number: int = _CLAIM.unpack(data)[3]
    return number if encode_claim(number) == data else None


async def read_claim(volume: Volume, path: str) -> int:
    """What is claimed of the journal `path`: below this number all was durable."""
    try:
        return decode_claim(await volume.read_whole(path + SUFFIX, _CLAIM.size + 1)) or 0
    except (FileNotFoundError, StorageError):
        return 0


async def is_sound_claim(volume: Volume, path: str) -> bool:
    """Whether the claim beside the journal `path` is sound, or missing."""
    try:
        return decode_claim(await volume.read_whole(path + SUFFIX, _CLAIM.size + 1)) is not None
    except FileNotFoundError:
        return True
    except StorageError:
        return False


def write_claim(volume: Volume, path: str, number: int) -> None:
    file = volume.disk.open(path + SUFFIX, create=True)
    try:
        file.write(0, [encode_claim(number)])
    finally:
        file.close()

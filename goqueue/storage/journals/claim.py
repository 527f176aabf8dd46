"""The claim: a file beside a journal that says how much of it is durable, `{journal}.durable`.

    0 "GQD"   3 version=1   4 CRC32C of everything else   8 number: every entry below it was fsynced

A frame claims that the frames before it are durable. Nothing claims the last frame, and a file that is cut between
two frames looks as if it had never been longer. The claim closes that gap: a journal that ends below its claim lost
entries.

The file is overwritten in place and not synced. It is written after the sync of what it claims, so an old or a
missing claim says too little, never too much. A torn one fails its checksum and counts as missing.
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
    """The claim of the journal `path`: every entry below this number was durable."""
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

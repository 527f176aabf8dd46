"""Small JSON files that people may read, with a checksum in them.

    {"uuid": "…", "partition": 0, "crc32c": "9f3a01c2"}

The checksum covers the other fields, written without spaces and in the order of their names. A file without a
checksum, from an older goqueue, is accepted as it is.
"""

import json
from collections.abc import Mapping
from typing import Any

from crc32c import crc32c

CHECKSUM = "crc32c"


def pack(fields: Mapping[str, Any], indent: int | None = None) -> bytes:
    return json.dumps({**fields, CHECKSUM: _checksum(fields)}, indent=indent).encode() + b"\n"


def is_sound(fields: Mapping[str, Any]) -> bool:
    """Whether these fields match their checksum, or have none."""
    others = {name: value for name, value in fields.items() if name != CHECKSUM}
    return CHECKSUM not in fields or fields[CHECKSUM] == _checksum(others)


def _checksum(fields: Mapping[str, Any]) -> str:
    return f"{crc32c(json.dumps(fields, sort_keys=True, separators=(',', ':')).encode()):08x}"

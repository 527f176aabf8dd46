"""Words shared by every layer (SPEC §1)."""

from enum import IntEnum
from typing import TypeAlias

Offset: TypeAlias = int
"""The number of a record in its partition, from 0."""

Microseconds: TypeAlias = int
"""Wall time as microseconds since 1970, or a length of time."""

Buffer: TypeAlias = bytes | bytearray | memoryview


class Priority(IntEnum):
    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4


LANE_COUNT = len(Priority)


class Acks(IntEnum):
    """What a producer waits for."""

    NONE = 0
    """Nothing."""
    LEADER = 1
    """It is in the leader's file: survives `kill -9`."""
    ALL = 2
    """It is fsynced at every in-sync replica: survives power loss."""


Scalar: TypeAlias = str | bytes | int | float | bool | None
"""A value of a setting or a statistic."""

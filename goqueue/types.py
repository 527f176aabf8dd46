"""Words shared by every layer (SPEC §1)."""

from datetime import timedelta
from enum import IntEnum
from typing import TypeAlias

Offset: TypeAlias = int
"""The number of a record in its partition, from 0."""

Microseconds: TypeAlias = int
"""Wall time as microseconds since 1970, or a length of time."""

Seconds: TypeAlias = float | timedelta
"""A length of time that a program gives: seconds as a number, or a timedelta."""

Buffer: TypeAlias = bytes | bytearray | memoryview

_NUMBER_FORMS = tuple("bcdoxXneEfFgG%")


class Priority(IntEnum):
    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4

    def __str__(self) -> str:
        """Its name, as `publish` takes it."""
        return _PRIORITY_NAMES[self]

    def __format__(self, form: str) -> str:
        """The name, too, unless a form for numbers is asked: f"{priority:d}"."""
        return format(int(self) if form[-1:] in _NUMBER_FORMS else str(self), form)


LANE_COUNT = len(Priority)
_PRIORITY_NAMES = tuple(priority.name.lower() for priority in Priority)


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


def seconds_of(length: object) -> object:
    """A timedelta in seconds; everything else as it is, for the check that follows."""
    return length.total_seconds() if isinstance(length, timedelta) else length

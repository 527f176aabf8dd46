"""Checks a program's arguments before anything is sent: the error says what to pass instead.

A bool is no number here: `max_in_flight=True` is a mistake, not a one.
"""

import math
from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any, TypeGuard

from goqueue.client.link.moments import setting_of
from goqueue.core.sending.partitioner import check_partition
from goqueue.core.topics.metadata import PARTITIONS_MAX as TOPIC_PARTITIONS_MAX
from goqueue.errors import InvalidConfig, OffsetOutOfRange, UnknownPartition
from goqueue.net.wire.fields import INTEGER_MAX, NAME_SIZE_MAX
from goqueue.types import Offset, seconds_of

PARTITIONS_MAX = 2**32
MILLISECONDS_MAX = 24 * 3_600_000
TEXT_NEEDED = "must be text that UTF-8 can hold, without lone surrogates"


def refusal(fault: str) -> InvalidConfig:
    return InvalidConfig(fault, faults=[fault])


def check_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise refusal(f"{name}={shortened(value)} must be True or False")
    return value


def check_whole(name: str, value: object, least: int = 0, most: int = INTEGER_MAX) -> int:
    if type(value) is not int or not least <= value <= most:
        raise refusal(f"{name}={shortened(value)} must be a whole number, {least:,} to {most:,}")
    return value


def check_seconds_between(name: str, value: object, least: float, most: float) -> float:
    """Seconds as a float. The comparison refuses nan, too."""
    seconds = seconds_of(value)
    if isinstance(seconds, int) and abs(seconds) > INTEGER_MAX:
        seconds = math.nan  # a float cannot hold every whole number
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not least <= seconds <= most:
        allowed = f"{least:g} seconds or more" if most == math.inf else f"{least:g} to {most:g} seconds"
        raise refusal(f"{name}={shortened(value)} must be {allowed}, as a number or a timedelta")
    return float(seconds)


def check_milliseconds(name: str, value: object) -> float:
    """Milliseconds, a day at most, as seconds."""
    plain = setting_of(name, value)
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not 0 <= plain <= MILLISECONDS_MAX:
        raise refusal(
            f"{name}={shortened(value)} must be 0 to {MILLISECONDS_MAX:,} milliseconds, as a number or a timedelta"
        )
    return plain / 1_000


def is_text(value: object) -> TypeGuard[str]:
    """Whether it is text that can be sent: a lone surrogate, as JSON may bring it, cannot."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def check_text(name: str, value: object, length_max: int) -> str:
    if not is_text(value):
        raise refusal(f"{name}={shortened(value)} {TEXT_NEEDED}")
    if len(value) > length_max:
        raise refusal(f"{name} has {len(value):,} characters; use {length_max:,} at most")
    return value


def check_client_name(value: object) -> str:
    """The name by which the broker knows a client."""
    name = check_text("name", value, NAME_SIZE_MAX)
    if len(name.encode()) > NAME_SIZE_MAX:
        raise refusal(f"name has {len(name.encode())} bytes; use {NAME_SIZE_MAX} at most")
    return name


def check_partition_count(value: object) -> int:
    return check_whole("partitions", value, 1, TOPIC_PARTITIONS_MAX)


def check_settings(name: str, value: object) -> dict[str, Any]:
    """Only types are checked here: the broker knows the settings and their values."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refusal(f"{name}={shortened(value)} must be a map of settings' names to their values")
    return {key: setting_of(key, each) for key, each in value.items()}


def check_any_partition(value: object) -> int:
    """Whether the topic has this partition is checked elsewhere."""
    if type(value) is int and not 0 <= value < PARTITIONS_MAX:
        raise UnknownPartition(f"there is no partition {value}; they are numbered from 0")
    return check_partition(value, PARTITIONS_MAX)


def check_offset(name: str, value: object) -> Offset:
    if type(value) is not int:
        raise refusal(f"{name}: an offset is a whole number, not {shortened(value)}")
    return offset_in_range(name, value)


def offset_in_range(name: str, offset: Offset) -> Offset:
    if not 0 <= offset <= INTEGER_MAX:
        instead = f", and the last {-offset:,} are 'last:{-offset}'" if name == "start" and offset < 0 else ""
        raise OffsetOutOfRange(f"{name}={offset} is no offset; they begin with 0{instead}")
    return offset

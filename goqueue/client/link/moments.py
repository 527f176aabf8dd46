"""Times from programs: seconds as a number, a datetime or ISO text. A time without a zone is UTC.

A length of time is seconds as a number, or a timedelta, which becomes seconds before it is checked.
"""

import math
from datetime import UTC, datetime, timedelta
from reprlib import repr as shortened
from typing import TypeAlias

from goqueue.core.records.record import DELAY_BIT, DELAY_MAX, TIMESTAMP_MAX
from goqueue.errors import InvalidConfig, InvalidMessage
from goqueue.types import Microseconds, Seconds, seconds_of

Moment: TypeAlias = float | datetime | str
UNREADABLE = (ValueError, TypeError, OverflowError)
_MILLION = 1_000_000
_UNITS = {"_hours": timedelta(hours=1), "_seconds": timedelta(seconds=1), "_ms": timedelta(milliseconds=1)}
"""The ends of settings' names, and what their numbers count."""


def setting_of(name: str, value: object) -> object:
    """The value of a setting, a timedelta in the unit that the setting's name ends with."""
    if not isinstance(value, timedelta):
        return value
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), None)
    if unit is None:
        fault = f"{shortened(name)} is no length of time; give a plain value, not a timedelta"
        raise InvalidConfig(fault, faults=[fault])
    amount = value / unit
    return int(amount) if amount.is_integer() else amount


def microseconds_of(time: object) -> Microseconds:
    """Microseconds since 1970, also negative or far in the future; one of `UNREADABLE` when it is no time."""
    if isinstance(time, timedelta):
        raise TypeError("it is a length of time, not a moment")
    if isinstance(time, bool) or not isinstance(time, str | int | float | datetime):
        raise TypeError(f"it is of type {type(time).__name__}")
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    if isinstance(moment, datetime):
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return round(moment * _MILLION)


def clamped_microseconds_of(time: object) -> Microseconds:
    """The same, within the range of a timestamp."""
    return min(max(0, microseconds_of(time)), TIMESTAMP_MAX)


def due_of(delay: Seconds | None, deliver_at: Moment | None) -> int | None:
    """The due time of a message in the format of records; None: at once."""
    if delay is None and deliver_at is None:
        return None
    if delay is not None and deliver_at is not None:
        raise InvalidMessage("both delay and deliver_at are given; give one of them")
    if delay is not None:
        return _delay(delay)
    return due_time_of(deliver_at)


def _delay(delay: Seconds) -> int | None:
    """Counted by the broker, from when it writes the message."""
    seconds = seconds_of(delay)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise InvalidMessage(f"delay={shortened(delay)} is no delay; give seconds, 0 or more, or a timedelta")
    if seconds * _MILLION > DELAY_MAX:
        raise InvalidMessage(f"delay={shortened(delay)} is beyond {DELAY_MAX // _MILLION:,} seconds")
    microseconds = math.ceil(seconds * _MILLION)
    return microseconds | DELAY_BIT if microseconds else None


def due_time_of(deliver_at: object) -> Microseconds:
    try:
        due = microseconds_of(deliver_at)
    except UNREADABLE as error:
        raise InvalidMessage(
            f"deliver_at={shortened(deliver_at)} is no time ({error}); give seconds, a datetime or ISO text"
        ) from None
    if not 0 <= due <= TIMESTAMP_MAX:
        raise InvalidMessage(f"deliver_at={shortened(deliver_at)} is before 1970 or beyond the year 3111")
    return due

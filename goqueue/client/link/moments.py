"""Times from programs: seconds as a number, a datetime or ISO text. A time without a zone is UTC."""

import math
from datetime import UTC, datetime
from reprlib import repr as shortened
from typing import TypeAlias

from goqueue.core.records.record import DELAY_BIT, DELAY_MAX, TIMESTAMP_MAX
from goqueue.errors import InvalidMessage
from goqueue.types import Microseconds

Moment: TypeAlias = float | datetime | str
UNREADABLE = (ValueError, TypeError, OverflowError)
_MILLION = 1_000_000


def microseconds_of(time: object) -> Microseconds:
    """Microseconds since 1970, also negative or far in the future; one of `UNREADABLE` when it is no time."""
    if isinstance(time, bool) or not isinstance(time, str | int | float | datetime):
        raise TypeError(f"it is of type {type(time).__name__}")
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    if isinstance(moment, datetime):
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return round(moment * _MILLION)


def clamped_microseconds_of(time: object) -> Microseconds:
    """The same, within the range of a timestamp."""
    return min(max(0, microseconds_of(time)), TIMESTAMP_MAX)


def due_of(delay: float | None, deliver_at: Moment | None) -> int | None:
    """The due time of a message in the format of records; None: at once."""
    if delay is None and deliver_at is None:
        return None
    if delay is not None and deliver_at is not None:
        raise InvalidMessage("both delay and deliver_at are given; give one of them")
    if delay is not None:
        return _delay(delay)
    return due_time_of(deliver_at)


def _delay(delay: float) -> int | None:
    """Counted by the broker, from when it writes the message."""
    if type(delay) not in (int, float) or not 0 <= delay < math.inf:
        raise InvalidMessage(f"delay={shortened(delay)} is no delay; give seconds, 0 or more")
    if delay * _MILLION > DELAY_MAX:
        raise InvalidMessage(f"delay={shortened(delay)} is beyond {DELAY_MAX // _MILLION:,} seconds")
    microseconds = math.ceil(delay * _MILLION)
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

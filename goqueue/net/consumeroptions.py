"""What a consumer can be told, checked before anything is asked.

There are those that the whole group shares (`mode`, `shared`, `key_order`, `lanes`, `max_deliveries`) and those of
this consumer alone. Of the first kind only what was given is sent: what is left out is as the group has it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from goqueue.core.names import check_group_name
from goqueue.core.record import TIMESTAMP_MAX
from goqueue.core.subscription import Subscription
from goqueue.errors import InvalidConfig, OffsetOutOfRange
from goqueue.types import Offset

Start: TypeAlias = Offset | float | str | datetime

IN_FLIGHT_MAX = 4_000
IN_FLIGHT_BYTES_MAX = 16 * 1024 * 1024
VISIBILITY_SECONDS = 30.0
VISIBILITY_SECONDS_MIN, VISIBILITY_SECONDS_MAX = 0.05, 12 * 3600.0
OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    topics: str | Sequence[str]
    group: str
    mode: str = "queue"
    shared: bool | None = None
    key_order: bool | None = None
    lanes: str | None = None
    max_deliveries: int | None = None
    start: Start = "earliest"
    max_in_flight: int = IN_FLIGHT_MAX
    max_in_flight_bytes: int = IN_FLIGHT_BYTES_MAX
    visibility_timeout: float = VISIBILITY_SECONDS
    auto_extend: bool | None = None
    member_id: str | None = None

    def __post_init__(self) -> None:
        check_group_name(self.group)
        if self.mode == "stream":
            raise InvalidConfig('mode="stream" is not there yet; use mode="queue", or read without a group')
        if self.key_order:
            raise InvalidConfig("key_order=True is not there yet; leave it out")
        if self.max_in_flight < 1 or self.max_in_flight_bytes < 1:
            raise InvalidConfig("a consumer needs room: max_in_flight and max_in_flight_bytes are 1 or more")
        check_seconds("visibility_timeout", self.visibility_timeout, VISIBILITY_SECONDS_MIN)

    @property
    def subscription(self) -> tuple[str, ...]:
        """As it travels: one pattern, or names."""
        asked = self.topics if isinstance(self.topics, str) else list(self.topics)
        plain = Subscription.to(asked).to_plain()
        return (plain,) if isinstance(plain, str) else tuple(plain)

    @property
    def settings(self) -> dict[str, Any]:
        """What the group is asked for."""
        asked = {
            "mode": self.mode,
            "shared": self.shared,
            "key_order": self.key_order,
            "lanes": self.lanes,
            "max_deliveries": self.max_deliveries,
        }
        return {name: value for name, value in asked.items() if value is not None}


def check_seconds(name: str, seconds: float, least: float = 0.0) -> float:
    if not math.isfinite(seconds) or not least <= seconds <= VISIBILITY_SECONDS_MAX:
        raise InvalidConfig(f"{name}={seconds!r} must be {least:g} to {VISIBILITY_SECONDS_MAX:g} seconds")
    return float(seconds)


def start_text(start: Start) -> str:
    """Where to begin, as it travels: `earliest`, `latest`, `offset:N` or `time:MICROSECONDS`."""
    if start in ("earliest", "latest"):
        return str(start)
    if type(start) is int:
        if not 0 <= start <= OFFSET_MAX:
            raise OffsetOutOfRange(f"start={start} is no offset; they begin with 0")
        return f"offset:{start}"
    return f"time:{_microseconds(start)}"


def _microseconds(time: Start) -> int:
    """Seconds as a float, a datetime or ISO text. A time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) else time
        if isinstance(moment, datetime):
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return min(max(0, round(moment * 1_000_000)), TIMESTAMP_MAX)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidConfig(
            f"start={time!r} is neither an offset, 'earliest', 'latest' nor a time ({error})"
        ) from None

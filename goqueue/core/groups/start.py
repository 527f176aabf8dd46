"""Where a group begins on a partition: `earliest`, `latest`, `last:N`, `offset:N` or `time:MICROSECONDS`."""

import re
from dataclasses import dataclass
from reprlib import repr as shortened

from goqueue.core.names import check_publishable
from goqueue.errors import InvalidConfig, ProtocolError
from goqueue.types import Microseconds, Offset

EARLIEST, LATEST = "earliest", "latest"

_SHAPE = re.compile(r"(offset|time|last):([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Start:
    is_latest: bool = False
    offset: Offset | None = None
    time: Microseconds | None = None
    last: int | None = None
    """The number of offsets before the end. With none of these: the earliest."""


def parse_start(text: object) -> Start:
    """`InvalidConfig` if it is no start."""
    if text in (EARLIEST, LATEST):
        return Start(is_latest=text == LATEST)
    shape = _SHAPE.fullmatch(text) if isinstance(text, str) else None
    if shape is None:
        fault = f"start is {shortened(text)}, but must be earliest, latest, last:N, offset:N or time:MICROSECONDS"
        raise InvalidConfig(fault, faults=[fault])
    number = int(shape[2])
    if shape[1] == "last":
        return Start(last=number)
    return Start(offset=number) if shape[1] == "offset" else Start(time=number)


def last_count(text: object) -> int | None:
    """N of `last:N`, else None."""
    shape = _SHAPE.fullmatch(text) if isinstance(text, str) else None
    return int(shape[2]) if shape is not None and shape[1] == "last" else None


def check_start(start: object) -> str:
    parse_start(start)
    return str(start)


def check_reset(topic: str | None, partition: int | None, start: str) -> None:
    """Checks what a reset of a group is for: all of it, a topic, or a partition of a topic."""
    check_start(start)
    if topic is not None:
        check_publishable(topic)
    elif partition is not None:
        raise ProtocolError("a partition was named without its topic; name both, or neither")


def may_miss(start: str) -> bool:
    """Whether a group that begins there later than it was told would miss messages."""
    return start != EARLIEST  # an offset behind the end is the end, which moves

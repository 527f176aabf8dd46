"""Where a group begins on a partition: `earliest`, `latest`, `offset:N` or `time:MICROSECONDS`."""

import re
from dataclasses import dataclass
from reprlib import repr as shortened

from goqueue.errors import InvalidConfig
from goqueue.types import Microseconds, Offset

_SHAPE = re.compile(r"(offset|time):([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Start:
    is_latest: bool = False
    offset: Offset | None = None
    time: Microseconds | None = None
    """With none of these: the earliest."""


def parse_start(text: str) -> Start:
    if text in ("earliest", "latest"):
        return Start(is_latest=text == "latest")
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        fault = f"start {shortened(text)} is none of earliest, latest, offset:N and time:MICROSECONDS"
        raise InvalidConfig(f"{fault}; give one of these", faults=[fault])
    number = int(shape[2])
    return Start(offset=number) if shape[1] == "offset" else Start(time=number)

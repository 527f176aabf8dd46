"""Times and lengths of time on the command line: 2026-01-31T12:00:00Z, 1h ago, for 30s."""

import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

import click

LENGTH = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([smhd])", re.ASCII)
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
LENGTHS_ALLOWED = "seconds, or text like 30s, 15m, 1h, 3d"
TIME_MAX = (2**63 - 1) / 1_000_000


def length_of(text: str) -> float | None:
    """The seconds of a text like 30s or 1.5h; None if it has no unit, or is none."""
    found = LENGTH.fullmatch(text.strip())
    return None if found is None else float(found[1]) * UNIT_SECONDS[found[2]]


class Length(click.ParamType[float]):
    """Seconds, with a unit or without."""

    name = "SECONDS"

    def __init__(self, *, above_zero: bool = False) -> None:
        self._above_zero = above_zero

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        with_unit = length_of(str(value))
        seconds = _number(value) if with_unit is None else with_unit
        if not 0 <= seconds < math.inf:
            self.fail(f"{value!r} is no length of time; give {LENGTHS_ALLOWED}", param, ctx)
        if self._above_zero and not seconds:
            self.fail("0 is too short; give more", param, ctx)
        return seconds


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return math.nan


class Time(click.ParamType[float]):
    """Always a float: to a reader, a whole number is an offset."""

    name = "TIME"
    allowed = "seconds since 1970, or 2026-01-31T12:00:00Z"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = self.seconds(str(value))
        except (ValueError, OverflowError):
            seconds = math.nan
        if not 0 <= seconds <= TIME_MAX:
            self.fail(f"{value!r} is no time; give {self.allowed}", param, ctx)
        return seconds

    def seconds(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class PastTime(Time):
    """Also how long ago: 30s, 15m, 1h, 3d."""

    allowed = f"{Time.allowed}, or how long ago: 30s, 15m, 1h, 3d"

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def seconds(self, text: str) -> float:
        ago = length_of(text)
        return super().seconds(text) if ago is None else max(0.0, self._now() - ago)

"""A broker's counters of delayed messages, by topic."""

from dataclasses import dataclass, field
from functools import partial

from goqueue.core.counters import LabelledCounters
from goqueue.core.delays.pending import DelayState
from goqueue.core.histogram import Histogram

DELAY_COUNTERS = {
    "delay.pending": "delayed messages that wait for their time",
    "delay.fired": "delivered since the start",
    "delay.cancelled": "cancelled since the start",
    "delay.rescheduled": "given another time since the start",
    "delay.expired": "purged, or dropped from a full topic, before their time, or at the end of their ttl",
    "delay.lateness_p50_ms": "from when one was due, and written, until it could be read, of half of them, at most",
    "delay.lateness_p99_ms": "the same of 99 in 100",
    "delay.lateness_max_ms": "the latest of all",
}


@dataclass(slots=True)
class DelaySeries:
    """The counters of one topic. A partition keeps the series of its topic for its whole life."""

    pending: int = 0
    """How many wait now: no counter, it falls."""
    fired: int = 0
    cancelled: int = 0
    rescheduled: int = 0
    expired: int = 0

    def note_ended(self, state: DelayState) -> None:
        if state is DelayState.DELIVERED:
            self.fired += 1
        elif state is DelayState.CANCELLED:
            self.cancelled += 1
        else:
            self.expired += 1

    def add(self, other: "DelaySeries", /) -> None:
        self.pending += other.pending
        self.fired += other.fired
        self.cancelled += other.cancelled
        self.rescheduled += other.rescheduled
        self.expired += other.expired


@dataclass(slots=True)
class DelayCounts:
    lateness: Histogram = field(default_factory=Histogram)
    of: LabelledCounters[DelaySeries] = field(default_factory=partial(LabelledCounters, DelaySeries))
    """By topic."""

    def report(self, total: DelaySeries) -> dict[str, int | float]:
        return {
            "delay.pending": total.pending,
            "delay.fired": total.fired,
            "delay.cancelled": total.cancelled,
            "delay.rescheduled": total.rescheduled,
            "delay.expired": total.expired,
            "delay.lateness_p50_ms": _milliseconds(self.lateness.percentile(50)),
            "delay.lateness_p99_ms": _milliseconds(self.lateness.percentile(99)),
            "delay.lateness_max_ms": _milliseconds(self.lateness.highest),
        }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1_000, 3)

"""A broker's counters of delayed messages."""

from dataclasses import dataclass, field

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
class DelayCounts:
    pending: int = 0
    fired: int = 0
    cancelled: int = 0
    rescheduled: int = 0
    expired: int = 0
    lateness: Histogram = field(default_factory=Histogram)

    def note_ended(self, state: DelayState) -> None:
        if state is DelayState.DELIVERED:
            self.fired += 1
        elif state is DelayState.CANCELLED:
            self.cancelled += 1
        else:
            self.expired += 1

    def report(self) -> dict[str, int | float]:
        return {
            "delay.pending": self.pending,
            "delay.fired": self.fired,
            "delay.cancelled": self.cancelled,
            "delay.rescheduled": self.rescheduled,
            "delay.expired": self.expired,
            "delay.lateness_p50_ms": _milliseconds(self.lateness.percentile(50)),
            "delay.lateness_p99_ms": _milliseconds(self.lateness.percentile(99)),
            "delay.lateness_max_ms": _milliseconds(self.lateness.highest),
        }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1_000, 3)

"""A broker's counters of what clients publish and fetch. They count batches and answers, never each message."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.counters import LabelledCounters
from goqueue.core.histogram import Histogram
from goqueue.errors import GoQueueError
from goqueue.storage.log.views import LogSlice
from goqueue.types import Acks, Offset


@dataclass(slots=True)
class FetchSeries:
    """The counters of one topic."""

    messages: int = 0
    slices: int = 0
    bytes: int = 0

    def add(self, other: "FetchSeries", /) -> None:
        self.messages += other.messages
        self.slices += other.slices
        self.bytes += other.bytes


@dataclass(slots=True)
class FetchCounts:
    seconds: Histogram = field(default_factory=Histogram)
    """How long the partitions of a fetch took that found something."""
    of: LabelledCounters[FetchSeries] = field(default_factory=partial(LabelledCounters, FetchSeries))
    """By topic."""

    def note(
        self, partitions: Sequence[ActorRef], offsets: Sequence[Offset], answers: Sequence[LogSlice | GoQueueError]
    ) -> None:
        for partition, offset, answer in zip(partitions, offsets, answers, strict=True):
            if isinstance(answer, LogSlice) and answer.data:
                series = self.of[partition.name.partition("/")[0]]
                series.slices += 1
                series.messages += answer.next_offset - offset
                series.bytes += len(answer.data)


def publish_times() -> dict[Acks, Histogram]:
    """From the arrival of a batch to its answer, by what its producer waits for."""
    return {acks: Histogram() for acks in Acks}

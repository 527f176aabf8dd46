"""What a start of the broker found and did, for its operators."""

from dataclasses import dataclass

from goqueue.actors.statistics.statistics import TopicCounts
from goqueue.storage.log.openlogs import RecoverySurvey
from goqueue.types import Microseconds


@dataclass(frozen=True, slots=True)
class StartReport:
    node: str
    is_new: bool
    """The data directory was made, or was empty."""
    counts: TopicCounts
    recovery: RecoverySurvey
    seconds: float
    """From the first step until the broker was ready."""
    began: Microseconds = 0
    """When that was, by the wall clock."""

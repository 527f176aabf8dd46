"""A broker's counters of the schema registry, and of the validation of messages."""

from dataclasses import dataclass, field
from functools import partial

from goqueue.core.counters import LabelledCounters
from goqueue.core.histogram import Histogram

SCHEMA_COUNTERS = {
    "schemas": "how many different ones the registry has",
    "schemas.subjects": "that have versions",
    "schemas.versions": "of all subjects, those that are not deleted",
    "schemas.deleted_versions": "those that are softly deleted",
    "schemas.size": "of the texts of all schemas, in characters",
    "schemas.registrations.RESULT": "since the start: `new`, `existing`, or the code of a refusal",
    "schemas.accepted": "keys and values that fit their schemas, since the start",
    "schemas.refused": "those that do not, whose messages were refused",
    "schemas.warned": "those that do not, whose messages were accepted (`schema_validation=warn`)",
}
REGISTRY_COUNTERS = {
    "schemas": "how many different ones the registry has",
    "schemas.subjects": "that have versions",
    "schemas.versions": "of all subjects, those that are not deleted",
    "schemas.deleted_versions": "those that are softly deleted",
    "schemas.size": "of the texts of all schemas, in characters",
    "schemas.registrations.RESULT": "since the start: `new`, `existing`, or the code of a refusal",
}


@dataclass(slots=True)
class SchemaSeries:
    """The counters of one topic."""

    accepted: int = 0
    refused: int = 0
    warned: int = 0

    def add(self, other: "SchemaSeries", /) -> None:
        self.accepted += other.accepted
        self.refused += other.refused
        self.warned += other.warned


@dataclass(slots=True)
class SchemaCounts:
    of: LabelledCounters[SchemaSeries] = field(default_factory=partial(LabelledCounters, SchemaSeries))
    """By topic."""
    seconds: Histogram = field(default_factory=Histogram)
    """How long the validation of a batch took."""

    def report(self, total: SchemaSeries) -> dict[str, int]:
        return {
            "schemas.accepted": total.accepted,
            "schemas.refused": total.refused,
            "schemas.warned": total.warned,
        }

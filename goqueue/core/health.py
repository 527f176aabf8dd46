"""Whether a broker serves, and what impairs it. Probes, `goqueue check` and `client.health()` show it.

A broker is not ready while it starts or stops, and not ready for publishes while its disk is too full. Whatever
else is wrong is a reason: the broker serves all the same. One damaged partition takes no broker out of service.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

READY, STARTING, DRAINING, DISK_LOW = "ready", "starting", "draining", "disk_low"
"""What a broker is: the first says that it serves."""
STALL_SECONDS = 1.0
"""Stalls of the event loop that are longer impair the broker."""
STALL_MEMORY_SECONDS = 60.0
NAMES_MAX = 3
"""Limit of the names in one sentence."""
MEBIBYTE = 1024 * 1024

NOT_READY: Mapping[str, str] = {
    STARTING: "the broker is starting: it reads its data directory; ask again",
    DRAINING: "the broker is shutting down; go to another one, or wait for its next start",
    DISK_LOW: "the broker refuses publishes, since its disk is too full; reads and acks go on",
}
"""A sentence for each state in which the broker does not serve."""


@dataclass(frozen=True, slots=True)
class HealthReason:
    """One thing that impairs a broker: a word for programs, what it is, and what to do about it."""

    code: str
    message: str
    cure: str


@dataclass(frozen=True, slots=True)
class Health:
    """`status` is `ready`, `draining`, or `disk_low` if it was asked for publishes; `degraded` says what impairs
    the broker."""

    status: str
    degraded: Sequence[HealthReason] = ()

    @property
    def is_ready(self) -> bool:
        return self.status == READY


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """Partitions are named as `orders/0`."""

    disk_free: int
    disk_needed: int
    """Publishes are refused below this."""
    is_draining: bool = False
    lost: Sequence[str] = ()
    unavailable: Sequence[str] = ()
    damaged: Sequence[str] = ()
    stall_seconds: float = 0.0
    """The longest stall of the event loop within the last minute."""
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """Those that wait, by the topic of which they are."""

    @property
    def is_disk_low(self) -> bool:
        return self.disk_free < self.disk_needed


def judge(facts: HealthFacts, *, for_publish: bool = False) -> Health:
    return Health(_status(facts, for_publish=for_publish), tuple(_reasons(facts)))


def _status(facts: HealthFacts, *, for_publish: bool) -> str:
    if facts.is_draining:
        return DRAINING
    return DISK_LOW if for_publish and facts.is_disk_low else READY


def _reasons(facts: HealthFacts) -> Iterator[HealthReason]:
    """What wants somebody soonest comes first."""
    if facts.is_disk_low:
        yield HealthReason(
            DISK_LOW,
            f"{_mebibytes(facts.disk_free)} are free on the disk, and publishes are refused below "
            f"{_mebibytes(facts.disk_needed)}",
            "make room: delete or purge topics, shorten their retention, or enlarge the disk",
        )
    if facts.lost:
        yield HealthReason(
            "partitions_lost",
            f"{_are(facts.lost, 'partition')} lost: {_listed(facts.lost)}",
            "stop the broker and put the folders back, or begin them anew: goqueue topic restore-partition "
            f"{facts.lost[0]}",
        )
    if facts.unavailable:
        yield HealthReason(
            "partitions_unavailable",
            f"{_are(facts.unavailable, 'partition')} unavailable: {_listed(facts.unavailable)}",
            f"goqueue topic describe {_topic_of(facts.unavailable[0])} says why; mend that, then restart it",
        )
    if facts.damaged:
        yield HealthReason(
            "damaged",
            f"messages of {_listed(facts.damaged)} cannot be read",
            "goqueue stats names offsets and files: put the files back from a backup, or give the messages up "
            "with goqueue group skip",
        )
    if facts.stall_seconds > STALL_SECONDS:
        yield HealthReason(
            "loop_stalled",
            f"the event loop stood still for {facts.stall_seconds:.1f} s within the last minute",
            "look what else takes the processor or the memory of this machine; goqueue stats counts the stalls",
        )
    if facts.dead_letters:
        total = sum(facts.dead_letters.values())
        topics = _listed([f"{topic} ({count:,})" for topic, count in sorted(facts.dead_letters.items())])
        yield HealthReason(
            "dead_letters",
            f"{total:,} {'dead letter waits' if total == 1 else 'dead letters wait'}: {topics}",
            f"goqueue dlq show {min(facts.dead_letters)} says why; then redrive or dismiss them",
        )


def _are(names: Sequence[str], thing: str) -> str:
    return f"1 {thing} is" if len(names) == 1 else f"{len(names):,} {thing}s are"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_MAX])
    return shown if len(names) <= NAMES_MAX else f"{shown} and {len(names) - NAMES_MAX:,} more"


def _topic_of(partition: str) -> str:
    return partition.rpartition("/")[0]


def _mebibytes(size: int) -> str:
    return f"{size / MEBIBYTE:,.1f} MiB"

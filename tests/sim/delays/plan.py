"""What a seed decides for a world of delays: the topics' kinds, and what happens to clock and indexes.

The broker's lives and the other faults are those of a world of clients.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from tests.sim.clients.plan import ClientLife, ClientPlan, Fault, Trouble, _faults

SMALL_SEGMENT = 1_024
HOUR = 3_600_000_000
STEPS = (-HOUR, -60_000_000, -500_000, 30_000, 5_000_000, 1_800_000_000, HOUR)
"""How far the clock is set, at most."""


class Kind(Enum):
    PLAIN = "plain"
    COMPACTED = "compacted by key"
    SHORT = "kept for an hour"

    @property
    def forgets(self) -> bool:
        """What was delivered may be gone before anybody has read it."""
        return self is not Kind.PLAIN

    def config(self, segment_bytes: int) -> dict[str, Any]:
        if self is Kind.COMPACTED:
            return {"cleanup": "compact", "segment_bytes": SMALL_SEGMENT}
        if self is Kind.SHORT:
            return {"retention_hours": 1, "segment_bytes": SMALL_SEGMENT}
        return {"segment_bytes": segment_bytes}


@dataclass(frozen=True, slots=True)
class DelayPlan(ClientPlan):
    kinds: tuple[Kind, ...] = ()
    """Of each topic."""
    machines: int = 2
    purges: bool = False
    """Somebody purges topics, or deletes them and makes them anew."""
    uses_ids: bool = False
    """Messages have ids, and those of cancelled ones are used again."""

    @classmethod
    def drawn(cls, random: Random, without: Collection[int] = ()) -> "DelayPlan":
        lives = tuple(_life(random) for _ in range(random.randint(1, 4)))
        topics = tuple(random.randint(1, 2) for _ in range(random.randint(1, 3)))
        machines = random.randint(1, 3)
        faults = _faults(random, lives, machines)
        faults += _faults_of_delays(random, lives, len(faults))
        return cls(
            topics=topics,
            segment_bytes=random.choice([SMALL_SEGMENT, 5_000, 10**6]),
            compression=random.choice(["none", "none", "zstd"]),
            clients=(),
            lives=lives,
            faults=tuple(fault for fault in faults if fault.number not in without),
            kinds=tuple(random.choice([Kind.PLAIN, Kind.PLAIN, Kind.COMPACTED, Kind.SHORT]) for _ in topics),
            machines=machines,
            purges=random.random() < 0.3,
            uses_ids=random.random() < 0.5,
        )

    def __str__(self) -> str:
        words = f"{self.machines} clients; topics {[kind.value for kind in self.kinds]}; purges: {self.purges}"
        return f"{super(DelayPlan, self).__str__()}\n{words}; ids: {self.uses_ids}"

    def config_of(self, topic: int) -> dict[str, Any]:
        return {"compression": self.compression, **self.kinds[topic].config(self.segment_bytes)}

    def steps(self, life: int) -> list[Fault]:
        return [each for each in self.faults if each.life == life and each.trouble is Trouble.CLOCK_STEP]

    def harms_index(self, life: int) -> bool:
        return any(each.life == life and each.trouble is Trouble.INDEX_HARM for each in self.faults)

    def fills_disk(self) -> bool:
        return self.has(Trouble.DISK_FULL)


def _life(random: Random) -> ClientLife:
    return ClientLife(
        seconds=random.choice([0.3, 1.0, 2.0, 4.0]) * random.uniform(0.5, 1.5),
        silence=random.choice([0.0, 0.01, 0.3, 4.0, 35.0]),
    )


def _faults_of_delays(random: Random, lives: tuple[ClientLife, ...], first: int) -> list[Fault]:
    drawn: list[Fault] = []
    for number, life in enumerate(lives):
        for _ in range(random.choice([0, 0, 1, 3])):
            after = random.uniform(0, life.seconds)
            drawn.append(Fault(first + len(drawn), Trouble.CLOCK_STEP, number, after))
        if random.random() < 0.3:
            drawn.append(Fault(first + len(drawn), Trouble.INDEX_HARM, number))
    return drawn

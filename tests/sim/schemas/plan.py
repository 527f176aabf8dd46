"""What a seed decides for a world of schemas. The broker's lives and the faults are those of a world of clients."""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.sim.clients.plan import ClientPlan

SWITCHES = ("on", "on", "on", "warn", "off")


@dataclass(frozen=True, slots=True)
class SchemaPlan(ClientPlan):
    machines: int = 2
    level: str = "NONE"
    """Of all subjects."""
    switches: tuple[str, ...] = ()
    """`schema_validation` of each topic."""

    @classmethod
    def drawn(cls, random: Random, without: Collection[int] = ()) -> "SchemaPlan":
        plan = ClientPlan.drawn(random, without)
        return cls(
            topics=plan.topics,
            segment_bytes=plan.segment_bytes,
            compression=plan.compression,
            clients=(),
            lives=plan.lives,
            faults=plan.faults,
            machines=len(plan.clients),
            level=random.choice(["NONE", "NONE", "BACKWARD", "BACKWARD_TRANSITIVE"]),
            switches=tuple(random.choice(SWITCHES) for _ in plan.topics),
        )

    def __str__(self) -> str:
        words = f"{self.machines} clients; level {self.level}; validation {self.switches}"
        return f"{super(SchemaPlan, self).__str__()}\n{words}"

    def config_of(self, topic: int) -> dict[str, Any]:
        return {**self.topic_config(), "schema_validation": self.switches[topic]}

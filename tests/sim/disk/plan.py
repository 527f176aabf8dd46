"""What a seed decides before anything runs: how large the world is and what will go wrong in it."""

from dataclasses import dataclass
from enum import Enum
from random import Random

from goqueue.config import LogConfig
from goqueue.testing.faults import NORMAL_SYNC, SLOW_SYNC, Faults


class Ending(Enum):
    """How a life of the node ends."""

    POWER_CUT = "power cut"
    KILL = "kill -9"
    SHUTDOWN = "shutdown"


class Harm(Enum):
    """What somebody does to the files between two lives."""

    NONE = "none"
    METADATA = "recovery points, seals and indexes removed or damaged"
    ROT = "bits flipped in logs that were closed in order"


@dataclass(frozen=True, slots=True)
class Life:
    seconds: float
    ending: Ending
    full_disk: bool
    sync_failure: bool


@dataclass(frozen=True, slots=True)
class Plan:
    partitions: int
    clients: int
    segment_bytes: int
    slow_disk: bool
    cold_reads: float
    harm: Harm
    lives: tuple[Life, ...]

    @classmethod
    def drawn(cls, random: Random) -> "Plan":
        return cls(
            partitions=random.randint(1, 3),
            clients=random.randint(1, 5),
            segment_bytes=random.choice([700, 3_000, 20_000, 10**6]),
            slow_disk=random.random() < 0.2,
            cold_reads=random.choice([0.0, 0.3]),
            harm=random.choice([Harm.NONE, Harm.NONE, Harm.METADATA, Harm.ROT]),
            lives=tuple(_life(random) for _ in range(random.randint(3, 7))),
        )

    def log_config(self) -> LogConfig:
        return LogConfig(segment_bytes=self.segment_bytes)

    def faults(self) -> Faults:
        return Faults(
            sync_seconds=SLOW_SYNC if self.slow_disk else NORMAL_SYNC,
            cold_read_odds=self.cold_reads,
            garbage_odds=0.3,
        )


def _life(random: Random) -> Life:
    ending = random.choice([Ending.POWER_CUT, Ending.POWER_CUT, Ending.KILL, Ending.SHUTDOWN])
    return Life(
        seconds=random.choice([0.01, 0.1, 1.0, 8.0]) * random.uniform(0.5, 1.5),
        ending=ending,
        full_disk=random.random() < 0.2,
        # A kernel that could not write forgets that it could not: after a kill, the next process would be
        # told that everything is fine. Only a restart of the machine shows what is really on the disk.
        sync_failure=ending is not Ending.KILL and random.random() < 0.15,
    )

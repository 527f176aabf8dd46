"""Journals of groups that are lost or damaged between two lives of the broker, and what must be said of it.

A register that is gone costs nothing: the ledgers name the groups, with their progress and settings. Ledgers that
are gone or damaged cost progress, so that messages come again. No message is passed, and the broker's log names
whoever falls back (G5, G13).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from goqueue.testing.disk import SimulatedDisk
from tests.sim.clients.plan import ClientLife

ODDS = 0.2


class Harm(Enum):
    GONE = "is gone"
    EMPTY = "is empty"
    ROT = "has a flipped bit"


@dataclass(frozen=True, slots=True)
class JournalDamage:
    life: int
    """It comes at the end of this one."""
    harm: Harm
    place: tuple[int, int] | None = None
    """Topic and partition whose ledgers are meant; None: the register."""

    @property
    def path(self) -> str:
        if self.place is None:
            return "/data/groups/registry"
        topic, partition = self.place
        return f"/data/logs/t{topic}/{partition}/groups"

    def strike(self, disk: SimulatedDisk) -> bool:
        """Whether there was anything that a start can miss: what was never claimed was promised to nobody."""
        path = self._file(disk)
        if path is None:
            return False
        if self.harm is Harm.GONE:
            disk.remove(path)
        elif self.harm is Harm.EMPTY:
            disk.cut(path, 0)
        else:
            disk.damage(path)
        return True

    def _file(self, disk: SimulatedDisk) -> str | None:
        """The register, or the last segment of a companion log, if it is claimed."""
        if self.place is None:
            return self.path if disk.exists(self.path) and disk.exists(self.path + ".durable") else None
        names = disk.list(self.path) if disk.is_directory(self.path) else []
        logs = [name for name in names if name.endswith(".log")]
        return f"{self.path}/{logs[-1]}" if logs and "recovery-point" in names else None

    def __str__(self) -> str:
        return f"{self.path} {self.harm.value} after life {self.life}"


def drawn_damage(seed: str, lives: Sequence[ClientLife], topics: Sequence[int]) -> tuple[JournalDamage, ...]:
    random = Random(f"damaged journals {seed}")
    if random.random() >= ODDS:
        return ()
    life, topic = random.randrange(len(lives)), random.randrange(len(topics))
    if random.random() < 0.5:
        return (JournalDamage(life, random.choice([Harm.GONE, Harm.EMPTY])),)
    return (JournalDamage(life, random.choice(list(Harm)), (topic, random.randrange(topics[topic]))),)


class Reports(logging.Handler):
    """What the broker has said at WARNING or above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def name_loss(self, topic: str, partition: int) -> bool:
        """Whether somebody has been told that progress on this partition was lost."""
        places = (f"/logs/{topic}/{partition}/groups", f"on {topic}/{partition} is lost")
        return any(place in text for text in self.texts for place in places)

    def __enter__(self) -> "Reports":
        logging.getLogger("goqueue").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("goqueue").removeHandler(self)

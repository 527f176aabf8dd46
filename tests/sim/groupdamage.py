"""Files of groups that are lost or damaged between two lives of the broker, and what must be said of it.

Damaged metadata stop the start. They are rebuilt as an operator would do it, and the ledgers name the groups, with
their progress and settings. The same holds for the register that an earlier version left, which the next life
imports as far as it is sound. Ledgers that are gone or damaged cost progress, so that messages come again. No
message is passed, and the broker's log names whoever falls back (G5, G13).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from goqueue.testing.disk import SimulatedDisk
from tests.sim.clients.plan import ClientLife
from tests.sim.disk.history import Violation
from tests.storage.damagedmetadata import claim_all, last_segment, recover
from tests.storage.oldregister import LIST, OLD_REGISTER, as_before_the_import

LEDGER_ODDS, REGISTER_ODDS, METADATA_ODDS = 0.15, 0.1, 0.1


class Harm(Enum):
    NONE = "is sound"
    GONE = "is gone"
    EMPTY = "is empty"
    ROT = "has a flipped bit"

    def strike(self, disk: SimulatedDisk, path: str) -> None:
        match self:
            case Harm.GONE:
                disk.remove(path)
            case Harm.EMPTY:
                disk.cut(path, 0)
            case Harm.ROT:
                disk.damage(path)


@dataclass(frozen=True, slots=True)
class LedgerDamage:
    """A companion log loses its last segment, or something in it."""

    life: int
    """It comes at the end of this one."""
    harm: Harm
    place: tuple[int, int]
    """Topic and partition whose ledgers are meant."""

    @property
    def folder(self) -> str:
        topic, partition = self.place
        return f"/data/logs/t{topic}/{partition}/groups"

    async def strike(self, disk: SimulatedDisk) -> bool:
        """Whether there was anything that a start can miss: what was never claimed was promised to nobody."""
        names = disk.list(self.folder) if disk.is_directory(self.folder) else []
        logs = [name for name in names if name.endswith(".log")]
        if not logs or "recovery-point" not in names:
            return False
        self.harm.strike(disk, f"{self.folder}/{logs[-1]}")
        return True

    def __str__(self) -> str:
        return f"{self.folder} {self.harm.value} after life {self.life}"


@dataclass(frozen=True, slots=True)
class RegisterDamage:
    """The broker was one of an earlier version until the end of this life, and what it left is damaged, or not."""

    life: int
    harm: Harm

    async def strike(self, disk: SimulatedDisk) -> bool:
        if not disk.is_directory(LIST) or not await as_before_the_import(disk):
            return False
        if not disk.exists(OLD_REGISTER):  # there was no group to be written
            return False
        self.harm.strike(disk, OLD_REGISTER)
        return True

    def __str__(self) -> str:
        return f"{OLD_REGISTER} {self.harm.value} after life {self.life}"


@dataclass(frozen=True, slots=True)
class MetadataDamage:
    """The metadata lose their last segment, or something in it, and are rebuilt."""

    life: int
    harm: Harm

    async def strike(self, disk: SimulatedDisk) -> bool:
        if not disk.is_directory(LIST) or not any(name.endswith(".log") for name in disk.list(LIST)):
            return False
        await claim_all(disk)
        path = last_segment(disk)
        if not disk.size(path):
            return False
        self.harm.strike(disk, path)
        if not await recover(disk):
            raise Violation(f"G13: {path} {self.harm.value}, and the metadata are taken for sound")
        return True

    def __str__(self) -> str:
        return f"{LIST} {self.harm.value} after life {self.life}, and is rebuilt"


GroupDamage = LedgerDamage | RegisterDamage | MetadataDamage
DAMAGES = (Harm.GONE, Harm.EMPTY, Harm.ROT)


def drawn_damage(seed: str, lives: Sequence[ClientLife], topics: Sequence[int]) -> tuple[GroupDamage, ...]:
    """That of ledgers costs progress, so it comes alone."""
    random = Random(f"damaged journals {seed}")
    life, topic = random.randrange(len(lives)), random.randrange(len(topics))
    draw = random.random()
    if draw < LEDGER_ODDS:
        return (LedgerDamage(life, random.choice(DAMAGES), (topic, random.randrange(topics[topic]))),)
    if draw < LEDGER_ODDS + REGISTER_ODDS:
        return (RegisterDamage(life, random.choice(list(Harm))),)
    if draw < LEDGER_ODDS + REGISTER_ODDS + METADATA_ODDS:
        return (MetadataDamage(life, random.choice(DAMAGES)),)
    return ()


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

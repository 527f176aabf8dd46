"""What a seed decides for a world of clients: how large it is, what each client does, and what goes wrong.

Everything that goes wrong is a `Fault` with a number, so that a failing seed can be run again without some of them.
Whatever else a run draws comes from generators of their own, one for each part of the world: without a fault, the
others stay what they were.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from goqueue.testing.faults import NORMAL_SYNC, SLOW_SYNC, Faults, Seconds
from tests.sim.disk.plan import Ending

MESSAGE_BYTES_MAX = 1_500
"""The topics' own limit, which only the broker knows."""


class Trouble(Enum):
    CUT = "both ends of a connection see a reset at once"
    CUT_ONE_BY_ONE = "the ends see the reset one after the other"
    CUT_IN_FRAME = "a reset in the middle of a frame"
    REQUESTS_VANISH = "what the client says vanishes until its connection is cut"
    ANSWERS_VANISH = "what the broker says vanishes until the connection is cut"
    SLOW_CLIENT = "the client reads slowly"
    SLOW_BROKER = "the broker reads slowly"
    REFUSED = "the client cannot reach the broker: refused"
    HANGING = "the client cannot reach the broker: silence"
    DISK_FULL = "no room on the disk"
    ENDING = "how the broker's life ends"
    SLOW_DISK = "syncs take up to two seconds"
    LATENCY = "bytes need a while"
    CLOCK = "the broker's clock jumps"
    CLOCK_STEP = "the clock is set while the broker runs"
    INDEX_HARM = "the delay indexes are removed or damaged after this life"


@dataclass(frozen=True, slots=True)
class Fault:
    number: int
    trouble: Trouble
    life: int = 0
    after: float = 0.0
    """Seconds from the life's beginning."""
    seconds: float = 0.0
    client: int = 0
    ending: Ending = Ending.SHUTDOWN

    def __str__(self) -> str:
        if self.trouble is Trouble.ENDING:
            return f"{self.number}: life {self.life} ends by {self.ending.value}"
        if self.trouble in _WHOLE_RUN:
            return f"{self.number}: {self.trouble.value}"
        return (
            f"{self.number}: {self.trouble.value} (life {self.life}, client {self.client}, "
            f"after {self.after:.3f} s, for {self.seconds:.3f} s)"
        )


_WHOLE_RUN = (Trouble.SLOW_DISK, Trouble.LATENCY, Trouble.CLOCK)
_OF_DELAYS = (Trouble.CLOCK_STEP, Trouble.INDEX_HARM)
DURING_A_LIFE = [each for each in Trouble if each not in (*_WHOLE_RUN, *_OF_DELAYS, Trouble.ENDING)]


class Job(Enum):
    """What a task of a client does, again and again."""

    PUBLISH = "client.publish, one at a time"
    PRODUCE = "a producer"
    FOLLOW = "a reader from the beginning"
    RESTART = "a reader that begins anew where it was"
    ADMINISTER = "topics made, changed and listed"
    MISTAKE = "bad input"


@dataclass(frozen=True, slots=True)
class ClientLife:
    seconds: float
    silence: float
    """Until the next life begins."""


@dataclass(frozen=True, slots=True)
class ClientPlan:
    topics: tuple[int, ...]
    """The number of partitions of each."""
    segment_bytes: int
    compression: str
    clients: tuple[tuple[Job, ...], ...]
    lives: tuple[ClientLife, ...]
    faults: tuple[Fault, ...]

    @classmethod
    def drawn(cls, random: Random, without: Collection[int] = ()) -> "ClientPlan":
        lives = tuple(_life(random) for _ in range(random.randint(1, 4)))
        topics = tuple(random.randint(1, 3) for _ in range(random.randint(1, 2)))
        clients = tuple(_jobs(random) for _ in range(random.randint(1, 3)))
        faults = _faults(random, lives, len(clients) + 1)
        return cls(
            topics=topics,
            segment_bytes=random.choice([1_024, 5_000, 10**6]),
            compression=random.choice(["none", "none", "zstd"]),
            clients=((Job.PUBLISH, Job.PRODUCE, Job.FOLLOW), *clients),
            lives=lives,
            faults=tuple(fault for fault in faults if fault.number not in without),
        )

    def __str__(self) -> str:
        lines = [f"topics {self.topics}, segments {self.segment_bytes}, compression {self.compression}"]
        lines += [f"client {number}: {[job.name for job in jobs]}" for number, jobs in enumerate(self.clients)]
        lines += [f"life {n}: {life.seconds:.3f} s, then {life.silence:.3f} s" for n, life in enumerate(self.lives)]
        return "\n".join([*lines, *map(str, self.faults)])

    def topic_config(self) -> dict[str, Any]:
        return {
            "segment_bytes": self.segment_bytes,
            "compression": self.compression,
            "max_message_bytes": MESSAGE_BYTES_MAX,
        }

    def has(self, trouble: Trouble) -> bool:
        return any(fault.trouble is trouble for fault in self.faults)

    def ending(self, life: int) -> Ending:
        """Without the fault that says otherwise, a life ends in order."""
        found = [each.ending for each in self.faults if each.trouble is Trouble.ENDING and each.life == life]
        return found[0] if found else Ending.SHUTDOWN

    def during(self, life: int) -> list[Fault]:
        return [each for each in self.faults if each.life == life and each.trouble in DURING_A_LIFE]

    def disk_faults(self) -> Faults:
        sync_seconds = SLOW_SYNC if self.has(Trouble.SLOW_DISK) else NORMAL_SYNC
        return Faults(sync_seconds=sync_seconds, cold_read_odds=0.1, garbage_odds=0.3)

    def latency(self) -> Seconds:
        return (0.000_1, 0.03) if self.has(Trouble.LATENCY) else (0.0, 0.0)


def _life(random: Random) -> ClientLife:
    return ClientLife(
        seconds=random.choice([0.05, 0.5, 1.0, 3.0]) * random.uniform(0.5, 1.5),
        silence=random.choice([0.0, 0.01, 0.3, 4.0, 35.0]),
    )


def _jobs(random: Random) -> tuple[Job, ...]:
    return tuple(random.choice(list(Job)) for _ in range(random.randint(1, 3)))


def _faults(random: Random, lives: tuple[ClientLife, ...], clients: int) -> list[Fault]:
    drawn: list[Fault] = []
    for trouble, odds in ((Trouble.SLOW_DISK, 0.3), (Trouble.LATENCY, 0.6), (Trouble.CLOCK, 0.3)):
        if random.random() < odds:
            drawn.append(Fault(len(drawn), trouble))
    for number, life in enumerate(lives):
        for _ in range(random.choice([0, 2, 4, 8])):
            drawn.append(_fault(random, len(drawn), number, life, clients))
        ending = random.choice([Ending.POWER_CUT, Ending.POWER_CUT, Ending.KILL, Ending.SHUTDOWN])
        if ending is not Ending.SHUTDOWN:
            drawn.append(Fault(len(drawn), Trouble.ENDING, number, ending=ending))
    return drawn


def _fault(random: Random, number: int, life: int, lived: ClientLife, clients: int) -> Fault:
    return Fault(
        number,
        random.choice(DURING_A_LIFE),
        life,
        after=random.uniform(0, lived.seconds),
        seconds=random.choice([0.01, 0.2, 2.0]) * random.uniform(0.5, 1.5),
        client=random.randrange(clients),
    )

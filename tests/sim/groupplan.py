"""What a seed decides for a world of consumer groups: who consumes what, in which manner, and what goes wrong.

The broker's lives and the faults are those of a world of clients, drawn for longer lives: leases need time to end.
The first machine publishes, each of the others is one member of one group.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

from tests.sim.clientplan import ClientLife, ClientPlan, Fault, Job, Trouble, _faults
from tests.sim.plan import Ending

DELAYING = (Trouble.SLOW_CLIENT, Trouble.SLOW_BROKER, Trouble.CUT_ONE_BY_ONE)
"""The broker may hear late what was said, from a line that its client has given up already."""


class Habit(Enum):
    """What a member does with what it has received."""

    ACK_ALL = "all at once"
    ACK_EACH = "one by one, with pauses"
    ACK_PARTLY = "some of them, then the others, in any order"
    ACK_TWICE = "again after it was answered"
    ACK_LATE = "after the lease has ended"
    EXTEND = "prolong the lease, work on, ack"
    NACK = "try again, with the group's own backoff"
    NACK_WITH_DELAY = "try again, after a time of its own"
    REJECT = "one of them for good, the others acked"
    RELEASE = "some given back, the others acked"
    FORGET = "nothing, and go on"
    STALL = "nothing, and sleep until the lease has ended"
    ITERATE = "`async for`, with work that takes longer than a lease"
    CLOSE = "leave the group with messages in hand, and come back"
    DIE = "vanish with messages in hand, and come back as another"


GIVING_BACK = (Habit.RELEASE, Habit.CLOSE)
"""Whoever does this makes messages come again with the number that they had."""
DILIGENT = (Habit.ACK_ALL, Habit.ACK_EACH, Habit.ACK_PARTLY)


@dataclass(frozen=True, slots=True)
class MemberPlan:
    habits: tuple[Habit, ...]
    visibility: float
    batch: int
    """So many messages it asks for at once, at most."""
    auto_extends: bool | None


@dataclass(frozen=True, slots=True)
class GroupSetup:
    name: str
    topics: tuple[str, ...]
    """Names, or one pattern."""
    start: str
    is_shared: bool
    max_deliveries: int
    has_poison: bool
    """Some messages kill whoever gets them."""
    members: tuple[MemberPlan, ...]
    keeps_key_order: bool = False

    @property
    def joining(self) -> dict[str, Any]:
        """How every member asks to join: whoever comes first fixes it."""
        return {
            "topics": self.topics[0] if len(self.topics) == 1 else list(self.topics),
            "group": self.name,
            "start": self.start,
            "shared": self.is_shared,
            "key_order": self.keeps_key_order,
            "max_deliveries": self.max_deliveries,
        }

    @property
    def visibility_most(self) -> float:
        return max(member.visibility for member in self.members)

    def __str__(self) -> str:
        manner = ("shared, " if self.is_shared else "") + ("in order of keys, " if self.keeps_key_order else "")
        kind = f"{manner}{self.start}, {self.max_deliveries} deliveries"
        lines = [f"{self.name} of {self.topics}: {kind}{', poison' if self.has_poison else ''}"]
        for member in self.members:
            habits = ", ".join(sorted({habit.name for habit in member.habits}))
            lines.append(f"  {member.visibility:.2f} s, {member.batch} at once: {habits}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class FailingSync:
    """The disk cannot write what a partition has journaled of its groups."""

    life: int
    after: float
    topic: int
    partition: int

    def __str__(self) -> str:
        place = f"t{self.topic}/{self.partition}"
        return f"the ledgers of {place} cannot be synced (life {self.life}, after {self.after:.3f} s)"


@dataclass(frozen=True, slots=True)
class GroupPlan(ClientPlan):
    groups: tuple[GroupSetup, ...] = ()
    failing: tuple[FailingSync, ...] = ()

    @classmethod
    def drawn(cls, random: Random, without: Collection[int] = ()) -> "GroupPlan":
        lives = tuple(_life(random) for _ in range(random.randint(1, 4)))
        topics = tuple(random.randint(1, 3) for _ in range(random.randint(1, 2)))
        groups = tuple(_group(random, f"g{number}", len(topics)) for number in range(random.choice([1, 2, 2, 3])))
        machines = 1 + sum(len(group.members) for group in groups)
        faults = _faults(random, lives, machines)
        return cls(
            topics=topics,
            segment_bytes=random.choice([1_024, 5_000, 10**6]),
            compression=random.choice(["none", "none", "zstd"]),
            clients=(random.choice([(Job.PUBLISH, Job.PRODUCE), (Job.PRODUCE,), (Job.PUBLISH, Job.PUBLISH)]),),
            lives=lives,
            faults=tuple(fault for fault in faults if fault.number not in without),
            groups=groups,
            failing=_failing(random, lives, topics, faults) if random.random() < 0.2 else (),
        )

    def __str__(self) -> str:
        return "\n".join([super(GroupPlan, self).__str__(), *map(str, self.failing), *map(str, self.groups)])

    def is_prompt(self, machine: int) -> bool:
        """Whether what it says and hears is heard soon, unless it is lost."""
        return all(fault.client != machine for fault in self.faults if fault.trouble in DELAYING)


def _life(random: Random) -> ClientLife:
    return ClientLife(
        seconds=random.choice([0.3, 2.0, 5.0]) * random.uniform(0.5, 1.5),
        silence=random.choice([0.0, 0.01, 0.3, 4.0, 35.0]),
    )


def _failing(
    random: Random, lives: Sequence[ClientLife], topics: Sequence[int], faults: Sequence[Fault]
) -> tuple[FailingSync, ...]:
    """Not before a kill: the next process would be told that everything is fine (see plan.py)."""
    killed = {fault.life for fault in faults if fault.ending is Ending.KILL}
    drawn = []
    for number, life in enumerate(lives):
        topic = random.randrange(len(topics))
        if number not in killed:
            after = random.uniform(0, life.seconds)
            drawn.append(FailingSync(number, after, topic, random.randrange(topics[topic])))
    return tuple(drawn)


def _group(random: Random, name: str, topics: int) -> GroupSetup:
    names = tuple(f"t{number}" for number in range(topics))
    members = tuple(_member(random, gives_back=random.random() < 0.6) for _ in range(random.randint(1, 3)))
    max_deliveries = random.choice([0, 1, 2, 3, 3])
    return GroupSetup(
        name=name,
        topics=random.choice([names, names, (random.choice(names),), ("t*",)]),
        start=random.choice(["earliest", "earliest", "latest"]),
        is_shared=random.random() < 0.2,
        max_deliveries=max_deliveries,
        has_poison=max_deliveries > 0 and random.random() < 0.5,
        members=members,
        keeps_key_order=Random(f"order of keys {members}").random() < 0.3,  # what else is drawn stays as it was
    )


def _member(random: Random, *, gives_back: bool) -> MemberPlan:
    """Half of what a member does is what it should do; the rest is of a few kinds."""
    kinds = [habit for habit in Habit if gives_back or habit not in GIVING_BACK]
    vices = random.sample(kinds, random.randint(1, 5))
    return MemberPlan(
        habits=(*(random.choice(DILIGENT) for _ in vices), *vices),
        visibility=random.choice([0.5, 1.0, 3.0]) * random.uniform(0.8, 1.2),
        batch=random.choice([1, 5, 20, 500]),
        auto_extends=random.choice([None, None, False]),
    )

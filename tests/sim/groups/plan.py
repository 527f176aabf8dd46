"""What a seed decides for a world of consumer groups: who consumes what, in which manner, and what goes wrong.

The broker's lives and the faults are those of a world of clients, drawn for longer lives: leases need time to end.
The first machine publishes, each of the others is one member of one group.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Any

from tests.sim.clients.plan import ClientLife, ClientPlan, Fault, Job, Trouble, _faults
from tests.sim.disk.plan import Ending
from tests.sim.groupdamage import GroupDamage, LedgerDamage, drawn_damage
from tests.sim.streams.plan import StreamMemberPlan, drawn_stream_member

DELAYING = (Trouble.SLOW_CLIENT, Trouble.SLOW_BROKER, Trouble.CUT_ONE_BY_ONE)
"""The broker may hear late what was said, from a line that its client has given up already."""


SIZES = ((1, 40, 300), (1, 40, 300), (40, 5_000, 20_000))
"""Of values. Large ones fill a delivery before its messages do."""
PRIORITIES = ((2,), (0, 2), (2, 2, 2, 2, 4, 0), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4))


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


REMOVING_ODDS, SMALL_SEGMENT = 0.3, 1_024
"""How often topics have retention by acks; then they have many segments."""
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
    member_id: str | None = None
    """Its own, under which it comes back; two members may have the same."""

    @property
    def vices(self) -> set[str]:
        return {habit.name for habit in self.habits}

    def __str__(self) -> str:
        return f"{self.visibility:.2f} s, {self.batch} at once: {', '.join(sorted(self.vices))}"


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
    lanes: str = "weighted"
    streams: tuple[StreamMemberPlan, ...] = ()
    """Of a group in mode "stream": its members."""

    @property
    def is_stream(self) -> bool:
        return bool(self.streams)

    @property
    def joining(self) -> dict[str, Any]:
        """How every member asks to join: whoever comes first fixes it."""
        topics = self.topics[0] if len(self.topics) == 1 else list(self.topics)
        asked = {"topics": topics, "group": self.name, "start": self.start}
        if self.is_stream:
            return {**asked, "mode": "stream"}
        return {
            **asked,
            "shared": self.is_shared,
            "key_order": self.keeps_key_order,
            "lanes": self.lanes,
            "max_deliveries": self.max_deliveries,
        }

    @property
    def visibility_most(self) -> float:
        return max(member.visibility for member in self.members)

    @property
    def _kind(self) -> str:
        if self.is_stream:
            return f"a stream, {self.start}"
        manner = ("shared, " if self.is_shared else "") + ("in order of keys, " if self.keeps_key_order else "")
        manner += "strict lanes, " if self.lanes == "strict" else ""
        return f"{manner}{self.start}, {self.max_deliveries} deliveries{', poison' if self.has_poison else ''}"

    def __str__(self) -> str:
        lines = [f"{self.name} of {self.topics}: {self._kind}"]
        for member in self.streams or self.members:
            name = "" if member.member_id is None else f"{member.member_id}: "
            lines.append(f"  {name}{member}")
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
class DamagedFile:
    """A bit of a partition's log is wrong for a while. It is put right before the broker starts again."""

    life: int
    after: float
    seconds: float
    topic: int
    partition: int
    place: float
    """In the file, from 0 to 1."""

    def __str__(self) -> str:
        begin, place = f"life {self.life}, after {self.after:.3f} s", f"t{self.topic}/{self.partition}"
        return f"{place} is damaged at {self.place:.3f} ({begin}, for {self.seconds:.3f} s)"


@dataclass(frozen=True, slots=True)
class GroupPlan(ClientPlan):
    groups: tuple[GroupSetup, ...] = ()
    failing: tuple[FailingSync, ...] = ()
    damage: tuple[GroupDamage, ...] = ()
    priorities: tuple[int, ...] = (2,)
    """Those that messages are published with; how often each is there says how often it is taken."""
    sizes: tuple[int, ...] = SIZES[0]
    hides: bool = False
    """Somebody publishes delayed messages that are due in a year: every group passes them over."""
    damaged_files: tuple[DamagedFile, ...] = ()
    removes: bool = False
    """Topics have retention by acks."""

    @classmethod
    def drawn(cls, random: Random, without: Collection[int] = ()) -> "GroupPlan":
        lives = tuple(_life(random) for _ in range(random.randint(1, 4)))
        topics = tuple(random.randint(1, 3) for _ in range(random.randint(1, 2)))
        groups = tuple(_group(random, f"g{number}", len(topics)) for number in range(random.choice([1, 2, 2, 3])))
        machines = 1 + sum(len(group.members) for group in groups)
        faults = _faults(random, lives, machines)
        has_streams = any(group.is_stream for group in groups)
        acked = Random(f"acked {groups}")
        removes = not has_streams and acked.random() < REMOVING_ODDS
        plan = cls(
            topics=topics,
            segment_bytes=random.choice([1_024, 5_000, 10**6]),
            compression=random.choice(["none", "none", "zstd"]),
            clients=(random.choice([(Job.PUBLISH, Job.PRODUCE), (Job.PRODUCE,), (Job.PUBLISH, Job.PUBLISH)]),),
            lives=lives,
            faults=tuple(fault for fault in faults if fault.number not in without),
            groups=groups,
            failing=_failing(random, lives, topics, faults) if random.random() < 0.2 else (),
            priorities=Random(f"priorities {groups}").choice(PRIORITIES),
            sizes=Random(f"sizes {groups}").choice(SIZES),
            hides=not has_streams and not (removes and acked.random() < 0.5),
            damaged_files=() if removes else _damaged_files(Random(f"damage {groups}"), lives, topics, groups),
            removes=removes,
        )
        return plan if plan.failing else plan._with_damage(drawn_damage(str(groups), lives, topics))

    def _with_damage(self, damage: tuple[GroupDamage, ...]) -> "GroupPlan":
        costs_progress = any(isinstance(each, LedgerDamage) for each in damage)
        groups = tuple(map(_without_letters, self.groups)) if costs_progress else self.groups
        return replace(self, damage=damage, groups=groups)

    def __str__(self) -> str:
        priorities = f"priorities {self.priorities}, sizes {self.sizes}{', hidden messages' if self.hides else ''}"
        return "\n".join(
            [
                super(GroupPlan, self).__str__(),
                priorities + (", retention by acks" if self.removes else ""),
                *map(str, self.failing),
                *map(str, self.damage),
                *map(str, self.damaged_files),
                *map(str, self.groups),
            ]
        )

    def topic_config(self) -> dict[str, Any]:
        config = super(GroupPlan, self).topic_config()
        config["max_message_bytes"] = max(config["max_message_bytes"], 2 * max(self.sizes))
        return {**config, "retention": "acked", "segment_bytes": SMALL_SEGMENT} if self.removes else config

    def is_prompt(self, machine: int) -> bool:
        """Whether what it says and hears is heard soon, unless it is lost."""
        return all(fault.client != machine for fault in self.faults if fault.trouble in DELAYING)

    def has_steady_lines(self, machine: int) -> bool:
        """Whether nothing happens to them but that the broker comes and goes."""
        faults = [fault for life in range(len(self.lives)) for fault in self.during(life)]
        return all(fault.client != machine or fault.trouble is Trouble.DISK_FULL for fault in faults)

    def has_sound_disk(self, life: int) -> bool:
        """Whether it is quick in this life of the broker, has room, and can write."""
        is_full = any(fault.trouble is Trouble.DISK_FULL for fault in self.during(life))
        fails = any(failing.life == life for failing in self.failing)
        return not (is_full or fails or self.has(Trouble.SLOW_DISK))


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


def _damaged_files(
    random: Random, lives: Sequence[ClientLife], topics: Sequence[int], groups: Sequence[GroupSetup]
) -> tuple[DamagedFile, ...]:
    """Streams stop at damage, and keys lose their order there: only where there are neither."""
    if random.random() > 0.5 or any(group.is_stream or group.keeps_key_order for group in groups):
        return ()
    drawn = []
    for number, life in enumerate(lives):
        for _ in range(random.randint(1, 3)):
            after, topic = random.uniform(0.2, 1.0) * life.seconds, random.randrange(len(topics))
            seconds = random.choice([0.2, 1.0, 10.0])
            drawn.append(
                DamagedFile(number, after, seconds, topic, random.randrange(topics[topic]), random.random())
            )
    return tuple(drawn)


def _group(random: Random, name: str, topics: int) -> GroupSetup:
    names = tuple(f"t{number}" for number in range(topics))
    members = tuple(_member(random, gives_back=random.random() < 0.6) for _ in range(random.randint(1, 3)))
    max_deliveries = random.choice([0, 1, 2, 3, 3])
    others = Random(f"streams and ids {members}")  # what else is drawn stays as it was
    ids = _member_ids(others, len(members))
    is_stream = others.random() < 0.35
    return GroupSetup(
        name=name,
        topics=random.choice([names, names, (random.choice(names),), ("t*",)]),
        start=random.choice(["earliest", "earliest", "latest"]),
        is_shared=random.random() < 0.2,
        max_deliveries=max_deliveries,
        has_poison=max_deliveries > 0 and random.random() < 0.5,
        members=tuple(_with_id(others, member, own) for member, own in zip(members, ids, strict=True)),
        keeps_key_order=Random(f"order of keys {members}").random() < 0.3,
        lanes=Random(f"lanes {members}").choice(["weighted", "weighted", "strict"]),
        streams=tuple(drawn_stream_member(others, own) for own in ids) if is_stream else (),
    )


def _without_letters(group: GroupSetup) -> GroupSetup:
    """What left by entries that are lost leaves once more: nobody can know of it."""
    members = [
        replace(member, habits=tuple(habit for habit in member.habits if habit is not Habit.REJECT))
        for member in group.members
    ]
    return replace(group, max_deliveries=0, has_poison=False, members=tuple(members))


def _with_id(random: Random, member: MemberPlan, member_id: str | None) -> MemberPlan:
    """Whoever has an id of its own makes use of it."""
    ends = random.choice([(Habit.DIE, Habit.DIE), (Habit.CLOSE,)]) if member_id is not None else ()
    return replace(member, member_id=member_id, habits=(*member.habits, *ends))


def _member_ids(random: Random, count: int) -> list[str | None]:
    """One in three has an id of its own; and sometimes two of them have the same."""
    ids = [f"m{number}" if random.random() < 0.33 else None for number in range(count)]
    if count > 1 and random.random() < 0.15:
        ids[:2] = ["m0", "m0"]
    return ids


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

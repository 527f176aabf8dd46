"""The facts about a group that explain why nothing is delivered, gathered at one moment.

Spans are seconds, and end at that moment.
"""

from dataclasses import dataclass, replace
from reprlib import repr as shortened

from goqueue.errors import UnknownMember
from goqueue.types import Offset


@dataclass(frozen=True, slots=True)
class OldestLease:
    member: str
    held_for: float
    ends_in: float


@dataclass(frozen=True, slots=True)
class LastMessage:
    at: str
    """The broker's time of the last append, for people."""
    age: float


@dataclass(frozen=True, slots=True)
class LastDelivery:
    member: str
    age: float


@dataclass(frozen=True, slots=True)
class LaneWait:
    """A priority that has messages, and was not served for this time while others were."""

    priority: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KeyBacklog:
    """Messages of one key that wait for an earlier one of it."""

    key: str
    """For people: in quotes, escaped and shortened."""
    offset: Offset
    """The offset of the message that they wait for."""
    waiting: int


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    topic: str
    partition: int
    owner: str | None = None
    """The member that takes from it. None in a shared group: there every member does."""
    trouble: str | None = None
    """Why it does not answer. Then nothing else is known of it."""
    ready: int = 0
    """Messages that could be delivered now; in a stream, those that its owner has not fetched yet."""
    fetched: int = 0
    """In a stream: messages that its owner has fetched, and not committed."""
    asked_ago: float | None = None
    """In a stream: how long ago its owner last asked here. It does not ask for a partition that it has paused."""
    behind_keys: int = 0
    """Messages that wait for an earlier one of their key."""
    longest_backlog: KeyBacklog | None = None
    """The key with the most waiting messages."""
    not_looked_at: int = 0
    """Messages that are not looked at, whatever their keys are, since too many before them wait for their keys."""
    unsynced: int = 0
    """Messages that are published, and not shown before they are on disk."""
    in_flight: int = 0
    not_begun: int = 0
    """Those of them that their members hold ahead: no handler has begun with them."""
    oldest_lease: OldestLease | None = None
    waiting: int = 0
    """Messages that wait for their retry."""
    next_retry_in: float | None = None
    leaving: int = 0
    """Messages on their way to the dead-letter topic."""
    delayed: int = 0
    """Delayed messages whose time has not come: they are hidden until then, and are no lag."""
    next_due_in: float | None = None
    alone_waits: bool = False
    """One of the ready messages must be delivered alone."""
    damaged: int = 0
    """Messages that cannot be read; in a stream, offsets that its owner has not fetched."""
    damaged_at: Offset | None = None
    """The first of them."""
    damaged_file: str | None = None
    """The file that should hold it."""
    stands_before_damage: bool = False
    kept_segments: int = 0
    """Finished segments that stay on the disk until the group is done with them: `retention=acked`."""
    kept_bytes: int = 0
    last_message: LastMessage | None = None
    last_delivery: LastDelivery | None = None
    lane_wait: LaneWait | None = None
    """The priority that waits longest."""

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.partition}"

    @property
    def lag(self) -> int:
        at_rest = self.untaken + self.behind_keys + self.not_looked_at + self.unsynced
        return at_rest + self.in_flight + self.waiting + self.leaving

    @property
    def untaken(self) -> int:
        """What the next owner will get: messages that are fetched and not committed too."""
        return self.ready + self.fetched


@dataclass(frozen=True, slots=True)
class MemberFacts:
    id: str
    asks_for: tuple[str, ...] = ()
    """Names, or one pattern."""
    topics: frozenset[str] = frozenset()
    """The topics that exist of these."""
    is_connected: bool = True
    silent_for: float = 0.0
    member_for: float = 0.0
    holds: int = 0
    """Messages that it has not settled."""
    holds_alone: bool = False
    """A message was delivered to it alone, and it has not settled it."""
    asked_ago: float | None = None
    """How long ago it last wanted messages: 0 while it waits for some. None: not since it joined, or the broker
    started."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    name: str
    members: tuple[MemberFacts, ...] = ()
    partitions: tuple[PartitionFacts, ...] = ()
    is_shared: bool = False
    is_stream: bool = False
    rebalancing_for: float | None = None
    letting_go: tuple[str, ...] = ()
    """The members that a rebalance waits for."""
    member: str | None = None
    """The member that was asked about; then the others are left out, and so are their partitions."""
    others: int = 0
    """Members that read the same topics, and were left out."""
    partitions_of_others: int = 0

    def of(self, member: str) -> "GroupFacts":
        """The facts about one member; `UnknownMember` when it is none."""
        chosen = next((each for each in self.members if each.id == member), None)
        if chosen is None:
            raise UnknownMember(
                f"{shortened(member)} is not in group {self.name}, or no longer; describe the group to see who is"
            )
        read = [each for each in self.partitions if each.topic in chosen.topics]
        own = tuple(each for each in read if self._concerns(each, member))
        others = sum(bool(each.topics & chosen.topics) for each in self.members) - bool(chosen.topics)
        return replace(
            self,
            members=(chosen,),
            partitions=own,
            member=member,
            others=others,
            partitions_of_others=len(read) - len(own),
        )

    def _concerns(self, partition: PartitionFacts, member: str) -> bool:
        """A partition without an owner during a rebalance may become any member's."""
        is_open = partition.owner is None and self.rebalancing_for is not None
        return self.is_shared or partition.owner == member or is_open

    def takers_of(self, partition: PartitionFacts) -> list[MemberFacts]:
        return [
            each
            for each in self.members
            if (partition.topic in each.topics if self.is_shared else partition.owner == each.id)
        ]

    @property
    def longest_backlog(self) -> tuple[str, KeyBacklog] | None:
        """With the name of its partition."""
        rows = [(each.name, each.longest_backlog) for each in self.partitions if each.longest_backlog is not None]
        return max(rows, key=lambda each: each[1].waiting, default=None)

    @property
    def last_delivery(self) -> LastDelivery | None:
        given = [each.last_delivery for each in self.partitions if each.last_delivery is not None]
        return min(given, key=_age, default=None)

    def figures(self) -> dict[str, str | int | float | None]:
        """The facts in short, for programs: sums over the partitions, and what stands out."""
        parts = self.partitions
        leases = [each.oldest_lease for each in parts if each.oldest_lease is not None]
        lease = max(leases, key=lambda each: each.held_for, default=None)
        message = min((each.last_message for each in parts if each.last_message), key=_age, default=None)
        delivery, row = self.last_delivery, self.longest_backlog
        asked = [each.asked_ago for each in self.members if each.asked_ago is not None]
        retries = [each.next_retry_in for each in parts if each.next_retry_in is not None]
        dues = [each.next_due_in for each in parts if each.next_due_in is not None]
        return {
            "members": len(self.members) + self.others,
            "partitions": len(parts),
            "partitions_without_answer": sum(each.trouble is not None for each in parts),
            "lag": sum(each.lag for each in parts),
            "ready": sum(each.ready for each in parts),
            "fetched": sum(each.fetched for each in parts),
            "behind_keys": sum(each.behind_keys for each in parts),
            "not_looked_at": sum(each.not_looked_at for each in parts),
            "longest_key": row[1].key if row else None,
            "longest_key_waiting": row[1].waiting if row else None,
            "unsynced": sum(each.unsynced for each in parts),
            "in_flight": sum(each.in_flight for each in parts),
            "held_not_begun": sum(each.not_begun for each in parts),
            "waiting": sum(each.waiting for each in parts),
            "leaving": sum(each.leaving for each in parts),
            "delayed": sum(each.delayed for each in parts),
            "damaged": sum(each.damaged for each in parts),
            "kept_segments": sum(each.kept_segments for each in parts),
            "kept_bytes": sum(each.kept_bytes for each in parts),
            "held_unsettled": sum(each.holds for each in self.members),
            "next_retry_seconds": min(retries, default=None),
            "next_due_seconds": min(dues, default=None),
            "oldest_lease_member": lease.member if lease else None,
            "oldest_lease_seconds": lease.held_for if lease else None,
            "oldest_lease_ends_seconds": lease.ends_in if lease else None,
            "last_asked_seconds": min(asked, default=None),
            "last_delivery_member": delivery.member if delivery else None,
            "last_delivery_seconds": delivery.age if delivery else None,
            "last_message_at": message.at if message else None,
            "last_message_seconds": message.age if message else None,
            "rebalancing_seconds": self.rebalancing_for,
        }


def _age(what: LastMessage | LastDelivery) -> float:
    return what.age

"""A broker's counters of its groups, by group. They count runs of messages, never each message by itself.

Connections count deliveries and settlements. Partitions count what they decide themselves: leases that end, dead
letters, messages of each priority, and messages that were removed before they were done.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from goqueue.core.counters import LabelledCounters
from goqueue.core.histogram import Histogram
from goqueue.core.ledger.attempts import FRESH_ATTEMPT, AttemptRun, AttemptSets, count
from goqueue.core.ledger.entries import Expired
from goqueue.core.ledger.ledger import Ending
from goqueue.core.ledger.settlements import Action
from goqueue.types import LANE_COUNT, Priority

GROUP_COUNTERS = {
    "groups": "how many there are",
    "groups.members": "that speak over an open connection",
    "delivered.messages": "handed to consumers of groups",
    "delivered.again": "those of them that had been handed out before",
    "delivered.bytes": "of batches that hold them",
    "delivered.critical": "of priority critical",
    "delivered.high": "of priority high",
    "delivered.normal": "of priority normal",
    "delivered.low": "of priority low",
    "delivered.background": "of priority background",
    "delivered.expired": "messages whose lease ended before they were settled; not those that were not begun",
    "settled.acked": "messages that are done, repeated acks among them",
    "settled.nacked": "given back to be tried again",
    "settled.rejected": "given up by a consumer",
    "settled.released": "given back unopened, or not begun when their lease ended",
    "settled.stale": "messages whose receipts were no longer good",
    "dead_letters": "messages sent to dead-letter topics",
    "groups.removed_unacked": "messages that retention or a purge removed before their group was done with them",
    "groups.adopted": "brought back at the start from ledgers, since the metadata had lost them",
    "groups.ledgers_lost": "ledgers that lost entries or were lost, so that messages come again; see the log",
    "groups.bytes_kept": "of what was read for them, in memory for their next deliveries",
    "groups.bytes_kept_max": "the limit of these, for all partitions together",
}
_SETTLED = {
    Action.ACK: "settled.acked",
    Action.NACK: "settled.nacked",
    Action.REJECT: "settled.rejected",
    Action.RELEASE: "settled.released",
}


@dataclass(slots=True)
class GroupSeries:
    """The counters of one group."""

    delivered: int = 0
    again: int = 0
    bytes: int = 0
    expired: int = 0
    stale: int = 0
    removed_unacked: int = 0
    rebalances: int = 0
    dead_letters: Counter[str] = field(default_factory=Counter)
    """By topic."""
    redriven: Counter[str] = field(default_factory=Counter)
    """By topic, of this group's dead letters."""
    ack_seconds: Histogram = field(default_factory=Histogram)
    """From a delivery to the ack that ended it."""
    rebalance_seconds: Histogram = field(default_factory=Histogram)
    served: list[int] = field(default_factory=lambda: [0] * LANE_COUNT)
    """By priority."""
    settled: dict[Action, int] = field(default_factory=lambda: dict.fromkeys(_SETTLED, 0))

    def note_delivered(self, runs: Sequence[AttemptRun], sets: AttemptSets, size: int) -> None:
        """A delivery of `size` bytes, as runs, or as sets instead of runs."""
        counts = [(run.attempt, run.size) for run in runs]
        for attempt, messages in counts or [(attempt, len(offsets)) for attempt, offsets in sets]:
            self.delivered += messages
            self.again += messages if attempt > FRESH_ATTEMPT else 0
        self.bytes += size

    def note_served(self, counts: Sequence[int]) -> None:
        """`counts` is the number of messages of each priority."""
        for lane, served in enumerate(counts):
            self.served[lane] += served

    def note_endings(self, endings: Iterable[Ending]) -> None:
        """Deliveries that ended without a word."""
        for entry in endings:
            if isinstance(entry, Expired):
                self.expired += count(entry.runs)
            else:
                self.settled[Action.RELEASE] += count(entry.runs)

    def note_settled(self, action: Action, size: int, stale: Sequence[AttemptRun]) -> None:
        refused = count(stale) if stale else 0
        self.stale += refused
        if action in self.settled:
            self.settled[action] += size - refused

    def note_rebalance(self, seconds: float) -> None:
        self.rebalances += 1
        self.rebalance_seconds.add(seconds)

    def add(self, other: "GroupSeries", /) -> None:
        """The times are of one group only: nobody reads their sum."""
        self.delivered += other.delivered
        self.again += other.again
        self.bytes += other.bytes
        self.expired += other.expired
        self.stale += other.stale
        self.dead_letters.update(other.dead_letters)
        self.redriven.update(other.redriven)
        self.rebalances += other.rebalances
        self.removed_unacked += other.removed_unacked
        self.note_served(other.served)
        for action, settled in other.settled.items():
            self.settled[action] += settled


@dataclass(slots=True)
class GroupCounts:
    members: int = 0
    adopted: int = 0
    ledgers_lost: int = 0
    of: LabelledCounters[GroupSeries] = field(default_factory=partial(LabelledCounters, GroupSeries))
    """By group. A redrive, which is no group of a client, counts as one that has ended."""

    def report(self, groups: int, total: GroupSeries) -> dict[str, int | float]:
        return {
            "groups": groups,
            "groups.members": self.members,
            "delivered.messages": total.delivered,
            "delivered.again": total.again,
            "delivered.bytes": total.bytes,
            **{f"delivered.{lane.name.lower()}": total.served[lane] for lane in Priority},
            "delivered.expired": total.expired,
            **{name: total.settled[action] for action, name in _SETTLED.items()},
            "settled.stale": total.stale,
            "dead_letters": total.dead_letters.total(),
            "groups.removed_unacked": total.removed_unacked,
            "groups.adopted": self.adopted,
            "groups.ledgers_lost": self.ledgers_lost,
        }


LANE_COUNTERS = {
    "lane.PRIORITY.ready": "messages of this priority that queues have before them, where they can be counted",
    "lane.PRIORITY.in_flight": "those in the hands of consumers",
    "lane.PRIORITY.served": "handed out since the start",
    "lane.PRIORITY.share": "of all that were served, from 0 to 1",
    "lane.PRIORITY.oldest_seconds": "how old the oldest is that is not done",
}

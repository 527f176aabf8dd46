"""The requests of a partition about its groups.

Members receive from partitions and settle there: a group only says which member may. Each request names the group;
`group_id` is drawn when a group is created, so that a group that was deleted and created again begins anew.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from goqueue.actors.runtime.messages import News, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.ledger.attempts import NO_SETS, AttemptRun, AttemptSets, count
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.ledger.views import LaneFigures, Progress
from goqueue.core.log.retention import KeptSegments
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Producer
from goqueue.core.why.facts import PartitionFacts
from goqueue.storage.snapshotlog.ledgers import LostProgress
from goqueue.types import Buffer, Microseconds, Offset


class SegmentHold(NamedTuple):
    """Why retention by acks keeps finished segments."""

    group: str | None
    """The slowest group; None: no group reads the topic."""
    committed: Offset | None
    """The first offset that the group is not done with; None: it has not begun here."""
    messages: int
    """Messages of the oldest segment that the group is not done with."""
    kept: KeptSegments


class TopicReader(NamedTuple):
    """A group that reads a topic, as the register knows it."""

    name: str
    id: int


class TopicReaders(NamedTuple):
    """The groups that read a topic, for one of its partitions."""

    groups: frozenset[TopicReader]
    end: Offset
    """The end of the log before they were looked up: a group that is not among them began later, and nothing is
    promised to it below this offset."""


class StreamReader(NamedTuple):
    """The member of a group in stream mode that reads. It is noted, to explain why nothing is delivered."""

    group: str
    member: str
    instance: int


@dataclass(frozen=True, slots=True)
class AttachGroup(Request[None]):
    """From now on this group reads here: its ledger exists, or begins at `start`. A repeat is harmless.

    `listener` gets a hint at each entry that is written for the group. `member` owns the partition; None is nobody.
    In a shared group every member may take.
    """

    group: str
    group_id: int
    settings: LedgerSettings
    start: str
    """`earliest`, `latest`, `last:N`, `offset:N` or `time:MICROSECONDS`; an offset outside the log means its nearer
    end."""
    listener: ActorRef
    member: str | None = None
    generation: int = 0
    is_shared: bool = False
    is_stream: bool = False
    """Members fetch by themselves and commit offsets; there are no deliveries."""
    group_settings: dict[str, Any] | None = None
    """The group's settings in the register, kept here in case the register is lost."""
    is_expected: bool = False
    """The register says that the group's ledger is here, durably: if it is not, it was lost."""


@dataclass(frozen=True, slots=True)
class AssignPartition(Request[None]):
    """From now on only this member may take from here; None is nobody."""

    group: str
    member: str | None
    generation: int


class LedgerHolder(NamedTuple):
    """A group in a partition's ledgers."""

    group: str
    group_id: int
    settings: LedgerSettings
    group_settings: dict[str, Any] | None
    """None if an older goqueue wrote the ledger."""


@dataclass(frozen=True, slots=True)
class ListLedgers(Request[tuple[LedgerHolder, ...]]):
    """The groups that have a ledger here."""


@dataclass(frozen=True, slots=True)
class ForgetGroup(Request[None]):
    """The group was deleted: remove its progress. A group of the same name with another id stays."""

    group: str
    group_id: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A delivery; without messages when there were none. `data` is batches that hold all of them, in the order of
    the delivery."""

    nonce: int
    runs: tuple[AttemptRun, ...]
    data: Buffer
    is_alone: bool
    alone_waits: bool
    sets: AttemptSets = NO_SETS
    """Used instead of runs when these would be many."""

    @property
    def size(self) -> int:
        """The number of messages."""
        return self.sets.size or count(self.runs)

    @property
    def all_runs(self) -> tuple[AttemptRun, ...]:
        return self.runs or self.sets.runs()


@dataclass(frozen=True, slots=True)
class Take(Request[Taken]):
    """Take messages for a member, under a lease. Journaled before the answer. `StaleGeneration` for others."""

    group: str
    member: str
    generation: int
    messages_max: int
    bytes_max: int
    visibility: float
    is_busy: bool
    lasts_max: int | None = None
    """Limit of messages that are on their last permitted delivery; None: no limit."""
    instance: int = 0
    """The consumer of the member that asks: `Fenced` for one that was replaced."""
    tells_begun: bool = False
    """The messages count as delivered once the member says that it has begun with them."""


@dataclass(frozen=True, slots=True)
class AwaitDeliverable(Request[None]):
    """Answered when `Take` may find something for this member, at the latest at `deadline`, in Trio's time."""

    group: str
    member: str
    deadline: float
    instance: int = 0
    served_at: float = 0.0
    """When it last got messages, from any partition: in a shared group the one served longest ago goes first."""


@dataclass(frozen=True, slots=True)
class SettleRuns(Request[tuple[AttemptRun, ...]]):
    """Answered, once it is journaled, with the runs whose receipts are stale. No runs: all of it (`EXTEND` only).
    `BEGIN` settles nothing: it says that these messages count as delivered.

    `whole`: an ack of a whole delivery that had this number of messages, without naming them. `StaleReceipt` when
    the delivery has changed: then they have to be named.
    """

    group: str
    nonce: int
    action: Action
    runs: tuple[AttemptRun, ...]
    delay: float | None = None
    reason: str = ""
    whole: int = 0
    to: Destination | None = None
    """Where a redrive sends the messages that it rejects."""

    @property
    def size(self) -> int:
        """The number of messages that it settles."""
        return self.whole or count(self.runs)


@dataclass(frozen=True, slots=True)
class ReleaseMember(Request[None]):
    """The member left in good order: its deliveries are released, and do not count."""

    group: str
    member: str
    has_left: bool = False
    """It gets nothing more here: a request that still waits would take messages for nobody."""
    instance: int = 0
    keeps_place: bool = False
    """It has closed, and keeps its assignment."""


@dataclass(frozen=True, slots=True)
class ReplaceMember(Request[None]):
    """Another consumer replaced that of a member: the leases of the one before end now. Journaled before it is
    answered."""

    group: str
    member: str
    instance: int
    before: int


class LedgerView(NamedTuple):
    progress: Progress
    end: Offset
    lag: int
    oldest_unacked_ms: int | None
    lanes: tuple[LaneFigures, ...] = ()
    """By lane."""
    lost: LostProgress | None = None
    """Progress that was lost here, so that messages are redelivered."""


@dataclass(frozen=True, slots=True)
class ResetLedger(Request[tuple[Offset, Offset]]):
    """Begin again at `start`, as in `AttachGroup`. Answered with the committed offset before and after. A dry run
    changes nothing."""

    group: str
    start: str
    dry_run: bool = False


class SkippedHere(NamedTuple):
    """The number of messages given up, and the committed offset before and after; in a dry run, what would be."""

    messages: int
    before: Offset
    after: Offset


@dataclass(frozen=True, slots=True)
class SkipDamaged(Request[SkippedHere]):
    """Give up the damaged offsets from `first` to `last`; durable when answered. `NotDamaged` if there are none. A
    dry run changes nothing. A stream, which has no members then, commits behind them."""

    group: str
    first: Offset
    last: Offset
    dry_run: bool = False
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of a transfer to the dead-letter topic, with the contents of its headers."""

    offset: Offset
    record: Buffer
    """Its bytes in the log."""
    attempts: int
    first_delivery: int
    last_delivery: int
    reason: str
    to: Destination | None
    """Where a redrive sends it; None: to the dead-letter topic."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The messages of one transfer, with a producer that was journaled for them and is never used for others."""

    messages: tuple[DeadLetter, ...]
    producer: Producer
    sequence: int
    """The sequence of the transfer, by which it is confirmed."""


@dataclass(frozen=True, slots=True)
class TakeDeadLetters(Request[DeadLetters | None]):
    """The transfer that is under way, also after a crash; else the next one; None when there is none."""

    group: str
    messages_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class ConfirmDeadLetters(Request[None]):
    """The transfer is in the dead-letter topic, durably; or a redrive has sent it, which says when it began, and
    which letters could only go back to the dead-letter topic."""

    group: str
    sequence: int
    decided: Microseconds | None = None
    returned: OffsetSet = field(default_factory=OffsetSet)


@dataclass(frozen=True, slots=True)
class DismissLetters(Request[None]):
    """These messages of a delivery to a redrive are done; answered once that is durable."""

    group: str
    nonce: int
    runs: tuple[AttemptRun, ...]
    decided: Microseconds
    note: str


@dataclass(frozen=True, slots=True)
class SendLettersAgain(Request[None]):
    """Those of these letters that were decided upon before leave once more."""

    group: str
    letters: OffsetSet
    to: Destination


@dataclass(frozen=True, slots=True)
class DeadLettersWait(News):
    """From a partition: dead letters of this group wait for a transfer."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class CommitOffset(Request[None]):
    """Commit an offset of a stream. Journaled before it is answered. `StaleGeneration` for others than the owner.

    Without a member it comes from the group itself, which has made sure that there is no member.
    """

    group: str
    member: str | None
    generation: int
    offset: Offset
    instance: int = 0


class StreamStanding(NamedTuple):
    offset: Offset
    resets: int
    """The number of resets by operators."""


@dataclass(frozen=True, slots=True)
class CommittedOffset(Request[StreamStanding]):
    """The committed offset; before the first commit, where the group began."""

    group: str


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """The facts about a group on a partition, without the owner, which the group knows."""

    partition: PartitionFacts
    held: Mapping[str, int]
    """Messages in flight by member."""
    held_alone: Set[str]
    asked_ago: Mapping[str, float]
    """Seconds since each member last asked here; 0 for a waiter."""

"""What a partition can be asked about its groups.

Members receive from partitions and settle there: a group only says who may. Each request names the group;
`group_id` is drawn anew when a group is made, so that one that was deleted and made again begins anew.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from goqueue.actors.runtime.messages import News, Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.ledger.attempts import NO_SETS, AttemptRun, AttemptSets, count
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.ledger.views import LaneFigures, Progress
from goqueue.core.records.batch import Producer
from goqueue.core.why.facts import PartitionFacts
from goqueue.storage.journals.ledgers import LostProgress
from goqueue.types import Buffer, Offset


class StreamReader(NamedTuple):
    """For whom is read: a member of a group in stream mode. It is noted, for who asks why nothing comes."""

    group: str
    member: str
    instance: int


@dataclass(frozen=True, slots=True)
class AttachGroup(Request[None]):
    """From now on this group reads here: its ledger is there, or begins at `start`. Repeating it is harmless.

    `listener` is told `DeadLettersWait` as news. `member` may take from here; None is nobody.
    In a shared group everybody may.
    """

    group: str
    group_id: int
    settings: LedgerSettings
    start: str
    """`earliest`, `latest`, `offset:N` or `time:MICROSECONDS`; what lies outside the log is its nearer end."""
    listener: ActorRef
    member: str | None = None
    generation: int = 0
    is_shared: bool = False
    is_stream: bool = False
    """Members read by themselves and commit offsets; nothing is taken here."""
    group_settings: dict[str, Any] | None = None
    """All that the register knows of it, kept here for the case that the register is lost."""
    is_expected: bool = False
    """The register says that the group's ledger is here, durably: if it is not, it was lost."""


@dataclass(frozen=True, slots=True)
class AssignPartition(Request[None]):
    """From now on only this member takes from here; None is nobody."""

    group: str
    member: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class IsLedgerDurable(Request[bool]):
    """Whether a power cut leaves this group's ledger there. Nothing is synced for the answer."""

    group: str


class LedgerHolder(NamedTuple):
    """A group as a partition's ledgers know it."""

    group: str
    group_id: int
    settings: LedgerSettings
    group_settings: dict[str, Any] | None
    """None where an older goqueue wrote the ledger."""


@dataclass(frozen=True, slots=True)
class ListLedgers(Request[tuple[LedgerHolder, ...]]):
    """The groups that have a ledger here."""


@dataclass(frozen=True, slots=True)
class ForgetGroup(Request[None]):
    """The group was deleted: its progress goes. One of the same name with another id stays."""

    group: str
    group_id: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A delivery; of no messages when nothing was there. `data` is batches that hold all of them, in the order in
    which they are handed out."""

    nonce: int
    runs: tuple[AttemptRun, ...]
    data: Buffer
    is_alone: bool
    alone_waits: bool
    sets: AttemptSets = NO_SETS
    """In the place of runs, where these would be many."""

    @property
    def size(self) -> int:
        """How many messages it has."""
        return self.sets.size or count(self.runs)

    @property
    def all_runs(self) -> tuple[AttemptRun, ...]:
        return self.runs or self.sets.runs()


@dataclass(frozen=True, slots=True)
class Take(Request[Taken]):
    """What is there for a member, under a lease. Journaled before it is answered. `StaleGeneration` for others."""

    group: str
    member: str
    generation: int
    messages_max: int
    bytes_max: int
    visibility: float
    is_busy: bool
    lasts_max: int | None = None
    """So many of them may be on their last permitted delivery; None: all."""
    instance: int = 0
    """Which consumer of the member asks: `Fenced` for one that was replaced."""


@dataclass(frozen=True, slots=True)
class AwaitDeliverable(Request[None]):
    """Answered when `Take` may find something for this member, at the latest at `deadline`, in Trio's time."""

    group: str
    member: str
    deadline: float
    instance: int = 0
    served_at: float = 0.0
    """When it was last given something, by whichever partition: in a shared group others may come before it."""


@dataclass(frozen=True, slots=True)
class SettleRuns(Request[tuple[AttemptRun, ...]]):
    """Answered, once it is journaled, with those whose receipts are stale. No runs: all of it (`EXTEND` only).

    `whole`: an ack of all of a delivery that had so many messages, which are not named. `StaleReceipt` when it is
    not as it was: then they have to be.
    """

    group: str
    nonce: int
    action: Action
    runs: tuple[AttemptRun, ...]
    delay: float | None = None
    reason: str = ""
    whole: int = 0

    @property
    def size(self) -> int:
        """How many messages it names."""
        return self.whole or sum(run.size for run in self.runs)


@dataclass(frozen=True, slots=True)
class ReleaseMember(Request[None]):
    """The member left in good order: what it holds is given back, uncounted."""

    group: str
    member: str
    has_left: bool = False
    """And is given nothing more here: what it had asked for would be taken for nobody."""
    instance: int = 0
    keeps_place: bool = False
    """It has closed, and stays the one that takes from here."""


@dataclass(frozen=True, slots=True)
class ReplaceMember(Request[None]):
    """Another consumer came in the place of a member: what the one before holds is lost, as if its leases had
    ended. Journaled before it is answered."""

    group: str
    member: str
    instance: int
    before: int


@dataclass(frozen=True, slots=True)
class LedgerView:
    progress: Progress
    end: Offset
    lag: int
    oldest_unacked_ms: int | None
    lanes: tuple[LaneFigures, ...] = ()
    """One for each lane."""
    lost: LostProgress | None = None
    """Progress that was lost here, so that messages come again."""


@dataclass(frozen=True, slots=True)
class DescribeLedger(Request[LedgerView | None]):
    """None when the group has not begun here."""

    group: str


@dataclass(frozen=True, slots=True)
class FindCommitted(Request[Offset | None]):
    """How far the group is here, and nothing else; None when it has not begun."""

    group: str


@dataclass(frozen=True, slots=True)
class ResetLedger(Request[tuple[Offset, Offset]]):
    """Begin again at `start`, as in `AttachGroup`; the committed offset before and after. A dry run says so."""

    group: str
    start: str
    dry_run: bool = False


class SkippedHere(NamedTuple):
    """So many messages were given up, or would be; where the group stood before, and where after."""

    messages: int
    before: Offset
    after: Offset


@dataclass(frozen=True, slots=True)
class SkipDamaged(Request[SkippedHere]):
    """Give up what is damaged of `first` to `last`; durable when answered. `NotDamaged`. A dry run says what would
    be. A stream, which has no members then, commits behind it."""

    group: str
    first: Offset
    last: Offset
    dry_run: bool = False
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message on its way to the dead-letter topic, with what its headers will say."""

    offset: Offset
    record: Buffer
    """As it lies in the log."""
    attempts: int
    first_delivery: int
    last_delivery: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Messages that leave together, under a producer that was journaled for them and nobody else ever has."""

    messages: tuple[DeadLetter, ...]
    producer: Producer
    sequence: int
    """Of the transfer, by which it is confirmed."""


@dataclass(frozen=True, slots=True)
class TakeDeadLetters(Request[DeadLetters | None]):
    """The transfer that is under way, after a crash too; else the next to leave; None when there is none."""

    group: str
    messages_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class ConfirmDeadLetters(Request[None]):
    """They are in the dead-letter topic, durably."""

    group: str
    sequence: int


@dataclass(frozen=True, slots=True)
class DeadLettersWait(News):
    """To a group, from a partition: some messages are to leave."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class CommitOffset(Request[None]):
    """A stream has come to here. Journaled before it is answered. `StaleGeneration` for others than the owner.

    Without a member it is the word of the group itself, which has made sure that there is none.
    """

    group: str
    member: str | None
    generation: int
    offset: Offset
    instance: int = 0


class StreamStanding(NamedTuple):
    offset: Offset
    resets: int
    """How often operators have set it."""


@dataclass(frozen=True, slots=True)
class CommittedOffset(Request[StreamStanding]):
    """Where the group goes on; where it began, when nothing was committed yet."""

    group: str


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """What a partition knows of a group. The owner is the group's to say."""

    partition: PartitionFacts
    held: Mapping[str, int]
    """Messages in flight by member."""
    held_alone: Set[str]
    asked_ago: Mapping[str, float]
    """Seconds since each member last asked here; 0 for who waits."""


@dataclass(frozen=True, slots=True)
class GatherLedgerFacts(Request[LedgerFacts | None]):
    """To a partition. None when the group has not begun there."""

    group: str

"""The messages of consumer groups: joining, receiving, settling, and what operators ask.

A delivery is named by its partition and its nonce. Offsets travel as runs, each with the number of the delivery, so
that a thousand messages cost what one costs. See messages.py for the rules that all messages keep.

Members of a group in stream mode fetch as readers do, and commit how far they have come. Joining, heartbeats and
leaving are those of all groups.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from goqueue.core.ledger.settlements import Action
from goqueue.net.wire.fields import U32, U63, Blob, Many, Name, Properties, Prose, Range, Uuid
from goqueue.net.wire.messages import Error
from goqueue.net.wire.registry import kind

# Membership.


@kind(48, "Membership")
class JoinGroup(NamedTuple):
    """Become a member, or come back as one.

    `subscription` is one pattern or some names. `start` is where a group begins on a partition it has not seen:
    `earliest`, `latest`, `last:N`, `offset:N` or `time:MICROSECONDS`. `instance` tells a consumer from one that is
    started later as the same member: the newest has the place, and the one before it hears `Fenced`.
    `defaults` complete the `settings` of a group that has none yet.
    """

    group: Name
    member: Name
    client: Name
    subscription: Annotated[tuple[Name, ...], Many]
    settings: Properties
    start: Name
    session_timeout_ms: U32
    is_static: bool
    instance: U63
    defaults: Properties = {}  # noqa: RUF012  # it is only read


class AssignedPartition(NamedTuple):
    topic: Name
    uuid: Uuid
    partition: U32


@kind(49)
class Membership(NamedTuple):
    """What a member has: it may receive from `assignment` in this generation, and lets go of `revoked`."""

    member: Name
    generation: U63
    settings: Properties
    assignment: Annotated[tuple[AssignedPartition, ...], Many]
    revoked: Annotated[tuple[AssignedPartition, ...], Many]


@kind(50, "Membership")
class Heartbeat(NamedTuple):
    """A sign of life. Answered when the member has something else than in `generation`, at the latest after
    `max_wait_ms`: so assignments are pushed."""

    group: Name
    member: Name
    generation: U63
    max_wait_ms: U32
    instance: U63


@kind(52, "Done")
class LeaveGroup(NamedTuple):
    """In good order: what the member holds is given back, uncounted. With `keeps_place` a static one means to come
    back, and its partitions wait for it for its session."""

    group: Name
    member: Name
    instance: U63
    keeps_place: bool


# Receiving and settling.


class DeliveryRun(NamedTuple):
    """Neighbouring messages, the last one included, on their `attempt`-th delivery."""

    first: U63
    last: U63
    attempt: U32


class OffsetChunk(NamedTuple):
    """Some of the 4,096 offsets from 4,096 times `number` on: a bit for each, the lowest of the first byte for the
    first of them. No bytes at all stand for all of them."""

    number: U63
    mask: Blob


class DeliverySet(NamedTuple):
    """Messages here and there, on their `attempt`-th delivery."""

    attempt: U32
    chunks: Annotated[tuple[OffsetChunk, ...], Many]


FULL_CHUNK = 4_096
"""Offsets of a chunk whose mask is empty: all of them."""


def count_named(runs: Sequence[DeliveryRun], sets: Sequence[DeliverySet]) -> int:
    masks = [chunk.mask for each in sets for chunk in each.chunks]
    scattered = sum([int.from_bytes(mask, "little").bit_count() if mask else FULL_CHUNK for mask in masks])
    return scattered + sum([last - first + 1 for first, last, _ in runs])


class ReceivePartition(NamedTuple):
    topic: Uuid
    partition: U32


@kind(54, "Received")
class Receive(NamedTuple):
    """Answered as soon as there is something, at the latest after `max_wait_ms`.

    `is_busy`: the member holds messages that it has not settled, from whatever partition. `at_once`: so many of
    them its program sees at once; the others wait in the client, none of them on its last permitted delivery.
    `tells_begun`: the messages count as delivered only once they were begun, by `Settle`.
    """

    group: Name
    member: Name
    generation: U63
    max_wait_ms: U32
    messages_max: U32
    bytes_max: U32
    visibility_ms: U32
    is_busy: bool
    partitions: Annotated[tuple[ReceivePartition, ...], Many]
    at_once: U32
    instance: U63
    tells_begun: bool = False


class ReceivedPartition(NamedTuple):
    """One delivery, or none when there are neither runs nor sets. `data` is batches; only what the runs, or in
    their place the sets, name is delivered. A batch may come in several pieces, each with other records of its
    range.

    `is_alone`: nothing else is given out until it is settled. `alone_waits`: such a message waits until the member
    has settled everything it holds.
    """

    error: Error | None
    nonce: U63
    runs: Annotated[tuple[DeliveryRun, ...], Many]
    is_alone: bool
    alone_waits: bool
    data: Blob
    sets: Annotated[tuple[DeliverySet, ...], Many] = ()


@kind(55)
class Received(NamedTuple):
    """One entry for each partition of the request, in its order."""

    partitions: Annotated[tuple[ReceivedPartition, ...], Many]


class SettleDelivery(NamedTuple):
    """Messages of one delivery. `whole`: all of it, so many messages, which are then not named; for acks only.
    `sets`: some of one that came by sets, in the place of runs."""

    topic: Uuid
    partition: U32
    nonce: U63
    action: Annotated[int, Range(min(Action), max(Action))]
    runs: Annotated[tuple[DeliveryRun, ...], Many]
    delay_ms: U63 | None
    reason: Prose
    whole: U32
    sets: Annotated[tuple[DeliverySet, ...], Many]


@kind(56, "Settled")
class Settle(NamedTuple):
    group: Name
    deliveries: Annotated[tuple[SettleDelivery, ...], Many]
    is_unhurried: bool = False
    """Nobody waits for the answer: it may come a few milliseconds later, together with others."""


class SettledDelivery(NamedTuple):
    """`stale` are those whose receipts are not good; the others are settled."""

    error: Error | None
    stale: Annotated[tuple[DeliveryRun, ...], Many] = ()


@kind(57)
class Settled(NamedTuple):
    """One entry for each delivery of the request, in its order."""

    deliveries: Annotated[tuple[SettledDelivery, ...], Many]


# For operators.


class MemberDescription(NamedTuple):
    member: Name
    client: Name
    subscription: Annotated[tuple[Name, ...], Many]
    assignment: Annotated[tuple[AssignedPartition, ...], Many]
    member_for_ms: U63
    silent_for_ms: U63
    is_away: bool
    """Its connection ended, or it closed: its place is kept for it."""
    address: Name | None = None
    """The client's end of the connection over which it joined."""


class LaneDescription(NamedTuple):
    """One lane of a partition, as a group has it."""

    ready: U63 | None
    """To be handed out, as far as is known without looking at each; None: some."""
    in_flight: U63
    served: U63
    """Handed out since the partition was opened."""
    oldest_ms: U63 | None
    """How old the first message is that is not done."""


class DamagedMessages(NamedTuple):
    """The number of messages that are damaged for the group in the offsets `first` to `last`, which `path`
    holds."""

    first: U63
    last: U63
    path: Prose
    messages: U63


class GroupPartition(NamedTuple):
    """How far a group is with a partition. `lag` counts what is deliverable and not done."""

    topic: Name
    partition: U32
    member: Name | None
    committed: U63
    end: U63
    lag: U63
    in_flight: U63
    waiting: U63
    """For their retry."""
    leaving: U63
    """On their way to the dead-letter topic."""
    removed_unacked: U63
    oldest_unacked_ms: U63 | None
    error: Error | None = None
    lanes: Annotated[tuple[LaneDescription, ...], Many] = ()
    """One for each priority, the highest first."""
    damaged: U63 = 0
    """Messages that wait until the log can be read again. The lag does not count them."""
    damages: Annotated[tuple[DamagedMessages, ...], Many] = ()
    progress_lost_at: U63 | None = None
    """In microseconds: the journal of the partition's ledgers was damaged or gone, and messages come again."""
    shown_before: U63 | None = None
    """Where all was lost: the committed offset that people were shown last."""


class GroupDescription(NamedTuple):
    name: Name
    state: Name
    generation: U63
    settings: Properties
    members: Annotated[tuple[MemberDescription, ...], Many]
    partitions: Annotated[tuple[GroupPartition, ...], Many]


@kind(58, "Groups")
class DescribeGroups(NamedTuple):
    """None asks for every group."""

    names: Annotated[tuple[Name, ...], Many] | None


@kind(59)
class Groups(NamedTuple):
    groups: Annotated[tuple[GroupDescription, ...], Many]


@kind(60, "Groups")
class AlterGroup(NamedTuple):
    """Other settings, of a group without members, or by force."""

    group: Name
    settings: Properties
    force: bool = False


@kind(62, "Done")
class DeleteGroup(NamedTuple):
    """The group and its progress. It has no members."""

    group: Name


@kind(64, "GroupReset")
class ResetGroup(NamedTuple):
    """Begin again elsewhere: `start` as in `JoinGroup`. Without a topic all; a dry run only says what would be."""

    group: Name
    topic: Name | None
    partition: U32 | None
    start: Name
    dry_run: bool = False
    force: bool = False


class ResetPartition(NamedTuple):
    topic: Name
    partition: U32
    before: U63
    after: U63


@kind(65)
class GroupReset(NamedTuple):
    partitions: Annotated[tuple[ResetPartition, ...], Many]


@kind(72, "DamagedSkipped")
class SkipDamaged(NamedTuple):
    """Give up what is damaged of the offsets `first` to `last`. A dry run only says what would be. A stream has no
    members then."""

    group: Name
    topic: Name
    partition: U32
    first: U63
    last: U63
    dry_run: bool = False


@kind(73)
class DamagedSkipped(NamedTuple):
    """The number of messages that were given up, and the committed offset before and after."""

    messages: U63
    before: U63
    after: U63


class CommitPartition(NamedTuple):
    """Everything below `offset` is done."""

    topic: Uuid
    partition: U32
    offset: U63


@kind(68, "OffsetsCommitted")
class CommitOffsets(NamedTuple):
    """By the member that owns the partitions in this generation, or without a member to a group that has none."""

    group: Name
    member: Name | None
    generation: U63
    partitions: Annotated[tuple[CommitPartition, ...], Many]
    instance: U63


class CommittedPartition(NamedTuple):
    error: Error | None


@kind(69)
class OffsetsCommitted(NamedTuple):
    """One entry for each partition of the request, in its order."""

    partitions: Annotated[tuple[CommittedPartition, ...], Many]


@kind(70, "GroupOffsets")
class AskOffsets(NamedTuple):
    """Where the group goes on with these partitions."""

    group: Name
    partitions: Annotated[tuple[ReceivePartition, ...], Many]


class GroupOffset(NamedTuple):
    """What was committed last, or where the group began."""

    error: Error | None
    offset: U63
    resets: U63
    """How often the group was reset here: a member that knows of another number begins at `offset` again."""


@kind(71)
class GroupOffsets(NamedTuple):
    """One entry for each partition of the request, in its order."""

    partitions: Annotated[tuple[GroupOffset, ...], Many]


@kind(80, "Because")
class Why(NamedTuple):
    """Why is nothing delivered to this group, or to this member of it?"""

    group: Name
    member: Name | None = None


@kind(81)
class Because(NamedTuple):
    """One sentence for a person, and the facts that it was made of for a program, `reason` among them."""

    why: Prose
    facts: Properties

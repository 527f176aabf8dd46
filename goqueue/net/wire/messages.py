"""The messages of the protocol: the fields of each body in their order on the wire.

A body is an array of its fields. It grows only at its end: a new field has a default, which stands in when an older
end leaves it out, and an older end ignores what it does not know. A field is never removed, moved or given another
meaning; a message that needs that gets a new kind.

What groups say is in groups.py; kinds.py has the kinds of them all.
"""

from typing import Annotated, NamedTuple

from goqueue.net.wire.fields import U16, U32, U63, Blob, Many, Name, Properties, Prose, Range, Secret, Uuid
from goqueue.net.wire.registry import kind
from goqueue.types import Acks

# The session's own.


@kind(1)
class Hello(NamedTuple):
    """The first message of a client. `protocol_version` is the highest it speaks."""

    protocol_version: U16
    features: Annotated[tuple[Name, ...], Many]
    client_name: Name
    expected_cluster: Uuid | None = None
    credentials: Secret | None = None


@kind(2)
class Welcome(NamedTuple):
    """The answer to hello: the version both speak from here on, and what this end takes."""

    protocol_version: U16
    features: Annotated[tuple[Name, ...], Many]
    cluster: Uuid
    node: Name
    frame_size_max: U32
    message_size_max: U32


@kind(3)
class GoAway(NamedTuple):
    """The broker closes soon: requests under way are answered, new ones belong on another connection."""

    reason: Prose
    retry_after_ms: U32


class BadRecordNote(NamedTuple):
    """One refused record of a batch."""

    record: U32
    code: Name
    message: Prose
    offset: U63 | None = None


@kind(4)
class Error(NamedTuple):
    """Why a request failed; on correlation id 0, why the connection is closed."""

    code: Name
    message: Prose
    retryable: bool
    details: Properties
    records: Annotated[tuple[BadRecordNote, ...], Many] = ()


@kind(5)
class Part(NamedTuple):
    """A piece of a message that is larger than a frame."""

    total_size: U32
    position: U32
    piece: Blob


@kind(7)
class Done(NamedTuple):
    """It is done, and there is nothing to say about it."""


# Topics.


@kind(16, "Topics")
class CreateTopic(NamedTuple):
    """A repeat with the same token is answered as the first was."""

    name: Name
    partitions: U32
    config: Properties
    token: Uuid | None = None


@kind(18, "Topics")
class AlterTopic(NamedTuple):
    name: Name
    config: Properties


@kind(20, "Topics")
class AddPartitions(NamedTuple):
    """`partitions` is how many there shall be, not how many more."""

    name: Name
    partitions: U32


@kind(22, "Topics")
class DescribeTopics(NamedTuple):
    """None asks for every topic."""

    names: Annotated[tuple[Name, ...], Many] | None


class DamagedOffsets(NamedTuple):
    """Offsets, the last one included, that `path` should hold and that cannot be read."""

    first: U63
    last: U63
    path: Prose


class SegmentsHeld(NamedTuple):
    """Finished segments that stay until a group is done with them; the offsets are those of the oldest."""

    group: Name | None
    committed: U63 | None
    messages: U63
    first: U63
    last: U63
    segments: U32
    size: U63


class PartitionDescription(NamedTuple):
    partition: U32
    leader_epoch: U32
    start: U63
    end: U63
    error: Error | None = None
    damage: Annotated[tuple[DamagedOffsets, ...], Many] = ()
    hold: SegmentsHeld | None = None
    size: U63 | None = None
    """The bytes of its segments; None: an older broker does not say."""
    messages: U63 | None = None
    """The records in them."""


class TopicDescription(NamedTuple):
    name: Name
    uuid: Uuid
    config: Properties
    partitions: Annotated[tuple[PartitionDescription, ...], Many]


@kind(17)
class Topics(NamedTuple):
    topics: Annotated[tuple[TopicDescription, ...], Many]


@kind(24, "Done")
class DeleteTopic(NamedTuple):
    """With a UUID, only this very topic: a repeat is done, and one made again under the name stays."""

    name: Name
    uuid: Uuid | None = None


@kind(26, "Done")
class Purge(NamedTuple):
    name: Name


@kind(28, "Done")
class DeleteBefore(NamedTuple):
    name: Name
    partition: U32
    offset: U63


@kind(44, "PartitionRestored")
class RestorePartition(NamedTuple):
    """Restart a lost partition, empty, behind all offsets that are known of. Without `accept_loss` only say where.

    `at_least` is an offset that the client knows of, such as the end in a backup.
    """

    name: Name
    partition: U32
    accept_loss: bool
    at_least: U63 = 0


@kind(45)
class PartitionRestored(NamedTuple):
    """What became of it, or would. One that was not lost is left alone, and the rest says nothing."""

    name: Name
    partition: U32
    was_lost: bool
    is_restored: bool
    missing: Prose
    highest: U63 | None
    named_by: Prose
    start: U63


# Producing.


@kind(32, "ProducerReady")
class InitProducer(NamedTuple):
    """Id 0 asks for a new producer; another id with its epoch asks for that one's next epoch."""

    producer_id: U63
    epoch: U16


@kind(33)
class ProducerReady(NamedTuple):
    producer_id: U63
    epoch: U16


class ProduceBatch(NamedTuple):
    """Records for one partition. Producer id 0 is nobody: no duplicate of the batch is noticed."""

    topic: Uuid
    partition: U32
    leader_epoch: U32
    producer_id: U63
    producer_epoch: U16
    base_sequence: U32
    attributes: U16
    record_count: U32
    body: Blob


@kind(34, "Produced")
class Produce(NamedTuple):
    acks: Annotated[int, Range(Acks.NONE, Acks.ALL)]
    batches: Annotated[tuple[ProduceBatch, ...], Many]


class ProducedBatch(NamedTuple):
    """What became of one batch. With acks none the offset is not known."""

    base_offset: U63 | None
    append_time: U63
    error: Error | None = None


@kind(35)
class Produced(NamedTuple):
    """One entry for each batch of the request, in its order."""

    batches: Annotated[tuple[ProducedBatch, ...], Many]


# Reading.


class FetchPartition(NamedTuple):
    topic: Uuid
    partition: U32
    leader_epoch: U32
    offset: U63


@kind(36, "Fetched")
class Fetch(NamedTuple):
    """Answered as soon as there is something, at the latest after `max_wait_ms`.

    A member of a group in stream mode names itself, so that can be said why nothing comes to it.
    """

    max_wait_ms: U32
    bytes_max: U32
    partitions: Annotated[tuple[FetchPartition, ...], Many]
    group: Name | None = None
    member: Name | None = None
    instance: U63 = 0


class AbortedRange(NamedTuple):
    """Offsets, the end excluded, in which this producer's transactional records are void."""

    producer_id: U63
    start: U63
    end: U63


class FetchedPartition(NamedTuple):
    """A slice of the log: whole batches as they lie on disk. Go on at `next_offset`, also when there is none."""

    error: Error | None
    log_start: U63
    high_watermark: U63
    last_stable_offset: U63
    next_offset: U63
    aborted: Annotated[tuple[AbortedRange, ...], Many]
    data: Blob


@kind(37)
class Fetched(NamedTuple):
    """One entry for each partition of the request, in its order."""

    partitions: Annotated[tuple[FetchedPartition, ...], Many]


@kind(38, "OffsetFound")
class OffsetAtTime(NamedTuple):
    topic: Uuid
    partition: U32
    timestamp: U63


@kind(39)
class OffsetFound(NamedTuple):
    """The first offset at or behind the time; None when all records are older."""

    offset: U63 | None


@kind(40, "StatsReport")
class Stats(NamedTuple):
    """What the broker counts."""


@kind(41)
class StatsReport(NamedTuple):
    counters: Properties


@kind(46, "HealthReport")
class CheckHealth(NamedTuple):
    """Whether the broker serves, and what impairs it."""

    for_publish: bool = False
    """Ask whether it takes publishes, too."""


class HealthReasonReport(NamedTuple):
    code: Name
    message: Prose
    cure: Prose


@kind(47)
class HealthReport(NamedTuple):
    """`status` is `ready`, or why the broker does not serve."""

    status: Name
    degraded: Annotated[tuple[HealthReasonReport, ...], Many]


# Copying.


@kind(42, "Snapshot")
class TakeSnapshot(NamedTuple):
    """Where every partition begins and ends, all at one moment, and the topics they are of at that moment."""


class PartitionPoint(NamedTuple):
    partition: U32
    leader_epoch: U32
    start: U63
    end: U63


class TopicPoint(NamedTuple):
    name: Name
    uuid: Uuid
    partitions: Annotated[tuple[PartitionPoint, ...], Many]


@kind(43)
class Snapshot(NamedTuple):
    """`metadata` is a record of `__metadata` that stands for all topics, as on disk, with `groups` beside them."""

    time: U63
    metadata: Blob
    topics: Annotated[tuple[TopicPoint, ...], Many]
    cluster: Uuid
    node: Name
    registry_pieces: U32 = 0
    """The schema registry of that moment is fetched in so many pieces; 0 from a broker that does not send it."""

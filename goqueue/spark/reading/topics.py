"""The topics of a query, and the readable offsets of their partitions, from the broker.

A partition is read up to its high watermark, not to its end: messages in between may be lost in a power cut, and an
offset that Spark has noted in a checkpoint must never become another message's.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from goqueue.blocking import Client
from goqueue.blocking.inside import call
from goqueue.client.reading.message import sound_batches
from goqueue.core.names import is_internal
from goqueue.core.records.batch import Envelope
from goqueue.errors import OffsetOutOfRange, UnknownPartition, UnknownTopic
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import error_of
from goqueue.spark.options import SourceOptions
from goqueue.spark.reading.ranges import OffsetRange
from goqueue.types import Microseconds, Offset


@dataclass(frozen=True, slots=True)
class Reach:
    """One partition, and its readable offsets."""

    topic: str
    uuid: UUID
    partition: int
    epoch: int
    """Rises with every start of the broker."""
    start: Offset
    end: Offset

    def holds(self, offset: Offset) -> bool:
        return self.start <= offset < self.end


def reaches(client: Client, options: SourceOptions) -> list[Reach]:
    """All partitions that a query reads, in the order of its topics. Unknown ones are an error."""
    described = [
        (topic, partition) for topic in _topics(client, options) for partition in _partitions(topic, options)
    ]
    ends = _high_watermarks(client, described)
    return [
        Reach(
            topic.name, UUID(bytes=topic.uuid), each.partition, each.leader_epoch, each.start, max(end, each.start)
        )
        for (topic, each), end in zip(described, ends, strict=True)
    ]


def reaches_left(client: Client, options: SourceOptions) -> list[Reach]:
    """As `reaches`, for the topics that exist: for a query that goes on when some were deleted."""
    try:
        return reaches(client, options)
    except UnknownTopic:
        there = _names_of_all(client)
    subscribe = tuple(name for name in options.subscribe if name in there)
    assign = {name: numbers for name, numbers in options.assign.items() if name in there}
    return reaches(client, replace(options, subscribe=subscribe, assign=assign)) if subscribe or assign else []


def _topics(client: Client, options: SourceOptions) -> Sequence[wire.TopicDescription]:
    if options.pattern is None:
        return _named_topics(client, options.subscribe or tuple(options.assign))
    fits = re.compile(options.pattern).fullmatch
    topics = call(client, wire.DescribeTopics(None), wire.Topics).topics
    return [topic for topic in topics if fits(topic.name) and not is_internal(topic.name)]


def _named_topics(client: Client, names: tuple[str, ...]) -> Sequence[wire.TopicDescription]:
    try:
        return call(client, wire.DescribeTopics(names), wire.Topics).topics
    except UnknownTopic as error:
        there = _names_of_all(client)
        if len(missing := [name for name in names if name not in there]) > 1:
            raise UnknownTopic(f"there are no topics {', '.join(map(repr, missing))}; create them first") from error
        raise


def _names_of_all(client: Client) -> set[str]:
    return {topic.name for topic in call(client, wire.DescribeTopics(None), wire.Topics).topics}


def _partitions(topic: wire.TopicDescription, options: SourceOptions) -> Iterator[wire.PartitionDescription]:
    wanted = options.assign.get(topic.name, range(len(topic.partitions)))
    for number in wanted:
        if number >= len(topic.partitions):
            raise UnknownPartition(
                f"assign names partition {number} of topic {topic.name}, which has {len(topic.partitions)}: 0 to "
                f"{len(topic.partitions) - 1}"
            )
        if (error := topic.partitions[number].error) is not None:
            raise error_of(error)
        yield topic.partitions[number]


def _high_watermarks(
    client: Client, described: Sequence[tuple[wire.TopicDescription, wire.PartitionDescription]]
) -> Iterator[Offset]:
    """By a fetch at the end of each, which returns no messages."""
    places = tuple(wire.FetchPartition(topic.uuid, each.partition, 0, each.end) for topic, each in described)
    if not places:
        return
    for (_, each), found in zip(
        described, call(client, wire.Fetch(0, 0, places), wire.Fetched).partitions, strict=True
    ):
        yield min(each.end, found.high_watermark) if found.error is None else _end_in(found.error)


def _end_in(error: wire.Error) -> Offset:
    """The high watermark in the error of a fetch beyond it. After a purge there is nothing below it."""
    refusal = error_of(error)
    end = refusal.details.get("end")
    if isinstance(refusal, OffsetOutOfRange) and isinstance(end, int):
        return end
    raise refusal


def offset_at(client: Client, reach: Reach, time: Microseconds) -> Offset:
    """The offset of the first message of this time or later, else the end."""
    found = call(client, wire.OffsetAtTime(reach.uuid.bytes, reach.partition, time), wire.OffsetFound).offset
    return reach.end if found is None else min(found, reach.end)


def bytes_each(client: Client, one: OffsetRange) -> float:
    """The estimated size of a record, from the first batch, in whose middle the range may begin; 0 if it is not
    known.
    """
    envelope = _envelope_at(client, one, one.start)
    return envelope.size / (envelope.end_offset - envelope.base_offset) if envelope is not None else 0.0


def epoch_at(client: Client, reach: Reach, offset: Offset) -> int | None:
    """The epoch in which this was written. Not known in gaps of compaction, which may span epochs."""
    envelope = _envelope_at(client, reach, offset)
    return envelope.leader_epoch if envelope is not None and envelope.record_count else None


def _envelope_at(client: Client, one: Reach | OffsetRange, offset: Offset) -> Envelope | None:
    """By the smallest fetch: one batch."""
    place = wire.FetchPartition(one.uuid.bytes, one.partition, 0, offset)
    [found] = call(client, wire.Fetch(0, 0, (place,)), wire.Fetched).partitions
    for _, envelope in sound_batches(one.topic, one.partition, memoryview(found.data)):
        return envelope if envelope.base_offset <= offset < envelope.end_offset else None
    return None


def refuse_no_topics(options: SourceOptions, found: Sequence[Reach]) -> None:
    if not found:
        raise UnknownTopic(f"no topic fits subscribePattern {options.pattern!r}")

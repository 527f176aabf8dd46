"""Plans the begin and the end of a read, from the query's options and the broker's partitions."""

from collections.abc import Sequence
from dataclasses import replace

from goqueue.blocking import Client
from goqueue.client.reading.slices import removed
from goqueue.errors import InvalidConfig
from goqueue.spark.options import EARLIEST, LATEST, Bound, SourceOptions
from goqueue.spark.reading.ranges import OffsetRange, split
from goqueue.spark.reading.topics import Reach, bytes_each, offset_at, reaches, refuse_no_topics
from goqueue.types import Offset

STARTING, ENDING = "startingOffsets", "endingOffsets"
LOOK_FROM = 10_000
"""Minimum number of offsets of a range for a look at the size of its records."""


def plan_batch(client: Client, options: SourceOptions) -> list[OffsetRange]:
    """The ranges of all tasks; all faults of the query are raised here."""
    found = reaches(client, options)
    refuse_no_topics(options, found)
    for bound, option in ((options.start, STARTING), (options.end, ENDING)):
        refuse_strangers(bound, option, found)
    ranges = [
        OffsetRange(each.topic, each.uuid, each.partition, *_checked(client, options, each)) for each in found
    ]
    return split(sized(client, ranges), options.min_partitions or 1)


def sized(client: Client, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    """With the size of records, for large ranges."""
    return [replace(one, bytes_each=bytes_each(client, one)) if one.count > LOOK_FROM else one for one in ranges]


def _checked(client: Client, options: SourceOptions, reach: Reach) -> tuple[Offset, Offset]:
    start = place_of(client, options.start, STARTING, reach)
    end = place_of(client, options.end, ENDING, reach)
    if start < reach.start and options.fail_on_data_loss and start < end:
        raise removed(reach.topic, reach.partition, start, min(reach.start, end))
    for offset, option in ((start, STARTING), (end, ENDING)):
        _refuse_beyond(options, option, reach, offset)
    return max(start, reach.start), min(end, reach.end)


def _refuse_beyond(options: SourceOptions, option: str, reach: Reach, offset: Offset) -> None:
    """An offset that a user has typed is a mistake rather than a loss."""
    if offset > reach.end and options.fail_on_data_loss:
        raise InvalidConfig(
            f"{option} says offset {offset} for partition {reach.partition} of topic {reach.topic}, which ends at "
            f"offset {reach.end}. Give one up to there, or set failOnDataLoss to false to read what there is"
        )


def place_of(client: Client, bound: Bound, option: str, reach: Reach) -> Offset:
    """The offset that the option names, whether it exists or not."""
    if bound.timestamp_ms is not None:
        return offset_at(client, reach, bound.timestamp_ms * 1_000)
    said = bound.of(reach.topic, reach.partition)
    if said is None:
        raise InvalidConfig(
            f"{option} says nothing of partition {reach.partition} of topic {reach.topic}; give an offset for each "
            f"partition, or -2 for its earliest, -1 for its latest, as far as that makes sense"
        )
    return {EARLIEST: reach.start, LATEST: reach.end}.get(said, said)


def stream_start(client: Client, options: SourceOptions, reach: Reach, option: str = STARTING) -> Offset:
    """The begin of a stream without a checkpoint. A partition that is not named may be new: it is read whole."""
    bound = options.start
    if bound.timestamp_ms is None and bound.of(reach.topic, reach.partition) is None:
        return reach.start
    start = place_of(client, bound, option, reach)
    _refuse_beyond(options, option, reach, start)
    return start


def refuse_strangers(bound: Bound, option: str, found: Sequence[Reach]) -> None:
    """Offsets of partitions that are not read are a mistake in a name or a number."""
    read = {(each.topic, each.partition) for each in found}
    for topic, offsets in bound.offsets.items():
        for partition in offsets:
            if (topic, partition) not in read:
                raise InvalidConfig(
                    f"{option} names partition {partition} of topic {topic}, which this query does not read"
                )

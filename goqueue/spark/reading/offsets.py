"""The positions of a stream: the arithmetic of its offsets, without a broker and without Spark.

An offset of the stream holds the position of each partition, in JSON that Spark keeps in its checkpoint:

    {"orders": {"uuid": "…", "partitions": {"0": {"epoch": 3, "offset": 170},
                                            "1": {"epoch": 3, "offset": 90, "from": 40}}}}

The UUID tells a topic that was created again from the one that was read. The epoch rises with every start of the
broker, and each batch of the log keeps the epoch in which it was written. An epoch that has fallen comes from an
older copy of the data; and so does a log whose last message before the offset has a later epoch than the one that
was noted with it: what was read then had been written by then. `from` is there if a micro-batch does not begin at
the end of the one before: at a new partition, or behind messages that are gone. So a repeated micro-batch reads the
same offsets, whatever has happened since.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from goqueue.client.reading.slices import cut_back, removed
from goqueue.errors import DataLost
from goqueue.spark.reading.ranges import OffsetRange
from goqueue.spark.reading.topics import Reach
from goqueue.types import Offset


class Key(NamedTuple):
    topic: str
    uuid: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class QueryPosition:
    epoch: int
    offset: Offset
    begin: Offset | None = None
    """The begin of the micro-batch that ends here, if it is not the end of the one before."""


QueryPositions = Mapping[Key, QueryPosition]


def to_json(places: QueryPositions) -> dict[str, Any]:
    """Always in one order: Spark compares the text."""
    made: dict[str, Any] = {}
    for key, place in sorted(places.items()):
        topic = made.setdefault(key.topic, {"uuid": str(key.uuid), "partitions": {}})
        entry = {"epoch": place.epoch, "offset": place.offset}
        topic["partitions"][str(key.partition)] = entry if place.begin is None else entry | {"from": place.begin}
    return made


def from_json(made: Mapping[str, Any]) -> dict[Key, QueryPosition]:
    return {
        Key(topic, UUID(said["uuid"]), int(number)): QueryPosition(
            entry["epoch"], entry["offset"], entry.get("from")
        )
        for topic, said in made.items()
        for number, entry in said["partitions"].items()
    }


def offsets_by_topic(places: QueryPositions) -> dict[str, dict[int, Offset]]:
    made: dict[str, dict[int, Offset]] = {}
    for key, place in places.items():
        made.setdefault(key.topic, {})[key.partition] = place.offset
    return made


@dataclass(frozen=True, slots=True)
class Backlog:
    """The messages of a partition for the next micro-batch."""

    reach: Reach
    before: QueryPosition | None
    """The position before; None if the partition is new."""
    begin: Offset
    end: Offset

    @property
    def key(self) -> Key:
        return key_of(self.reach)

    @property
    def count(self) -> int:
        return self.end - self.begin

    def read_up_to(self, end: Offset) -> QueryPosition:
        """The position after the next micro-batch. One that has not moved stays equal, so Spark sees no change."""
        if self.before is not None and end == self.before.offset:
            return self.before
        begins_elsewhere = self.before is None or self.begin != self.before.offset
        return QueryPosition(self.reach.epoch, end, self.begin if begins_elsewhere else None)


def key_of(one: Reach | OffsetRange) -> Key:
    return Key(one.topic, one.uuid, one.partition)


def backlogs(
    start: QueryPositions,
    found: Sequence[Reach],
    *,
    fail_on_data_loss: bool,
    targets: Mapping[Key, Offset] | None = None,
) -> list[Backlog]:
    """The backlogs from `start` on, up to the targets if there are some.

    Messages that are gone are an error, or are skipped.
    """
    if fail_on_data_loss:
        _refuse_losses(start, found)
    return [_backlog(start.get(key_of(each)), each, targets) for each in found]


def _backlog(before: QueryPosition | None, reach: Reach, targets: Mapping[Key, Offset] | None) -> Backlog:
    begin = reach.start if before is None else min(max(before.offset, reach.start), reach.end)
    end = reach.end if targets is None else min(reach.end, targets.get(key_of(reach), begin))
    return Backlog(reach, before, begin, max(begin, end))


def _refuse_losses(start: QueryPositions, found: Sequence[Reach]) -> None:
    reaches, uuids = {key_of(each): each for each in found}, {each.topic: each.uuid for each in found}
    for key, place in start.items():
        reach = reaches.get(key)
        if reach is None:
            raise _gone(key, place.offset, uuids)
        if place.offset < reach.start:
            raise removed(key.topic, key.partition, place.offset, reach.start)
        if place.offset > reach.end:
            raise cut_back(key.topic, key.partition, place.offset, reach.end)
        if place.epoch > reach.epoch:
            raise DataLost(
                f"{key.topic}/{key.partition} was read in epoch {place.epoch} and is now in epoch {reach.epoch}: "
                f"an older copy of the broker's data was put in place, and offsets may be other messages'. {_CURE}"
            )


def to_look_at(places: QueryPositions, found: Sequence[Reach]) -> list[tuple[Reach, QueryPosition]]:
    """Partitions whose broker was restarted since, and whose log has a message before the offset to check."""
    pairs = [(each, place) for each in found if (place := places.get(key_of(each))) is not None]
    return [(each, place) for each, place in pairs if place.epoch < each.epoch and each.holds(place.offset - 1)]


def refuse_other_messages(reach: Reach, place: QueryPosition, epoch_before: int | None) -> None:
    """`epoch_before` is that of the message before the offset; None: not known."""
    if epoch_before is not None and epoch_before > place.epoch:
        raise DataLost(
            f"{reach.topic}/{reach.partition} was read up to offset {place.offset} in epoch {place.epoch}, and "
            f"what lies before it now was written in epoch {epoch_before}: an older copy of the broker's data was "
            f"put in place, and these are other messages. {_CURE}"
        )


_CURE = (
    "Begin anew with another checkpoint, or set failOnDataLoss to false to go on with what is there, which reads "
    "nothing of what is gone"
)


def _gone(key: Key, offset: Offset, uuids: Mapping[str, UUID]) -> DataLost:
    if key.topic not in uuids:
        what = f"topic {key.topic} was deleted"
    elif uuids[key.topic] != key.uuid:
        what = f"topic {key.topic} was deleted and made anew: it was {key.uuid} and is {uuids[key.topic]}"
    else:
        what = f"partition {key.partition} of topic {key.topic} is no longer read"
    return DataLost(f"{what}, and the query was at offset {offset} of its partition {key.partition}. {_CURE}")


def next_places(waiting: Sequence[Backlog], rows_max: int | None) -> dict[Key, QueryPosition]:
    """The end of the next micro-batch. A new partition without messages stays new."""
    taken = shares([each.count for each in waiting], rows_max)
    return {
        each.key: each.read_up_to(each.begin + count)
        for each, count in zip(waiting, taken, strict=True)
        if count or each.before is not None
    }


def shares(counts: Sequence[int], rows_max: int | None) -> list[int]:
    """The number of messages to take of each, at most `rows_max` in all: one of each first, then in proportion.

    So a partition with few messages does not wait for one with many.
    """
    total = sum(counts)
    if rows_max is None or total <= rows_max:
        return list(counts)
    ones = _ones(counts, rows_max)
    rest, left = [count - one for count, one in zip(counts, ones, strict=True)], rows_max - sum(ones)
    cuts = [left * reached // max(1, sum(rest)) for reached in _running(rest)]
    return [one + after - before for one, before, after in zip(ones, cuts, cuts[1:], strict=False)]


def _ones(counts: Sequence[int], rows_max: int) -> list[int]:
    """One for each; if that is too many, for those with the most messages."""
    order = sorted(range(len(counts)), key=lambda number: -counts[number])[:rows_max]
    chosen = {number for number in order if counts[number]}
    return [int(number in chosen) for number in range(len(counts))]


def _running(counts: Iterable[int]) -> Iterator[int]:
    total = 0
    yield total
    for count in counts:
        total += count
        yield total


def readable(
    ranges: Sequence[OffsetRange], found: Sequence[Reach], *, fail_on_data_loss: bool
) -> list[OffsetRange]:
    """The parts of ranges that still exist: a micro-batch may be repeated long after it was planned."""
    if fail_on_data_loss:
        _refuse_losses({key_of(each): QueryPosition(0, each.start) for each in ranges}, found)
        _refuse_losses({key_of(each): QueryPosition(0, each.end) for each in ranges}, found)
    reaches = {key_of(each): each for each in found}
    kept = [_inside(each, reaches.get(key_of(each))) for each in ranges]
    return [each for each in kept if each.count > 0]


def _inside(one: OffsetRange, reach: Reach | None) -> OffsetRange:
    if reach is None:
        return replace(one, end=one.start)
    return replace(one, start=max(one.start, reach.start), end=min(one.end, reach.end))


def ranges_between(start: QueryPositions, end: QueryPositions) -> list[OffsetRange]:
    """The ranges of the micro-batch between two positions."""
    return [
        OffsetRange(*key, begin, place.offset)
        for key, place in sorted(end.items())
        if (begin := _begin(start.get(key), place)) < place.offset
    ]


def _begin(before: QueryPosition | None, place: QueryPosition) -> Offset:
    if before == place:
        return place.offset
    if place.begin is not None:
        return place.begin
    return place.offset if before is None else before.offset

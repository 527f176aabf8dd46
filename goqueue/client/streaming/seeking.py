"""The partitions and the offset that a program's `seek`, `pause` or `resume` names."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from goqueue.client.consuming.options import Start, start_text
from goqueue.client.link.arguments import check_any_partition, check_offset, refusal
from goqueue.client.link.caller import Caller
from goqueue.client.streaming.partition import Key, StreamPartition
from goqueue.core.groups.start import last_count
from goqueue.core.groups.subscription import Subscription
from goqueue.core.names import check_publishable
from goqueue.errors import OffsetOutOfRange, StaleGeneration, UnknownPartition
from goqueue.net.wire import messages as wire
from goqueue.net.wire.groups import AssignedPartition
from goqueue.types import Offset

if TYPE_CHECKING:
    pass

AnswerT = TypeVar("AnswerT")


def chosen(
    streams: Mapping[Key, StreamPartition], subscription: Sequence[str], partition: int | None, topic: str | None
) -> list[StreamPartition]:
    """One partition, or all of a topic, or all."""
    if topic is not None:
        check_publishable(topic)
    if partition is None:
        return [stream for stream in streams.values() if topic in (None, stream.assigned.topic)]
    check_any_partition(partition)
    key = (_only_topic(subscription) if topic is None else topic, partition)
    if key not in streams:
        raise StaleGeneration(
            f"{key[0]}/{partition} is not this consumer's just now; `on_assigned` tells when it is"
        )
    return [streams[key]]


def _only_topic(subscription: Sequence[str]) -> str:
    if len(subscription) != 1 or Subscription.to(subscription[0]).pattern is not None:
        raise refusal("the consumer reads several topics; say which one by topic=")
    return subscription[0]


async def offset_of(client: Caller, assigned: AssignedPartition, to: Start) -> Offset:
    """The current offset of `to`."""
    start_text(to)  # refuses bad values
    topic = await client.topic(assigned.topic)
    if topic.uuid.bytes != assigned.uuid or assigned.partition >= len(topic.partitions):
        raise UnknownPartition(f"topic {assigned.topic} was made anew; wait for the newest assignment")
    place = topic.partitions[assigned.partition]
    if place.error is not None:
        raise place.error
    if to == "earliest":
        return place.start
    if to == "latest":
        return place.end
    if (count := last_count(to)) is not None:
        return max(place.start, place.end - count)
    if type(to) is int:
        return _within(check_offset("to", to), place.start, place.end)
    request = wire.OffsetAtTime(assigned.uuid, assigned.partition, int(start_text(to).removeprefix("time:")))
    found = (await client.call(request, wire.OffsetFound)).offset
    return place.end if found is None else found


def _within(offset: Offset, start: Offset, end: Offset) -> Offset:
    if not start <= offset <= end:
        raise OffsetOutOfRange(
            f"offset {offset} is not between {start} and {end}; seek to one of these", start=start, end=end
        )
    return offset

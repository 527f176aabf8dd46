"""A client asks for a lost partition to be restored.

The dead letters of the topic name offsets of the partition too. They lie in other partitions and are read before
the list of topics is asked, so that nobody waits behind the reading.
"""

from collections.abc import Iterator

from goqueue.actors.front.session import Desk
from goqueue.actors.partition.requests import Fetch
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import DescribeTopics, RestorationView, RestorePartition
from goqueue.core.groups.deadletter import Story
from goqueue.core.names import dead_letter_topic
from goqueue.core.records.batch import ENVELOPE_SIZE, parse_envelope, records_of
from goqueue.core.records.record import decode_records
from goqueue.errors import DamagedData, InvalidName, PartitionUnavailable, UnknownTopic
from goqueue.net.wire import messages as wire
from goqueue.types import Buffer, Offset

READ_SIZE = 1024 * 1024


async def restore_partition(desk: Desk, request: wire.RestorePartition) -> wire.PartitionRestored:
    known, by = request.at_least, "the offset that was given"
    letters = await _highest_dead_letter(desk, request.name, request.partition)
    if letters > known:
        known, by = letters, f"a dead letter in {dead_letter_topic(request.name)}"
    asked = RestorePartition(request.name, request.partition, request.accept_loss, known, by)
    return _answer(await desk.broker.topics.call(asked))


def _answer(view: RestorationView) -> wire.PartitionRestored:
    return wire.PartitionRestored(
        view.name,
        view.partition,
        view.was_lost,
        view.is_restored,
        view.missing,
        view.highest,
        view.named_by,
        view.start,
    )


async def _highest_dead_letter(desk: Desk, topic: str, number: int) -> Offset:
    """The highest offset of this partition that a dead letter names; 0 where none does."""
    try:
        [letters] = await desk.broker.topics.call(DescribeTopics((dead_letter_topic(topic),)))
    except (UnknownTopic, InvalidName):
        return 0
    highest = 0
    for view in letters.partitions:
        if view.error is None:
            ref = await desk.partition(letters.uuid.bytes, view.partition)
            highest = max(highest, await _highest_in(ref, view.start, view.end, topic, number))
    return highest


async def _highest_in(ref: ActorRef, offset: Offset, end: Offset, topic: str, number: int) -> Offset:
    highest = 0
    while offset < end:
        try:
            found = await ref.call(Fetch(offset, READ_SIZE))
        except DamagedData as damage:
            offset = damage.end_offset
            continue
        except PartitionUnavailable:
            break
        highest = max([highest, *_offsets_in(found.data, topic, number)])
        if found.next_offset <= offset:
            break  # what follows is not durable yet, and so is nobody's
        offset = found.next_offset
    return highest


def _offsets_in(data: Buffer, topic: str, number: int) -> Iterator[Offset]:
    view, position = memoryview(data), 0
    while position < len(view) and (envelope := parse_envelope(view, position)) is not None:
        body = records_of(envelope, view[position + ENVELOPE_SIZE : position + envelope.size])
        for record in decode_records(body, envelope.record_count, envelope.base_offset):
            story = Story.from_headers(record.headers)
            if story is not None and (story.topic, story.partition) == (topic, number):
                yield story.offset
        position += envelope.size

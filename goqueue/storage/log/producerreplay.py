"""Replaying the batches behind a snapshot of producers."""

from collections.abc import Iterable

from goqueue.core.log.producers import ProducerStates
from goqueue.storage.log.producersnapshot import FoundProducers
from goqueue.storage.log.scan import Found
from goqueue.storage.log.segment import Segment
from goqueue.storage.log.summary import producer_note
from goqueue.types import Offset


async def replayed_producers(segments: Iterable[Segment], found: FoundProducers) -> FoundProducers:
    """The states at the end of these segments."""
    for segment in segments:
        if segment.end_offset > found.replay_from:
            await _replay(segment, found.states, found.replay_from)
    return found


async def _replay(segment: Segment, states: ProducerStates, offset: Offset) -> None:
    with segment.volume.reader(segment.path()) as file:
        place = (await segment.index(file)).place_of_offset(max(0, offset - segment.base_offset))
        scanner = segment.scanner(file, place)
        while items := await scanner.next():
            for item in items:
                if isinstance(item, Found) and item.envelope.producer_id and item.envelope.base_offset >= offset:
                    states.replay(*producer_note(item.envelope))

"""Batches that arrive at a partition's log, and the producers that wait for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from goqueue.actors.partition.requests import Produce, Produced
from goqueue.actors.runtime.messages import Reply
from goqueue.core.log.messageids import GivenId
from goqueue.core.records.batch import ZSTD, Batch, accept, decompress
from goqueue.core.records.record import FLAGS_FROM_BROKER
from goqueue.errors import BatchRefused
from goqueue.types import Acks, Buffer, Offset


@dataclass(frozen=True, slots=True)
class Arrival:
    batch: Batch
    acks: Acks
    reply: Reply[Produced]
    ids: Sequence[GivenId] = ()
    by_broker: bool = False
    refusal: BatchRefused | None = None
    """A rule of the topic is against it, unless it repeats what was written before."""


@dataclass(slots=True)
class Judged:
    """The verdict on the arrivals of a turn. Answers are sent once the new ones are written."""

    new: list[Arrival] = field(default_factory=list)
    repeated: list[tuple[Arrival, Offset]] = field(default_factory=list)
    """Batches that were written before, and their first offset."""
    refused: list[tuple[Arrival, BatchRefused]] = field(default_factory=list)
    """Batches that break rules or repeat messages, whose originals may be among the new ones."""

    def all(self) -> list[Arrival]:
        others = [*self.repeated, *self.refused]
        return [*self.new, *(arrival for arrival, _ in others)]


@dataclass(frozen=True, slots=True)
class WaitingProducer:
    """A producer that waits until everything below `end` is durable."""

    end: Offset
    answer: Produced | BatchRefused
    reply: Reply[Produced]


def tell(reply: Reply[Produced], answer: Produced | BatchRefused) -> None:
    if isinstance(answer, BatchRefused):
        reply.fail(answer)
    else:
        reply.resolve(answer)


def moved_by_broker(message: Produce, reply: Reply[Produced]) -> Arrival:
    batch = accept(
        message.body,
        message.record_count,
        attributes=message.attributes,
        producer=message.producer,
        allowed_flags=FLAGS_FROM_BROKER,
    )
    return Arrival(batch, message.acks, reply, by_broker=True)


def records_in(batch: Batch) -> Buffer:
    return decompress(batch.body) if batch.attributes & ZSTD else batch.body

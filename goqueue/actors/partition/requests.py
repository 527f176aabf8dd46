"""The requests of a partition."""

from dataclasses import dataclass

from goqueue.actors.delivery.requests import StreamReader, TopicReaders
from goqueue.actors.runtime.messages import Request
from goqueue.config import LogConfig
from goqueue.core.log.admission import Admission
from goqueue.core.records.batch import NO_PRODUCER, Producer
from goqueue.storage.log.views import LogSlice
from goqueue.types import Acks, Buffer, Microseconds, Offset


@dataclass(frozen=True, slots=True)
class Produced:
    base_offset: Offset
    append_time: Microseconds = 0
    """When it was written; 0 for a repeat, whose time is no longer known."""


@dataclass(frozen=True, slots=True)
class Produce(Request[Produced]):
    """A batch of records as a client encoded them. Answered when it is where `acks` wants it."""

    body: Buffer
    record_count: int
    attributes: int = 0
    producer: Producer = NO_PRODUCER
    acks: Acks = Acks.ALL
    by_broker: bool = False
    """Moved by the broker, and checked when it was first accepted (G16): neither limits nor a low disk stop it."""


@dataclass(frozen=True, slots=True)
class Fetch(Request[LogSlice]):
    """The batches from `offset` on, up to the high watermark."""

    offset: Offset
    bytes_max: int
    reader: StreamReader | None = None


@dataclass(frozen=True, slots=True)
class AwaitMore(Request[None]):
    """Answered when the high watermark passes `offset`, at the latest at `deadline`, in Trio's time."""

    offset: Offset
    deadline: float
    reader: StreamReader | None = None


@dataclass(frozen=True, slots=True)
class OffsetAtTime(Request[Offset | None]):
    time: Microseconds


@dataclass(frozen=True, slots=True)
class DeleteBefore(Request[None]):
    """None removes everything that readers can see."""

    offset: Offset | None


@dataclass(frozen=True, slots=True)
class Configure(Request[None]):
    """Use these settings from now on."""

    config: LogConfig
    admission: Admission


@dataclass(frozen=True, slots=True)
class Maintain(Request[None]):
    """Apply retention; compact by key if the topic is configured so."""

    compact: bool
    readers: TopicReaders | None = None
    """For retention by acks; None: they are not known."""

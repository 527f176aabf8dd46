"""What a partition takes in: the rules of its topic and the room on the disk (G16: one place, whatever the way in).

A topic's limits on bytes and messages are shared evenly among its partitions, since each partition can only count
its own. With `overflow=reject` a full partition refuses; with `drop_oldest` it takes everything and the oldest go.
"""

from dataclasses import dataclass

from goqueue.core.records.record import HEADER_SIZE, HEADERS_LENGTH, VALUE_SIZE_MAX, Flag, RecordPlace, walk_records
from goqueue.core.topics.config import SCHEMA_VALUE_BYTES, TopicConfig
from goqueue.errors import BadRecord, BatchRefused, DiskFull, InvalidMessage, TooLarge, TopicFull
from goqueue.types import Acks, Buffer

DISK_FREE_SHARE, DISK_FREE_MIN = 0.05, 1024**3


@dataclass(frozen=True, slots=True)
class Admission:
    min_acks: Acks = Acks.NONE
    message_bytes_max: int = VALUE_SIZE_MAX
    bytes_max: int | None = None
    messages_max: int | None = None
    drops_oldest: bool = False
    wants_keys: bool = False
    """The topic is compacted by key: a message without one would stay for ever."""
    validates: bool = True
    """Messages are held to the schemas of the topic, where it has any."""
    only_warns: bool = False
    """What does not fit is counted and accepted."""
    schema_value_bytes: int = SCHEMA_VALUE_BYTES

    @classmethod
    def of(cls, config: TopicConfig, partitions: int) -> "Admission":
        return cls(
            min_acks=Acks[config.min_acks.upper()],
            message_bytes_max=config.max_message_bytes,
            bytes_max=_share(config.max_bytes, partitions),
            messages_max=_share(config.max_messages, partitions),
            drops_oldest=config.overflow == "drop_oldest",
            wants_keys=config.cleanup == "compact",
            validates=config.schema_validation != "off",
            only_warns=config.schema_validation == "warn",
            schema_value_bytes=config.schema_value_bytes,
        )

    @property
    def is_unlimited(self) -> bool:
        return self.bytes_max is None and self.messages_max is None

    def check_acks(self, acks: Acks) -> None:
        if acks < self.min_acks:
            raise InvalidMessage(
                f"this topic wants acks={self.min_acks.name.lower()} at least, not {acks.name.lower()}"
            )

    @property
    def checks_records(self) -> bool:
        """The topic has rules for single messages, beside those that hold for every topic."""
        return self.wants_keys or self.message_bytes_max < VALUE_SIZE_MAX

    def check_records(self, records: Buffer, count: int) -> None:
        """`BatchRefused` names each message that breaks a rule of the topic."""
        faults = [self._fault(records, place) for place in walk_records(records, count)]
        bad = [BadRecord(number, fault) for number, fault in enumerate(faults) if fault is not None]
        if bad:
            raise BatchRefused(bad)

    def _fault(self, records: Buffer, place: RecordPlace) -> InvalidMessage | None:
        if self.wants_keys and not place.key_size:
            return InvalidMessage("this topic is compacted by key and takes no message without one; give it a key")
        if (size := _value_size(records, place)) > self.message_bytes_max:
            return TooLarge(f"the value has {size} bytes; this topic allows {self.message_bytes_max}")
        return None

    def check_room(self, size: int, messages: int) -> None:
        """`TopicFull` when the partition would hold more than its limits, and may not drop its oldest messages."""
        if not self.drops_oldest and self.excess(size, messages):
            raise TopicFull("the topic is full, and overflow=reject; let something go, or raise its limits")

    def excess(self, size: int, messages: int) -> bool:
        too_large = self.bytes_max is not None and size > self.bytes_max
        return too_large or (self.messages_max is not None and messages > self.messages_max)


def disk_needed(total: int, *, least: int = DISK_FREE_MIN, share: float = DISK_FREE_SHARE) -> int:
    """The free bytes below which publishes are refused; 0 when they never are."""
    return max(least, round(total * share)) if least else 0


def check_disk(free: int, total: int, *, least: int = DISK_FREE_MIN, share: float = DISK_FREE_SHARE) -> None:
    """Publishes stop before the disk is full, so that reads, acks and dead letters can go on."""
    wanted = disk_needed(total, least=least, share=share)
    if free < wanted:
        raise DiskFull(f"{free} bytes are free on the disk, {wanted} must stay free; make room, then try again")


def _share(limit: int | None, partitions: int) -> int | None:
    return None if limit is None else max(1, limit // partitions)


def _value_size(records: Buffer, place: RecordPlace) -> int:
    begin = place.position + HEADER_SIZE + place.key_size
    size = place.end - begin
    if place.flags & Flag.DELAYED:
        begin, size = begin + 8, size - 8
    if place.flags & Flag.HEADERS:
        size -= HEADERS_LENGTH.size + HEADERS_LENGTH.unpack_from(records, begin)[0]
    return size

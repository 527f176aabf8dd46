"""goqueue: a durable message broker for Python teams."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from goqueue.client.client import Client, connect
from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.client.consuming.retry import Retry
from goqueue.client.delayed import Delayed, DelayedPage, DueCount
from goqueue.client.groups import (
    DamagedSkipped,
    Group,
    GroupLane,
    GroupMember,
    GroupPartition,
    ResetPartition,
)
from goqueue.client.letters import DeadLetter, DeadLetterCounts, DeadLetterPage, Dismissed, Redriven
from goqueue.client.link.topics import DamagedRange, HeldSegments, Partition, RestoredPartition, Topic
from goqueue.client.producing.producer import Producer
from goqueue.client.producing.typed import TypedProducer
from goqueue.client.reading.message import Message, Published
from goqueue.client.reading.reader import Reader
from goqueue.client.schemas.registry import SchemaFinding, SchemaFindings
from goqueue.client.schemas.source import RegisteredSchema
from goqueue.client.working.rules import Worked
from goqueue.client.working.worker import Worker, worker
from goqueue.core.health import Health, HealthReason
from goqueue.core.schemas.schema import Reference
from goqueue.errors import (
    BufferFull,
    Closed,
    DamagedData,
    DeliveryTimeout,
    DiskFull,
    Fenced,
    GoQueueError,
    GroupConflict,
    HandlerCannotRun,
    IncompatibleSchema,
    InvalidConfig,
    InvalidMessage,
    InvalidName,
    InvalidSchema,
    NotDamaged,
    OffsetOutOfRange,
    OutcomeUnknown,
    PartitionLost,
    PublishFailed,
    RegistryError,
    SchemaConflict,
    SchemaMisfit,
    SchemaRefused,
    SparkNotReady,
    StaleGeneration,
    StaleReceipt,
    TableInUse,
    TooLarge,
    TopicExists,
    TopicFull,
    Unavailable,
    UnknownGroup,
    UnknownMember,
    UnknownPartition,
    UnknownSchema,
    UnknownSubject,
    UnknownTopic,
    WrongEventLoop,
    WrongPort,
)
from goqueue.types import Acks, Priority

if TYPE_CHECKING:
    from goqueue import aio, blocking, testing

__version__ = "0.1.0"

__all__ = [
    "Acks",
    "BufferFull",
    "Client",
    "Closed",
    "Consumer",
    "DamagedData",
    "DamagedRange",
    "DamagedSkipped",
    "DeadLetter",
    "DeadLetterCounts",
    "DeadLetterPage",
    "Delayed",
    "DelayedPage",
    "DeliveredMessage",
    "DeliveryTimeout",
    "DiskFull",
    "Dismissed",
    "DueCount",
    "Fenced",
    "GoQueueError",
    "Group",
    "GroupConflict",
    "GroupLane",
    "GroupMember",
    "GroupPartition",
    "HandlerCannotRun",
    "Health",
    "HealthReason",
    "HeldSegments",
    "IncompatibleSchema",
    "InvalidConfig",
    "InvalidMessage",
    "InvalidName",
    "InvalidSchema",
    "Message",
    "NotDamaged",
    "OffsetOutOfRange",
    "OutcomeUnknown",
    "Partition",
    "PartitionLost",
    "Priority",
    "Producer",
    "PublishFailed",
    "Published",
    "Reader",
    "Redriven",
    "Reference",
    "RegisteredSchema",
    "RegistryError",
    "ResetPartition",
    "RestoredPartition",
    "Retry",
    "SchemaConflict",
    "SchemaFinding",
    "SchemaFindings",
    "SchemaMisfit",
    "SchemaRefused",
    "SparkNotReady",
    "StaleGeneration",
    "StaleReceipt",
    "TableInUse",
    "TooLarge",
    "Topic",
    "TopicExists",
    "TopicFull",
    "TypedProducer",
    "Unavailable",
    "UnknownGroup",
    "UnknownMember",
    "UnknownPartition",
    "UnknownSchema",
    "UnknownSubject",
    "UnknownTopic",
    "Worked",
    "Worker",
    "WrongEventLoop",
    "WrongPort",
    "__version__",
    "aio",
    "blocking",
    "connect",
    "testing",
    "worker",
]


def __getattr__(name: str) -> Any:
    """`goqueue.blocking` and its like work after `import goqueue`, and cost nothing where they are not used."""
    if name in ("aio", "blocking", "spark", "testing"):
        return import_module(f"goqueue.{name}")
    raise AttributeError(f"module 'goqueue' has no attribute {name!r}")

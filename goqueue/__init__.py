"""goqueue: a durable message broker for Python teams."""

from goqueue.errors import (
    Closed,
    DeliveryTimeout,
    DiskFull,
    Fenced,
    GoQueueError,
    InvalidConfig,
    InvalidMessage,
    InvalidName,
    OffsetOutOfRange,
    TooLarge,
    TopicExists,
    Unavailable,
    UnknownTopic,
)
from goqueue.net.client import Client, Partition, Topic, connect
from goqueue.net.message import Message, Published
from goqueue.types import Acks, Priority

__version__ = "0.1.0"

__all__ = [
    "Acks",
    "Client",
    "Closed",
    "DeliveryTimeout",
    "DiskFull",
    "Fenced",
    "GoQueueError",
    "InvalidConfig",
    "InvalidMessage",
    "InvalidName",
    "Message",
    "OffsetOutOfRange",
    "Partition",
    "Priority",
    "Published",
    "TooLarge",
    "Topic",
    "TopicExists",
    "Unavailable",
    "UnknownTopic",
    "__version__",
    "connect",
]

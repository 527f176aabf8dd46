"""Stands in for a partition that could not be opened: it answers all requests with the reason (G13)."""

from collections.abc import Sequence
from typing import TypeGuard

from goqueue.actors.partition.board import UnavailableBoard
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.messages import Letter
from goqueue.core.topics.metadata import KnownTopic
from goqueue.errors import DiskFailed, LogStopped, PartitionLost, PartitionUnavailable, StorageError, UnexpectedFile


class UnavailablePartition(Actor):
    def __init__(self, reason: StorageError) -> None:
        self._board = UnavailableBoard(reason)

    async def start(self) -> None:
        self.show(self._board)

    def close(self) -> None:
        self.show(None)

    async def handle_batch(self, batch: Sequence[Letter]) -> None:
        for letter in batch:
            letter.reply.fail(self._board.error())


def is_bearable(error: Exception) -> TypeGuard[StorageError]:
    """Whether the other partitions can be served. A disk that fails is not to be trusted with them either."""
    is_failure = isinstance(error, DiskFailed | LogStopped) and not isinstance(error, UnexpectedFile)
    return isinstance(error, StorageError) and not is_failure


def unavailable(topic: KnownTopic, number: int, folder: str, error: StorageError) -> PartitionUnavailable:
    return PartitionUnavailable(
        f"partition {number} of topic {topic.name} cannot be opened: {error.message}. Nothing in {folder} was "
        f"touched; `goqueue log verify {folder}` names the file. Mend it or start the goqueue that wrote it, then "
        "restart the broker; the other partitions are served",
        topic=topic.name,
        partition=number,
        path=folder,
        cause=error.code,
    )


def not_yet(topic: KnownTopic, number: int, error: StorageError) -> StorageError:
    """There was no room, or no descriptor, to open it: the client may try again, and so does the broker."""
    return type(error)(
        f"partition {number} of topic {topic.name} is not open yet: {error.message}; the broker tries again",
        topic=topic.name,
        partition=number,
    )


def lost(topic: KnownTopic, number: int, folder: str, missing: str) -> PartitionLost:
    return PartitionLost(
        f"partition {number} of topic {topic.name} is lost: {missing} ({folder}). Stop the broker and put the "
        f"folder back, or run `goqueue topic restore-partition {topic.name}/{number}`, which says what is lost and "
        "what it would do; the other partitions are served",
        topic=topic.name,
        partition=number,
        path=folder,
        missing=missing,
    )

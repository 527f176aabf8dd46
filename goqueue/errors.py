"""Every error that goqueue raises on purpose.

Two kinds of failure exist. These are the expected kind: something outside was wrong, nothing was changed, and the
caller is told what, why and what to do next. Everything else (an assertion, a KeyError of our own) is a bug and
crashes the actor that met it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class GoQueueError(Exception):
    """The root. `code` is stable and travels on the wire; `retryable` says whether a repeat may succeed."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


# What a client sent.


class ProtocolError(GoQueueError):
    """What the other end sent breaks the protocol; docs/protocol.md says how it should look."""

    code = "protocol_error"


class InvalidMessage(GoQueueError):
    """A record or batch breaks the format or a limit."""

    code = "invalid_message"


class TooLarge(InvalidMessage):
    """A key, value, header section or batch is beyond its limit."""

    code = "too_large"


class CorruptMessage(InvalidMessage):
    """A checksum does not match: the bytes changed on their way."""

    code = "corrupt_message"
    retryable = True


class DuplicateMessage(InvalidMessage):
    """A message with this id was published within the last two minutes; this one must not be sent again.

    `offset` is that of the first one. It is None when that one is in the same batch: send the others first, then
    this one again, and its offset is known.
    """

    code = "duplicate_message"

    @property
    def offset(self) -> int | None:
        offset = self.details.get("offset")
        return offset if isinstance(offset, int) else None


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One refused record of a batch: which one, and why."""

    index: int
    error: InvalidMessage


class BatchRefused(InvalidMessage):
    """Some records of a batch are bad. Nothing of it was appended; `records` names every bad one."""

    code = "batch_refused"

    def __init__(self, records: Sequence[BadRecord]) -> None:
        first = records[0]
        more = f" (and {len(records) - 1} more)" if len(records) > 1 else ""
        super().__init__(f"record {first.index} refused: {first.error.message}{more}")
        self.records = tuple(records)


class InvalidName(GoQueueError):
    """A topic or group name has characters, a length or a meaning that names must not have."""

    code = "invalid_name"


class InvalidConfig(GoQueueError):
    """Settings that do not exist or have values they cannot have; `details` has `faults`, one text for each."""

    code = "invalid_config"


class UnknownTopic(GoQueueError):
    """No topic has this name. Nothing is created by publishing to it or reading from it."""

    code = "unknown_topic"


class TopicExists(GoQueueError):
    """A topic of this name is there already; it was left as it is."""

    code = "topic_exists"


class TopicFull(GoQueueError):
    """The topic has reached its limit, and `overflow=reject`. It works again once messages were removed."""

    code = "topic_full"
    retryable = True


class UnknownPartition(GoQueueError):
    """The topic has no partition of this number."""

    code = "unknown_partition"


# Refusals of an idempotent producer. Nothing of the batch was written now.


class ProducerRefused(GoQueueError):
    """The root of the errors of an idempotent producer."""

    code = "producer_refused"


class Fenced(ProducerRefused):
    """A newer epoch of this producer has written, or another consumer has joined as this member: this one has been
    replaced and must stop."""

    code = "fenced"


class OutOfOrderSequence(ProducerRefused):
    """The batch is not the next one; `details` has the `expected` sequence. Batches are missing before it."""

    code = "out_of_order_sequence"


class UnknownProducer(ProducerRefused):
    """The partition knows nothing of this producer, or no longer, yet its batch is not a first one."""

    code = "unknown_producer"


class RepeatTooOld(ProducerRefused):
    """A repeat of a batch that was written so long ago that its offset is no longer remembered."""

    code = "repeat_too_old"


class OffsetOutOfRange(GoQueueError):
    """The offset lies outside the partition's log; `details` has `start` and `end`."""

    code = "offset_out_of_range"


class DataLost(GoQueueError):
    """Messages that were to be read are gone: retention removed them, or their topic was deleted, or made anew."""

    code = "data_lost"


# What a member of a group asked.


class UnknownGroup(GoQueueError):
    """There is no group of this name. The first consumer that joins creates it."""

    code = "unknown_group"


class GroupConflict(GoQueueError):
    """The group has other settings, or has members while it must have none; nothing was changed.

    `details` has `settings`, the names of those that differ, or `members`, their number.
    """

    code = "group_conflict"


class UnknownMember(GoQueueError):
    """The group has no such member, or no longer. Join again."""

    code = "unknown_member"


class StaleGeneration(GoQueueError):
    """The request relies on an assignment that is no longer valid. Nothing was changed; await the newest."""

    code = "stale_generation"


class StaleReceipt(GoQueueError):
    """The lease has ended, or never was: another consumer may have the message. Nothing was changed for it.

    `receipts` names every stale one; the others of the same call are settled.
    """

    code = "stale_receipt"

    def __init__(self, message: str, receipts: Sequence[str] = (), **details: Any) -> None:
        super().__init__(message, **details)
        self.receipts = list(receipts)


# What the disk did.


class StorageError(GoQueueError):
    """The disk, or a file on it, is not as it must be."""

    code = "storage_error"


class DiskFull(StorageError):
    """The disk is full. The operation was undone; it works again once there is room."""

    code = "disk_full"
    retryable = True


class TooManyFiles(DiskFull):
    """The process, or the system, has no descriptor left to open a file. Nothing was changed; try again later."""

    code = "too_many_files"


class DiskFailed(StorageError):
    """The operating system reported an input or output error."""

    code = "disk_failed"


class UnexpectedFile(DiskFailed):
    """There is a file where a directory is expected, or something that is no file where a file is expected."""

    code = "unexpected_file"


class LogStopped(StorageError):
    """A write or fsync failed in a way that leaves the disk's state unknown. Reopen the log to go on."""

    code = "log_stopped"


class DamagedData(StorageError):
    """Bytes that were once durable are no longer sound. Reads before and after the range work."""

    code = "damaged_data"

    def __init__(self, path: str, position: int, end_position: int, offset: int, end_offset: int) -> None:
        super().__init__(
            f"offsets {offset} to {end_offset - 1} are damaged "
            f"(bytes {position} to {end_position} of {path}); "
            f"go on reading at offset {end_offset}, or restore the file from a backup"
        )
        self.path, self.position, self.end_position = path, position, end_position
        self.offset, self.end_offset = offset, end_offset

    @property
    def restart_at(self) -> int:
        """The first offset behind the damage: a reader goes on there."""
        return self.end_offset


class NotDamaged(GoQueueError):
    """Nothing of the range is damaged for the group, so there is nothing to give up."""

    code = "not_damaged"


class DataDirectoryLocked(StorageError):
    """Another process holds the data directory."""

    code = "data_directory_locked"


class PartitionUnavailable(StorageError):
    """This partition could not be opened and was left as it is; the others are served. An operator must look."""

    code = "partition_unavailable"


class PartitionLost(PartitionUnavailable):
    """The broker's list of topics has this partition and the disk does not: its folder or its segments are gone.

    The broker does not begin it anew by itself, since that would assign its offsets a second time. Put the folder
    back and restart the broker, or run `goqueue topic restore-partition`. The other partitions are served.
    """

    code = "partition_lost"


class DirectoryNotEmpty(StorageError):
    """A backup or a restore needs an empty or a missing directory, and this one is not empty."""

    code = "directory_not_empty"


class ForeignDirectory(StorageError):
    """The data directory has files of something else, and none of a broker. It is left as it is."""

    code = "foreign_directory"


class IncompleteCopy(StorageError):
    """A backup or a restore that was cut short, or a backup that was changed. It must not be used."""

    code = "incomplete_copy"


class UnknownFormat(StorageError):
    """The files were written by a newer goqueue, or are not goqueue's."""

    code = "unknown_format"


class CannotListen(GoQueueError):
    """The broker cannot open one of its ports."""

    code = "cannot_listen"


# What happened inside.


class Unavailable(GoQueueError):
    """Nobody could answer in time; nothing is known to be wrong with the request."""

    code = "unavailable"
    retryable = True


class BufferFull(Unavailable):
    """A producer's buffer is full and the caller chose not to wait; wait, or use `send`."""

    code = "buffer_full"


class OutcomeUnknown(GoQueueError):
    """Whether a message was written cannot be known any more; sending it again could double it."""

    code = "outcome_unknown"


class PublishFailed(GoQueueError):
    """Some messages of a `send_many` were not published; `results` has a Published or an error for each value."""

    code = "publish_failed"

    def __init__(self, results: Sequence[object]) -> None:
        failed = [result for result in results if isinstance(result, GoQueueError)]
        super().__init__(f"{len(failed)} of {len(results)} messages were not published: {failed[0].message}")
        self.results = list(results)


class DeliveryTimeout(Unavailable):
    """A publish was not confirmed within its `delivery_timeout`; it was not written and will not be.

    `reason` says why the broker refused it last, or could not be reached, and `last_error` is the code of that.
    Both are None when it did not answer at all.
    """

    code = "delivery_timeout"

    @property
    def reason(self) -> str | None:
        return self._told("reason")

    @property
    def last_error(self) -> str | None:
        return self._told("last_error")

    def _told(self, name: str) -> str | None:
        told = self.details.get(name)
        return told if isinstance(told, str) else None


class DeliveryUnknown(OutcomeUnknown, DeliveryTimeout):
    """The message was sent, no answer came within `delivery_timeout`, and it may have been written or not."""

    code = "delivery_unknown"
    retryable = False


class SparkNotReady(GoQueueError):
    """Spark cannot work as things are: a package, Java or the workers' Python is missing or of a wrong version."""

    code = "spark_not_ready"


class HandlerCannotRun(GoQueueError):
    """A worker's handler cannot handle any message: it takes no message, or is for another event loop."""

    code = "handler_cannot_run"


class RowRefused(InvalidMessage):
    """A table row cannot be a message. `details` has `row`, counted from 0 among those of its task."""

    code = "row_refused"


class TableInUse(GoQueueError):
    """Another ingest writes to the same table."""

    code = "table_in_use"


class ActorDied(Unavailable):
    """The actor that was to answer crashed or stopped; whether it acted is not known."""

    code = "actor_died"


class MailboxFull(Unavailable):
    """An actor's mailbox is full and the sender chose not to wait."""

    code = "mailbox_full"


class CallCycle(GoQueueError):
    """An actor called itself, directly or through others: a bug that would have been a deadlock."""

    code = "call_cycle"


class WrongEventLoop(GoQueueError):
    """A client of Trio is used without Trio, or one of asyncio without asyncio; the message names the right one."""

    code = "wrong_event_loop"


class WrongPort(GoQueueError):
    """The address is that of a port that does not take clients, such as the broker's HTTP port.

    `details` has `websocket`, the right address, if the other end has told it.
    """

    code = "wrong_port"


class Closed(GoQueueError):
    """A call on something that was closed."""

    code = "closed"

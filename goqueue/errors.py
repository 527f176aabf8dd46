"""Every error that goqueue raises on purpose.

Two kinds of failure exist. These are the expected kind: something outside was wrong, nothing was changed, and the
caller is told what, why and what to do next. Everything else (an assertion, a KeyError of our own) is a bug and
crashes the actor that met it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class GoQueueError(Exception):
    """The root of all errors. Catch it where every refusal is treated alike; the text says what to do.

    `code` is stable and travels on the wire; `retryable` says whether a repeat may succeed.
    """

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


# What a client sent.


class ProtocolError(GoQueueError):
    """What the other end sent breaks the protocol. Use a client and a broker of versions that fit; in a client of
    your own, mend the field that the text names.

    docs/protocol.md says how it should look.
    """

    code = "protocol_error"


class InvalidMessage(GoQueueError):
    """A record or batch breaks the format or a limit. Change the message; nothing of it was written."""

    code = "invalid_message"


class TooLarge(InvalidMessage):
    """A key, value, header section, batch or answer is beyond its limit. Send or ask for less at a time, or
    raise `max_message_bytes` of the topic."""

    code = "too_large"


class CorruptMessage(InvalidMessage):
    """A checksum does not match: the bytes changed on their way. Send the message again."""

    code = "corrupt_message"
    retryable = True


class DuplicateMessage(InvalidMessage):
    """A message with this id was published within the last two minutes. Do not send this one again.

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
    """Some records of a batch are bad, and nothing of it was appended. Send the others again without those that
    `records` names."""

    code = "batch_refused"

    def __init__(self, records: Sequence[BadRecord]) -> None:
        first = records[0]
        more = f" (and {len(records) - 1} more)" if len(records) > 1 else ""
        super().__init__(f"record {first.index} refused: {first.error.message}{more}")
        self.records = tuple(records)


class SchemaRefused(InvalidMessage):
    """The key or the value does not fit the schema of its topic. Mend what the text names, or register a schema
    that allows it; `schema_validation` of the topic switches the check off.

    The text has the path, the keyword, and the subject and version of the schema, and never the value.
    """

    code = "schema_refused"


class SchemaMisfit(InvalidMessage):
    """A value does not fit the type or the schema that the program has given: a consumer's message, or what a
    producer was to send. Give the program a type that takes both, or mend who sends it; a consumer with
    `on_misfit="reject"` makes a dead letter of such a message instead.

    The text says where and what is wrong, and never the value. `details` of a consumer's message has `topic`,
    `partition` and `offset`.
    """

    code = "schema_misfit"


class RegistryError(GoQueueError):
    """The schema registry refuses a request, and nothing was changed. The classes below say why.

    `error_code` is the number by which clients of Confluent's registry know the reason.
    """

    code = "registry_error"

    @property
    def error_code(self) -> int | None:
        number = self.details.get("error_code")
        return number if isinstance(number, int) else None


class UnknownSubject(RegistryError):
    """No subject has this name, or it has no setting of its own. List the subjects, or register a schema first."""

    code = "unknown_subject"


class UnknownSchema(RegistryError):
    """There is no schema with this id, or no such version of the subject. List the versions of the subject."""

    code = "unknown_schema"


class InvalidSchema(RegistryError):
    """The schema, or what is asked for it, cannot be: no valid JSON Schema, an unknown reference, a version, a
    level or a name that does not exist. Correct what the text names."""

    code = "invalid_schema"


class IncompatibleSchema(RegistryError):
    """The schema is not compatible with earlier versions of its subject. Change what the text names;
    `goqueue schema check` lists every finding, and what would make it compatible."""

    code = "incompatible_schema"


class SchemaConflict(RegistryError):
    """The state of the subject does not permit this: it is read-only, other schemas refer to the version, the id is
    taken, or it has to be deleted softly first. The text says what to do before."""

    code = "schema_conflict"


class InvalidName(GoQueueError):
    """A topic or group name has characters, a length or a meaning that names must not have. Choose another name;
    the text says what is allowed."""

    code = "invalid_name"


class InvalidConfig(GoQueueError):
    """Settings do not exist, or have values that they cannot have. Correct those that the text names; nothing was
    changed.

    `details` has `faults`, one text for each.
    """

    code = "invalid_config"


class UnknownTopic(GoQueueError):
    """No topic has this name. Create it, or correct the name: publishing and reading create nothing."""

    code = "unknown_topic"


class TopicExists(GoQueueError):
    """A topic of this name is there already, and was left as it is. Use it, alter it, or choose another name."""

    code = "topic_exists"


class TopicFull(GoQueueError):
    """The topic has reached its limit, and `overflow=reject`. Publish again once messages were removed, or raise
    `max_bytes` or `max_messages`."""

    code = "topic_full"
    retryable = True


class UnknownPartition(GoQueueError):
    """The topic has no partition of this number. Choose one from 0 to the number of partitions less one."""

    code = "unknown_partition"


# Refusals of an idempotent producer. Nothing of the batch was written now.


class ProducerRefused(GoQueueError):
    """The root of the errors of an idempotent producer. Close the producer and open another; look first whether
    the message was written."""

    code = "producer_refused"


class Fenced(ProducerRefused):
    """A newer epoch of this producer has written, or another consumer has joined as this member. Stop: this one
    has been replaced."""

    code = "fenced"


class OutOfOrderSequence(ProducerRefused):
    """The batch of a producer is not the next one: batches are missing before it. Let the client number anew;
    goqueue's own does so by itself.

    `details` has the `expected` sequence.
    """

    code = "out_of_order_sequence"


class UnknownProducer(ProducerRefused):
    """The partition knows nothing of this producer, or no longer, but its batch is not a first one. Take a new
    producer id; goqueue's own client does so by itself."""

    code = "unknown_producer"


class RepeatTooOld(ProducerRefused):
    """A repeat of a batch that was written so long ago that its offset is no longer remembered. Do not send it
    again: it is there."""

    code = "repeat_too_old"


class OffsetOutOfRange(GoQueueError):
    """The offset lies outside the partition's log. Go on from `earliest`, `latest` or an offset between `start` and
    `end`.

    `details` has `start` and `end`.
    """

    code = "offset_out_of_range"


class DataLost(GoQueueError):
    """Messages that a query on Spark was to read are gone: retention removed them, or their topic was deleted or
    made anew. Begin a new query, or read on with `failOnDataLoss=false`."""

    code = "data_lost"


# What a member of a group asked.


class UnknownGroup(GoQueueError):
    """There is no group of this name. Correct the name, or start a consumer: the first one that joins creates
    the group."""

    code = "unknown_group"


class GroupConflict(GoQueueError):
    """The group has other settings, or has members while it must have none. Ask for the settings that it has, alter
    the group, or stop its members; nothing was changed.

    `details` has `settings`, the names of those that differ, or `members`, their number.
    """

    code = "group_conflict"


class UnknownMember(GoQueueError):
    """The group has no such member, or no longer. Join again; goqueue's own consumers do so by themselves."""

    code = "unknown_member"


class StaleGeneration(GoQueueError):
    """The request relies on an assignment that is no longer valid. Leave these messages to the new owner, and go
    on with what comes next; nothing was changed."""

    code = "stale_generation"


class StaleReceipt(GoQueueError):
    """The lease has ended, or never was: another consumer may have the message. Do nothing more with it; where
    handlers are slow, raise `visibility_timeout` or extend.

    `receipts` names every stale one; the others of the same call are settled.
    """

    code = "stale_receipt"

    def __init__(self, message: str, receipts: Sequence[str] = (), **details: Any) -> None:
        super().__init__(message, **details)
        self.receipts = list(receipts)


# What the disk did.


class StorageError(GoQueueError):
    """The disk, or a file on it, is not as it must be. Tell the broker's operator; the text names the file."""

    code = "storage_error"


class DiskFull(StorageError):
    """The disk is full, and the operation was undone. Make room; what is repeated then works again."""

    code = "disk_full"
    retryable = True


class TooManyFiles(DiskFull):
    """The process, or the system, has no descriptor left to open a file. Raise `ulimit -n` of the broker and try
    again later; nothing was changed."""

    code = "too_many_files"


class DiskFailed(StorageError):
    """The operating system reported an input or output error. Look at the system's log, and replace the disk if
    it fails."""

    code = "disk_failed"


class UnexpectedFile(DiskFailed):
    """There is a file where a directory is expected, or something that is no file where a file is expected. Move
    it away."""

    code = "unexpected_file"


class LogStopped(StorageError):
    """A write or fsync failed in a way that leaves the disk's state unknown. Mend the disk, then restart the
    broker, which recovers what is there."""

    code = "log_stopped"


class DamagedData(StorageError):
    """Bytes that were once durable are no longer sound. Read on at `restart_at`, or restore the file from a
    backup; reads before and after the range work."""

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
    """Nothing of the range is damaged for the group, so there is nothing to give up. See `goqueue group
    describe` for what is damaged."""

    code = "not_damaged"


class DataDirectoryLocked(StorageError):
    """Another process holds the data directory. Stop that broker, or choose another directory."""

    code = "data_directory_locked"


class PartitionUnavailable(StorageError):
    """The broker could not open this partition, and left it as it is; the others are served. Run `goqueue log
    verify` on its folder, mend what it names, and restart the broker."""

    code = "partition_unavailable"


class PartitionLost(PartitionUnavailable):
    """The broker's list of topics has this partition and the disk does not: its folder or its segments are gone.
    Put the folder back and restart the broker, or run `goqueue topic restore-partition`.

    The broker does not begin it anew by itself, since that would assign its offsets a second time. The other
    partitions are served.
    """

    code = "partition_lost"


class DirectoryNotEmpty(StorageError):
    """A backup or a restore needs an empty or a missing directory, and this one is not empty. Choose another
    one."""

    code = "directory_not_empty"


class ForeignDirectory(StorageError):
    """The data directory has files of something else, and none of a broker; it was left as it is. Choose another
    directory, or move the files away."""

    code = "foreign_directory"


class IncompleteCopy(StorageError):
    """A backup or a restore was cut short, or a backup was changed. Do not use it; run it again into an empty
    directory, or take another backup."""

    code = "incomplete_copy"


class UnknownFormat(StorageError):
    """The files were written by a newer goqueue, or are not goqueue's. Start the version that wrote them, or
    choose another directory."""

    code = "unknown_format"


class CannotListen(GoQueueError):
    """The broker cannot open one of its ports. Stop what has the port, or choose another by `--listen` or
    `--http`."""

    code = "cannot_listen"


# What happened inside.


class Unavailable(GoQueueError):
    """Nobody could answer in time; nothing is known to be wrong with the request. Repeat it; if it lasts, see
    whether the broker runs at this address."""

    code = "unavailable"
    retryable = True


class BufferFull(Unavailable):
    """A producer's buffer is full, and the caller chose not to wait. Wait and try again, or use `send`, which
    waits."""

    code = "buffer_full"


class OutcomeUnknown(GoQueueError):
    """Whether a message was written cannot be known any more. Look for it before you send it again, or send it
    with a `message_id`."""

    code = "outcome_unknown"


class PublishFailed(GoQueueError):
    """Some messages of a `send_many` or a `flush` were not published. Send those again whose entry in `results` is
    an error that permits it.

    `results` has a Published or an error for each value.
    """

    code = "publish_failed"

    def __init__(self, results: Sequence[object]) -> None:
        failed = [result for result in results if isinstance(result, GoQueueError)]
        super().__init__(f"{len(failed)} of {len(results)} messages were not published: {failed[0].message}")
        self.results = list(results)


class DeliveryTimeout(Unavailable):
    """A publish was not confirmed within its `delivery_timeout`; it was not written and will not be. Send it again
    once the cause in `reason` is gone.

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
    """The message was sent, no answer came within `delivery_timeout`, and it may have been written or not. Look
    for it before you send it again, or send it with a `message_id`."""

    code = "delivery_unknown"
    retryable = False


class SparkNotReady(GoQueueError):
    """Spark cannot work as things are: a package, Java or the workers' Python is missing or of a wrong version.
    Install what the text names."""

    code = "spark_not_ready"


class HandlerCannotRun(GoQueueError):
    """A worker's handler cannot handle any message: it takes no message, is for another event loop, or cannot
    import what it needs. Correct the handler, or use the worker of its event loop."""

    code = "handler_cannot_run"


class RowRefused(InvalidMessage):
    """A table row cannot be a message. Correct the row, or filter it out.

    `details` has `row`, counted from 0 among those of its task.
    """

    code = "row_refused"


class TableInUse(GoQueueError):
    """Another ingest writes to the same table. Wait for its end, or stop it."""

    code = "table_in_use"


class ActorDied(Unavailable):
    """The part of the broker that was to answer crashed or stopped; whether it acted is not known. Repeat what
    is harmless to repeat; the broker's log has the trace."""

    code = "actor_died"


class MailboxFull(Unavailable):
    """A part of the broker has as many requests as it takes. Repeat the request later."""

    code = "mailbox_full"


class CallCycle(GoQueueError):
    """An actor called itself, directly or through others: a bug that would have been a deadlock. Report it with
    the broker's log."""

    code = "call_cycle"


class WrongEventLoop(GoQueueError):
    """A client of Trio is used without Trio, or one of asyncio without asyncio. Use the one that the text names."""

    code = "wrong_event_loop"


class WrongPort(GoQueueError):
    """The address is that of a port that does not take clients, such as the broker's HTTP port. Use the address
    that the text names.

    `details` has `websocket`, the right address, if the other end has told it.
    """

    code = "wrong_port"


class Closed(GoQueueError):
    """A call on something that was closed. Open another client, producer or consumer, and use it in its block."""

    code = "closed"

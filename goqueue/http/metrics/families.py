"""The families of metrics, once for all: what collects, what writes, the reference page and the tests derive from
this table.

A counter with labels never falls while the process lives. The series of a topic or a group end when it is deleted.
A partition is a label of few families only, and only while there are not too many series (`Samples`).
"""

from dataclasses import dataclass
from enum import Enum

PREFIX = "goqueue_"


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricSource(Enum):
    """Where a family is read from."""

    BROKER = "the broker's counters"
    PROCESS = "the process"
    GATEWAY = "the gateway"
    BOARDS = "the boards of partitions"
    LOGS = "the open logs"
    VOLUME = "the volume"
    LEDGERS = "the boards of ledgers"
    GROUPS = "the boards of groups"


@dataclass(frozen=True, eq=False, slots=True)
class Family:
    name: str
    kind: Kind
    source: MetricSource
    help: str
    labels: tuple[str, ...] = ()

    @property
    def is_split(self) -> bool:
        """It has a series for each partition, or for each topic when there are too many."""
        return "partition" in self.labels


FAMILIES: list[Family] = []
"""In the order in which they are written."""
TOTAL = "_total"


def openmetrics_head(family: Family) -> tuple[str, str]:
    """Name and type as OpenMetrics has them: a counter without its `_total`. Where another family has that name, it
    keeps its own, and its type is not told."""
    if family.kind is not Kind.COUNTER:
        return family.name, family.kind.value
    bare = family.name.removesuffix(TOTAL)
    is_taken = any(each.name == bare for each in FAMILIES)
    return (family.name, "unknown") if is_taken else (bare, family.kind.value)


def _add(kind: Kind, name: str, source: MetricSource, text: str, labels: str) -> Family:
    family = Family(PREFIX + name, kind, source, text, tuple(labels.split()))
    FAMILIES.append(family)
    return family


def _counter(name: str, source: MetricSource, text: str, labels: str = "") -> Family:
    assert name.endswith(TOTAL), f"the counter {name} ends in _total"
    return _add(Kind.COUNTER, name, source, text, labels)


def _gauge(name: str, source: MetricSource, text: str, labels: str = "") -> Family:
    return _add(Kind.GAUGE, name, source, text, labels)


def _histogram(name: str, source: MetricSource, text: str, labels: str = "") -> Family:
    assert name.endswith("_seconds"), f"the histogram {name} ends in _seconds"
    return _add(Kind.HISTOGRAM, name, source, text, labels)


_BROKER, _PROCESS, _GATEWAY = MetricSource.BROKER, MetricSource.PROCESS, MetricSource.GATEWAY
_BOARDS, _LOGS, _VOLUME = MetricSource.BOARDS, MetricSource.LOGS, MetricSource.VOLUME
_LEDGERS, _GROUPS = MetricSource.LEDGERS, MetricSource.GROUPS

# The broker

INFO = _gauge("broker_info", _BROKER, "Always 1; the labels say which broker this is.", "version node cluster")
START_TIME = _gauge("broker_start_time_seconds", _BROKER, "When the broker began to start, in seconds since 1970.")
TRUNCATED = _gauge(
    "broker_metrics_truncated",
    _GATEWAY,
    "1 if there were more series than `metrics_series_max`: those of partitions are summed by topic.",
)
CONNECTIONS = _gauge("broker_connections", _BROKER, "Websockets that are open.")
CONNECTIONS_TOTAL = _counter("broker_connections_total", _BROKER, "Websockets that were accepted.")
REQUESTS = _counter("broker_requests_total", _BROKER, "Requests of the wire, of all ways in.", "kind")

PUBLISHED = _counter("broker_messages_published_total", _LOGS, "Messages written to logs.", "topic")
PUBLISHED_BATCHES = _counter("broker_batches_published_total", _LOGS, "Batches written to logs.", "topic")
PUBLISHED_BYTES = _counter("broker_bytes_published_total", _LOGS, "Bytes of these batches on disk.", "topic")
REFUSED = _counter(
    "broker_publish_refused_total", _BROKER, "Batches that were refused, by the error's code.", "code"
)
REPEATS = _counter(
    "broker_publish_repeats_total", _BROKER, "Batches and messages that were sent again, and not written again."
)

PUBLISH_SECONDS = _histogram(
    "broker_publish_seconds",
    _BROKER,
    "From the arrival of a batch to its answer, or its write if none is awaited.",
    "acks",
)
FETCHED = _counter("broker_messages_fetched_total", _BROKER, "Offsets read by clients without a group.", "topic")
FETCHED_BYTES = _counter("broker_bytes_fetched_total", _BROKER, "Bytes of batches that they read.", "topic")
FETCH_SECONDS = _histogram(
    "broker_fetch_seconds", _BROKER, "How long the reading of a fetch took that found something, without its wait."
)

TOPICS = _gauge("broker_topics", _BOARDS, "Topics.")
PARTITIONS = _gauge("broker_partitions", _BOARDS, "Partitions of all topics.")
UNAVAILABLE = _gauge(
    "broker_partitions_unavailable", _BOARDS, "Partitions that were lost, or could not be opened; the log says why."
)
RESTARTS = _counter("broker_actor_restarts_total", _BROKER, "Actors that crashed and were started again.", "kind")
MAILBOX_DEPTH = _gauge("broker_mailbox_depth", _BOARDS, "Letters that wait for actors of this kind.", "kind")
MAILBOX_DEPTH_MAX = _gauge("broker_mailbox_depth_max", _BOARDS, "The most that ever waited for one actor.")

STALLS = _counter(
    "broker_loop_stalls_total", _PROCESS, "Stalls of the event loop that were longer than `over` seconds.", "over"
)
STALL_MAX = _gauge("broker_loop_stall_max_seconds", _PROCESS, "The longest stall of the event loop.")
GC_SECONDS = _counter("broker_gc_seconds_total", _PROCESS, "The time that garbage collections took.")
MEMORY = _gauge("broker_memory_bytes", _PROCESS, "Resident memory of the process.")

HTTP_REQUESTS = _counter(
    "broker_http_requests_total", _GATEWAY, "HTTP requests that were answered.", "method route status"
)
HTTP_SECONDS = _histogram(
    "broker_http_request_seconds", _GATEWAY, "From the head of a request to the end of its answer.", "method route"
)
HTTP_IN_PROGRESS = _gauge("broker_http_in_progress", _GATEWAY, "HTTP requests under way, long polls among them.")

# Storage

FSYNC_SECONDS = _histogram("storage_fsync_seconds", _VOLUME, "How long those who waited for a sync waited.")
FSYNC_ROUNDS = _counter("storage_fsync_rounds_total", _VOLUME, "Rounds of the committer.")
FSYNCS = _counter("storage_fsyncs_total", _VOLUME, "Syncs of files and folders in these rounds.")
FSYNC_ERRORS = _counter("storage_fsync_errors_total", _VOLUME, "Syncs that failed.")

LOG_BYTES = _gauge("storage_log_bytes", _BOARDS, "Bytes of all segments.", "topic partition")
LOG_SEGMENTS = _gauge("storage_log_segments", _BOARDS, "Segments.", "topic partition")
LOG_START = _gauge("storage_log_start_offset", _BOARDS, "The first offset that can be read.", "topic partition")
LOG_END = _gauge("storage_log_end_offset", _BOARDS, "The offset of the next message.", "topic partition")
STABLE_LAG = _gauge(
    "storage_stable_lag",
    _BOARDS,
    "Offsets that are written and cannot be read so far, as they are not durable.",
    "topic partition",
)
REMOVED = _counter(
    "storage_messages_removed_total",
    _LOGS,
    "Offsets that were removed, by retention, a purge, a limit of the topic, or compaction.",
    "topic cause",
)
DAMAGED = _gauge("storage_damaged_ranges", _LOGS, "Ranges of offsets that could not be read.", "topic")
TORN_TAILS = _counter(
    "storage_torn_tails_total",
    _LOGS,
    "Ends of logs that were cut off when they were opened; nobody was promised them.",
)
COMPACTION_SECONDS = _histogram("storage_compaction_seconds", _LOGS, "How long one compaction of a partition took.")
COMPACTION_FREED = _counter(
    "storage_compaction_bytes_freed_total",
    _LOGS,
    "Bytes that rewritten segments have less than those before.",
    "topic",
)
RECOVERY_SECONDS = _gauge("storage_recovery_seconds", _BROKER, "How long the last start took until it was ready.")
DISK_FREE = _gauge("storage_disk_free_bytes", _VOLUME, "Free bytes on the disk of the data directory.")
DISK_TOTAL = _gauge("storage_disk_total_bytes", _VOLUME, "The size of that disk.")
DISK_FREE_MIN = _gauge(
    "storage_disk_free_min_bytes", _VOLUME, "With less than this free, publishes are refused (`disk_free_min`)."
)
OPEN_FILES = _gauge("storage_open_files", _VOLUME, "Files that are open for reading.")

# Schemas

SCHEMA_VALIDATIONS = _counter(
    "broker_schema_validations_total",
    _BROKER,
    "Keys and values that were held to a schema: accepted, refused, or warned of and accepted.",
    "topic result",
)
SCHEMA_VALIDATION_SECONDS = _histogram(
    "broker_schema_validation_seconds", _BROKER, "How long the validation of a batch took, with what ran between."
)
SCHEMA_VERSIONS = _gauge("broker_schema_versions", _BOARDS, "Versions of all subjects that are not deleted.")
SCHEMA_REGISTRATIONS = _counter(
    "broker_schema_registrations_total",
    _BROKER,
    "Requests to register a schema: new, existing, or the code of the refusal.",
    "result",
)

# Consumer groups

LAG = _gauge(
    "consumer_lag",
    _LEDGERS,
    "Messages that the group is not done with. Offsets that were not looked at count as messages.",
    "group topic partition",
)
COMMITTED = _gauge("consumer_committed_offset", _LEDGERS, "Everything below is done.", "group topic partition")
OLDEST_UNACKED = _gauge(
    "consumer_oldest_unacked_seconds",
    _LEDGERS,
    "The age of the oldest message that the group is not done with; 0 if there is none.",
    "group topic",
)
IN_FLIGHT = _gauge("consumer_in_flight", _LEDGERS, "Messages in the hands of consumers.", "group topic")
WAITING_RETRY = _gauge("consumer_waiting_retry", _LEDGERS, "Messages that wait to be tried again.", "group topic")
LEAVING = _gauge("consumer_leaving", _LEDGERS, "Messages on their way to the dead letters.", "group topic")
DELIVERED = _counter("consumer_delivered_total", _BROKER, "Messages handed to consumers.", "group")
REDELIVERED = _counter("consumer_redelivered_total", _BROKER, "Those of them that came again.", "group")
ACKED = _counter("consumer_acked_total", _BROKER, "Messages that were acked, repeated acks among them.", "group")
NACKED = _counter("consumer_nacked_total", _BROKER, "Messages that were given back to be tried again.", "group")
REJECTED = _counter("consumer_rejected_total", _BROKER, "Messages that a consumer gave up.", "group")
RELEASED = _counter(
    "consumer_released_total",
    _BROKER,
    "Messages given back unopened, or not begun when their lease ended.",
    "group",
)
EXPIRED = _counter("consumer_expired_total", _BROKER, "Messages whose lease ended unsettled.", "group")
STALE = _counter("consumer_stale_receipts_total", _BROKER, "Messages whose receipts were no longer good.", "group")
REMOVED_UNACKED = _counter(
    "consumer_removed_unacked_total", _BROKER, "Messages removed before the group was done with them.", "group"
)
DEAD_LETTERS = _counter(
    "consumer_dead_letters_total", _BROKER, "Messages that were sent to dead-letter topics.", "group topic"
)
REDRIVEN = _counter("consumer_redriven_total", _BROKER, "Dead letters that were sent back.", "group topic")
ACK_SECONDS = _histogram(
    "consumer_ack_seconds", _BROKER, "From a delivery to the ack of the last of its messages.", "group"
)
MEMBERS = _gauge("consumer_group_members", _GROUPS, "Members for which a consumer acts.", "group")
GENERATION = _gauge("consumer_group_generation", _GROUPS, "The group's generation.", "group")
REBALANCES = _counter("consumer_rebalances_total", _BROKER, "Changes of the owners of partitions.", "group")
REBALANCE_SECONDS = _histogram(
    "consumer_rebalance_seconds",
    _BROKER,
    "How long such a change took, until all had let go of what they lost.",
    "group",
)

# Delayed messages

DELAY_PENDING = _gauge("delay_pending", _BROKER, "Delayed messages that wait for their time.", "topic")
DELAY_FIRED = _counter("delay_fired_total", _BROKER, "Delayed messages that were delivered.", "topic")
DELAY_CANCELLED = _counter("delay_cancelled_total", _BROKER, "Delayed messages that were cancelled.", "topic")
DELAY_RESCHEDULED = _counter("delay_rescheduled_total", _BROKER, "Given another time.", "topic")
DELAY_EXPIRED = _counter(
    "delay_expired_total", _BROKER, "Purged or dropped before their time, or at the end of their ttl.", "topic"
)
DELAY_LATENESS = _histogram(
    "delay_lateness_seconds", _BROKER, "From when a message was due, and written, until it could be read."
)
DELAY_OVERDUE = _gauge("delay_overdue", _BOARDS, "Pending messages whose time has come.", "topic")

# Lanes

LANE_READY = _gauge(
    "lane_ready",
    _LEDGERS,
    "Messages of this priority to deliver; left out while more of the log would have to be read to know.",
    "group priority",
)
LANE_IN_FLIGHT = _gauge("lane_in_flight", _LEDGERS, "Those in the hands of consumers.", "group priority")
LANE_SERVED = _counter("lane_served_total", _BROKER, "Handed out.", "group priority")
LANE_OLDEST = _gauge(
    "lane_oldest_seconds",
    _LEDGERS,
    "The age of the oldest that is not done; left out as lane_ready.",
    "group priority",
)

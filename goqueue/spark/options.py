"""What a query says to the source and the sink, read and checked: named and meant as in Spark's Kafka connector.

Spark hands options over as text and their names in lower case. All faults are told at once, as `InvalidConfig`.
What only the broker knows (whether a topic exists, which partitions it has) is asked elsewhere, and before any
task starts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.core.names import DEAD_LETTER_SUFFIX, check_group_name, check_publishable, check_topic_name
from goqueue.net.wire.failures import PATIENCE_SECONDS
from goqueue.spark.optionvalues import (
    OptionFaults,
    address,
    nearest,
    offsets_of,
    one_of_the_names,
    partitions_of,
    regular_expression,
    topics_of,
    truth,
    whole_number,
)

EARLIEST, LATEST = -2, -1
"""As in Kafka's JSON: where a partition begins, and where it ends now."""

SELECTING = ("subscribe", "subscribePattern", "assign")
SOURCE = (
    "url",
    *SELECTING,
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "includeOrigin",
    "group",
    "patienceSeconds",
)
JSON_SCHEMA = "jsonSchema"
"""Of a read by `ingest`: what its messages are; those that fit are there as a column, too. Not for others: which
ones are known to fit is nobody's promise.
"""
SINK = ("url", "topic", "application", "batchId")
SPARKS_OWN = {"checkpointlocation", "queryname"}
"""Meant for Spark, which hands them over with a stream's own."""
NAMED_OTHERWISE = {
    "kafka.bootstrap.servers": "url",
    "kafka.group.id": "group",
    "groupidprefix": "group",
    "path": "subscribe (to read) or topic (to write)",
}
"""What Kafka's connector, or a file, calls it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a read begins or ends: `timestamp_ms` counts before `offsets`, and these before `otherwise`."""

    otherwise: int
    """`EARLIEST` or `LATEST`."""
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By topic and partition; each an offset, `EARLIEST` or `LATEST`."""
    timestamp_ms: int | None = None
    """The first message with this time (of the log) or a later one. Without one, the end."""

    def of(self, topic: str, partition: int) -> int | None:
        """The offset to use, `EARLIEST` or `LATEST`; None where the time decides, or where nothing was said of a
        partition though others of its topic were named, or of its topic though other topics were.
        """
        if self.timestamp_ms is not None:
            return None
        if self.offsets:
            return self.offsets.get(topic, {}).get(partition)
        return self.otherwise


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Exactly one of `subscribe`, `pattern` and `assign` is given."""

    url: str
    subscribe: tuple[str, ...]
    pattern: str | None
    """A regular expression of Python that fits the whole name of a topic."""
    assign: Mapping[str, tuple[int, ...]]
    start: Bound
    end: Bound
    """Of a batch; a stream has none, and this says `LATEST`."""
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    include_headers: bool
    include_origin: bool
    """Columns that say where a dead letter comes from; of itself where nothing but dead-letter topics is named."""
    json_schema: str | None
    group: str | None
    """Under which a stream's progress is told to the broker."""
    patience_seconds: float
    """So long a broker may be away."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    url: str
    topic: str | None
    """None where each row names its own."""
    application: str | None
    batch_id: int | None
    """Of a batch write that may be repeated; of a stream Spark numbers the batches."""


class ColumnOptions(NamedTuple):
    """All that decides the columns; the other options are looked at by the reader."""

    include_headers: bool
    include_origin: bool
    json_schema: str | None


def column_options(options: Mapping[str, str]) -> ColumnOptions:
    faults, selecting = OptionFaults(_lower(options)), OptionFaults(_lower(options))
    topics = _subscribed(selecting) or tuple(_assigned(selecting))
    made = _columns(faults, topics, _pattern(selecting))
    faults.tell("the options of this read")
    return made


def _columns(faults: OptionFaults, topics: tuple[str, ...], pattern: str | None) -> ColumnOptions:
    are_dead_letters = (
        all(name.endswith(DEAD_LETTER_SUFFIX) for name in topics) if topics else _for_dead_letters(pattern)
    )
    return ColumnOptions(
        include_headers=faults.read("includeHeaders", truth, default=False),
        include_origin=faults.read("includeOrigin", truth, default=are_dead_letters),
        json_schema=faults.read(JSON_SCHEMA, str, default=None),
    )


def _for_dead_letters(pattern: str | None) -> bool:
    """Whether it fits nothing else, by its text alone: columns must not hang on which topics there are today."""
    return pattern is not None and pattern.endswith(re.escape(DEAD_LETTER_SUFFIX)) and "|" not in pattern


def _pattern(faults: OptionFaults) -> str | None:
    return faults.read("subscribePattern", regular_expression, default=None)


def _subscribed(faults: OptionFaults) -> tuple[str, ...]:
    return faults.read("subscribe", lambda text: topics_of(text, _topic), default=())


def _assigned(faults: OptionFaults) -> Mapping[str, tuple[int, ...]]:
    return faults.read("assign", lambda text: partitions_of(text, _topic), default={})


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    faults = _faults(options, SOURCE)
    read, subscribe, assign, pattern = faults.read, _subscribed(faults), _assigned(faults), _pattern(faults)
    columns = _columns(faults, subscribe or tuple(assign), pattern)
    made = SourceOptions(
        url=faults.need("url", address, ""),
        subscribe=subscribe,
        pattern=pattern,
        assign=assign,
        start=_start(faults, streaming),
        end=_end(faults),
        max_offsets_per_trigger=read("maxOffsetsPerTrigger", whole_number(1), default=None),
        min_partitions=read("minPartitions", whole_number(1), default=None),
        fail_on_data_loss=read("failOnDataLoss", truth, default=True),
        include_headers=columns.include_headers,
        include_origin=columns.include_origin,
        json_schema=columns.json_schema,
        group=read("group", check_group_name, default=None),
        patience_seconds=read("patienceSeconds", whole_number(1), default=PATIENCE_SECONDS),
    )
    faults.exactly_one(SELECTING)
    if streaming:
        faults.refuse(("endingOffsets", "endingTimestamp"), "a stream has no end; they are for spark.read")
    else:
        faults.refuse(("maxOffsetsPerTrigger", "group"), "it is for spark.readStream; a batch has no triggers")
    faults.tell("the options of this read")
    return made


def sink_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    faults = _faults(options, SINK)
    made = SinkOptions(
        url=faults.need("url", address, ""),
        topic=faults.read("topic", check_publishable, default=None),
        application=faults.read("application", str, default=None),
        batch_id=faults.read("batchId", whole_number(0), default=None),
    )
    if streaming:
        faults.refuse(("batchId",), "Spark numbers the batches of a stream")
    elif (made.application is None) != (made.batch_id is None):
        faults.add("application and batchId go together: without both a repeated batch write is written twice")
    faults.tell("the options of this write")
    return made


def _start(faults: OptionFaults, streaming: bool) -> Bound:
    """A batch begins where the topic does, a stream where it ends: as with Kafka."""
    begin = LATEST if streaming else EARLIEST
    word = "startingOffsets"
    names = {"earliest": EARLIEST, "latest": LATEST} if streaming else {"earliest": EARLIEST}
    return _bound(faults, word, "startingTimestamp", names, begin)


def _end(faults: OptionFaults) -> Bound:
    return _bound(faults, "endingOffsets", "endingTimestamp", {"latest": LATEST}, LATEST)


def _bound(faults: OptionFaults, offsets: str, timestamp: str, names: Mapping[str, int], otherwise: int) -> Bound:
    """The time wins over the offsets: as with Kafka."""
    given = faults.read(offsets, lambda text: _offsets(text, names), default=otherwise)
    timestamp_ms = faults.read(timestamp, whole_number(0), default=None)
    if isinstance(given, int):
        return Bound(given, {}, timestamp_ms)
    return Bound(otherwise, given, timestamp_ms)


def _offsets(text: str, names: Mapping[str, int]) -> int | Mapping[str, Mapping[int, int]]:
    if not text.lstrip().startswith("{"):
        return one_of_the_names(text, names)
    return offsets_of(text, _topic, frozenset(names.values()))


def _topic(name: str) -> str:
    return check_topic_name(name, by_broker=True)


def _faults(options: Mapping[str, str], names: tuple[str, ...]) -> OptionFaults:
    """With the first of them: options that are not known."""
    known = {name.lower() for name in (*names, JSON_SCHEMA)} | SPARKS_OWN
    faults = OptionFaults(_lower(options))
    for name in _lower(options):
        if name not in known:
            faults.add(f"there is no option {name}{_hint(name, names)}")
    return faults


def _hint(name: str, names: tuple[str, ...]) -> str:
    meant = NAMED_OTHERWISE.get(name) or nearest(name, names)
    return f"; did you mean {meant}?" if meant else f"; there are {', '.join(names)}"


def _lower(options: Mapping[str, str]) -> Mapping[str, str]:
    return {name.lower(): text for name, text in options.items()}

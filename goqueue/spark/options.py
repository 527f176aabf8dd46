"""The options of the source and the sink, with the names and meanings of Spark's Kafka connector.

Spark passes options as text, with their names in lower case. All faults are reported at once, as `InvalidConfig`.
Checks that need the broker (whether a topic exists, which partitions it has) are made elsewhere, before any task
starts.
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
"""The beginning and the current end of a partition, as in Kafka's JSON."""

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
"""The schema of the messages, for reads of `ingest` only; messages that fit are also in a column of their own. Not
for other programs: which messages are known to fit is not promised.
"""
SINK = ("url", "topic", "application", "batchId")
SPARKS_OWN = {"checkpointlocation", "queryname"}
"""Spark's own options, which it passes together with a stream's."""
NAMED_OTHERWISE = {
    "kafka.bootstrap.servers": "url",
    "kafka.group.id": "group",
    "groupidprefix": "group",
    "path": "subscribe (to read) or topic (to write)",
}
"""The names of these options in Kafka's connector, or for files."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The begin or the end of a read: `timestamp_ms` wins over `offsets`, and these over `otherwise`."""

    otherwise: int
    """`EARLIEST` or `LATEST`."""
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By topic and partition; each an offset, `EARLIEST` or `LATEST`."""
    timestamp_ms: int | None = None
    """Selects the first message with this timestamp or a later one; the end if there is none."""

    def of(self, topic: str, partition: int) -> int | None:
        """The offset to use, `EARLIEST` or `LATEST`; None if the time decides, or if this partition is not named
        and others are.
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
    """A regular expression of Python for the whole name of a topic."""
    assign: Mapping[str, tuple[int, ...]]
    start: Bound
    end: Bound
    """The end of a batch read; a stream has none, and has `LATEST` here."""
    max_offsets_per_trigger: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    include_headers: bool
    include_origin: bool
    """Columns with the origin of a dead letter; the default if only dead-letter topics are named."""
    json_schema: str | None
    group: str | None
    """The group under which a stream's progress is reported to the broker."""
    patience_seconds: float
    """Limit of the time for which a broker may be away."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    url: str
    topic: str | None
    """None if each row names its own topic."""
    application: str | None
    batch_id: int | None
    """The number of a batch write that may be repeated; the batches of a stream are numbered by Spark."""


class ColumnOptions(NamedTuple):
    """The options that decide the columns; the reader checks the others."""

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
    """Whether it matches nothing else, by its text alone: columns must not depend on today's topics."""
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
    """By default a batch begins at the topic's start, a stream at its end, as with Kafka."""
    begin = LATEST if streaming else EARLIEST
    word = "startingOffsets"
    names = {"earliest": EARLIEST, "latest": LATEST} if streaming else {"earliest": EARLIEST}
    return _bound(faults, word, "startingTimestamp", names, begin)


def _end(faults: OptionFaults) -> Bound:
    return _bound(faults, "endingOffsets", "endingTimestamp", {"latest": LATEST}, LATEST)


def _bound(faults: OptionFaults, offsets: str, timestamp: str, names: Mapping[str, int], otherwise: int) -> Bound:
    """The time wins over the offsets, as with Kafka."""
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
    """Begins with the faults of unknown options."""
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

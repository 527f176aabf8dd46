"""A topic's configuration: what can be set, to what, and what it means.

A plain None is refused when a topic is made, unless the default is no limit (see the table): a wrong guess about
retention would delete data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from goqueue.config import HOUR, MEBIBYTE, LogConfig
from goqueue.core.records.record import VALUE_SIZE_MAX
from goqueue.core.settingstable import Choice, Hours, SettingsTable, Whole, refuse, setting
from goqueue.errors import InvalidConfig, UnknownFormat
from goqueue.types import Microseconds

SEGMENT_BYTES_MIN = 1024
SCHEMA_VALUE_BYTES = 256 * 1024

_ANY_COUNT = Whole(1, 2**63 - 1, or_unlimited=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    retention: str = setting(
        "time",
        Choice(("time", "acked")),
        "What lets messages go: their age, or that every group is done with them; without groups they stay. "
        "`retention_bytes` bounds both. Not heeded by compacted topics.",
    )
    retention_hours: float | None = setting(
        168,
        Hours(or_unlimited=True),
        "How long messages stay, from their append on. Not heeded by compacted topics.",
    )
    retention_bytes: int | None = setting(
        None,
        _ANY_COUNT,
        "How much each partition keeps; beyond it the oldest segments go. Not heeded by compacted topics.",
    )
    cleanup: str = setting(
        "delete",
        Choice(("delete", "compact")),
        "Whether old segments are deleted, or compacted to the newest message of each key, which stays. A "
        "compacted topic refuses messages without a key.",
    )
    tombstone_hours: float = setting(24, Hours(), "How long compaction keeps the mark that a key was deleted.")
    segment_bytes: int = setting(
        64 * MEBIBYTE,
        Whole(SEGMENT_BYTES_MIN, 1024 * MEBIBYTE),
        "The size at which a segment is closed and the next one begun. Only whole segments are let go.",
    )
    segment_hours: float = setting(24, Hours(), "The age at which a segment is closed and the next one begun.")
    compression: str = setting(
        "none", Choice(("none", "zstd")), "How producers compress their batches unless told."
    )
    min_acks: str = setting(
        "none",
        Choice(("none", "leader", "all")),
        "The least that a publish must wait for; one that asks for less is refused.",
    )
    max_message_bytes: int = setting(VALUE_SIZE_MAX, Whole(1, VALUE_SIZE_MAX), "The largest value of a message.")
    max_bytes: int | None = setting(None, _ANY_COUNT, "How much the topic may hold; beyond it `overflow` decides.")
    max_messages: int | None = setting(
        None, _ANY_COUNT, "How many messages the topic may hold; beyond it `overflow` decides."
    )
    overflow: str = setting(
        "reject",
        Choice(("reject", "drop_oldest")),
        "What gives way when the topic is full: the new messages or the oldest.",
    )
    schema_validation: str = setting(
        "on",
        Choice(("on", "warn", "off")),
        "Whether messages are held to the schemas of the topic, if it has any: `warn` accepts what does not fit, "
        "and counts it.",
    )
    schema_value_bytes: int = setting(
        SCHEMA_VALUE_BYTES,
        Whole(1, VALUE_SIZE_MAX),
        "The largest value that is held to a schema; larger ones are refused. The broker stands still while it "
        "looks at one: for some 20 ms at most with the default, and for as much longer as this is larger.",
    )

    def __post_init__(self) -> None:
        refuse(SETTINGS.value_faults(SETTINGS.values_of(self)))

    @classmethod
    def from_plain(cls, plain: object) -> "TopicConfig":
        """For a topic that is to be made. `InvalidConfig` names every fault at once."""
        given = SETTINGS.checked_map(plain)
        inside = SETTINGS.read(given)
        refuse([*SETTINGS.unknown_faults(given), *SETTINGS.value_faults(inside)])
        return cls(**inside)

    @classmethod
    def from_stored(cls, plain: Mapping[str, object]) -> "TopicConfig":
        """From `to_plain` of this version or another: what this one does not know is passed over."""
        try:
            return cls(**SETTINGS.read(plain))
        except InvalidConfig as error:
            raise UnknownFormat(
                f"a stored configuration has values that are unknown here: {error.message}"
            ) from error

    def altered(self, changes: object) -> "TopicConfig":
        """With these changes; None resets to the default. `InvalidConfig` names every fault at once."""
        given = SETTINGS.checked_map(changes)
        inside = SETTINGS.read_changes(given)
        refuse([*SETTINGS.unknown_faults(given), *SETTINGS.value_faults(inside)])
        return replace(self, **inside)

    def to_plain(self) -> dict[str, Any]:
        return SETTINGS.to_plain(self)

    def to_log_config(self) -> LogConfig:
        """For the log, which knows neither groups nor keys. With retention by acks nothing goes by age."""
        deletes, by_acks = self.cleanup == "delete", self.retention == "acked"
        by_age = deletes and not by_acks and self.retention_hours is not None
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_age=_microseconds(self.segment_hours),
            retention_age=_microseconds(self.retention_hours or 0) if by_age else None,
            retention_bytes=self.retention_bytes if deletes else None,
            retention_acked=deletes and by_acks,
            tombstone_age=_microseconds(self.tombstone_hours),
        )


SETTINGS = SettingsTable(TopicConfig, noun="setting", map_named="a configuration is a map of settings")


def _microseconds(hours: float) -> Microseconds:
    return round(hours * HOUR)

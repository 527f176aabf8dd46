"""A topic's configuration: what can be set, to what, and what it means.

`TopicConfig` is the one table. Each field carries its default, what it accepts and what it does; checks, error
texts and documentation are read from there (`SETTINGS`).

As plain values, over the wire and in files, a limit that is not there is written "unlimited"; inside it is None. A
plain None says "the default" when a topic is altered. When one is made it could also be meant as "no limit", so it
is taken only where both are the same: a wrong guess about retention would delete data.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from reprlib import repr as shortened
from typing import Any, NamedTuple, Protocol, TypeVar

from goqueue.config import HOUR, MEBIBYTE, LogConfig
from goqueue.core.records.record import VALUE_SIZE_MAX
from goqueue.errors import InvalidConfig, UnknownFormat
from goqueue.types import Microseconds

UNLIMITED = "unlimited"
HOURS_MAX = 1_000_000
SEGMENT_BYTES_MIN = 1024
KEY_LENGTH_SHOWN = 60

Value = TypeVar("Value")


class SettingKind(Protocol):
    """What a setting accepts. Values are as inside: None is unlimited."""

    @property
    def allowed(self) -> str: ...

    def accepts(self, value: object) -> bool: ...


@dataclass(frozen=True, slots=True)
class Choice:
    values: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return " or ".join(f'"{value}"' for value in self.values)

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.values


@dataclass(frozen=True, slots=True)
class Whole:
    least: int
    most: int
    or_unlimited: bool = False

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.least:,} to {self.most:,}{_or_unlimited(self.or_unlimited)}"

    def accepts(self, value: object) -> bool:
        if value is None:
            return self.or_unlimited
        return type(value) is int and self.least <= value <= self.most


@dataclass(frozen=True, slots=True)
class Hours:
    or_unlimited: bool = False

    @property
    def allowed(self) -> str:
        return f"hours, from 1/3600 (a second) to {HOURS_MAX:,}{_or_unlimited(self.or_unlimited)}"

    def accepts(self, value: object) -> bool:
        if value is None:
            return self.or_unlimited
        return type(value) in (int, float) and 1 / 3600 <= value <= HOURS_MAX  # type: ignore[operator]


def _or_unlimited(there: bool) -> str:
    return f' or "{UNLIMITED}"' if there else ""


def _setting(default: Value, kind: SettingKind, meaning: str) -> Value:
    return field(default=default, metadata={"kind": kind, "meaning": meaning})


_ANY_COUNT = Whole(1, 2**63 - 1, or_unlimited=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    retention: str = _setting(
        "time",
        Choice(("time", "acked")),
        "What lets messages go: their age, or that every group has acked them. `retention_bytes` bounds both.",
    )
    retention_hours: float | None = _setting(
        168,
        Hours(or_unlimited=True),
        "How long messages stay, from their append on. Not heeded by compacted topics.",
    )
    retention_bytes: int | None = _setting(
        None,
        _ANY_COUNT,
        "How much each partition keeps; beyond it the oldest segments go. Not heeded by compacted topics.",
    )
    cleanup: str = _setting(
        "delete",
        Choice(("delete", "compact")),
        "Whether old segments are deleted, or compacted to the newest message of each key, which stays.",
    )
    tombstone_hours: float = _setting(
        24,
        Hours(),
        "How long compaction keeps the mark that a key was deleted.",
    )
    segment_bytes: int = _setting(
        64 * MEBIBYTE,
        Whole(SEGMENT_BYTES_MIN, 1024 * MEBIBYTE),
        "The size at which a segment is closed and the next one begun. Only whole segments are let go.",
    )
    segment_hours: float = _setting(
        24,
        Hours(),
        "The age at which a segment is closed and the next one begun.",
    )
    compression: str = _setting(
        "none",
        Choice(("none", "zstd")),
        "How producers compress their batches unless told.",
    )
    min_acks: str = _setting(
        "none",
        Choice(("none", "leader", "all")),
        "The least that a publish must wait for; one that asks for less is refused.",
    )
    max_message_bytes: int = _setting(
        VALUE_SIZE_MAX,
        Whole(1, VALUE_SIZE_MAX),
        "The largest value of a message.",
    )
    max_bytes: int | None = _setting(
        None,
        _ANY_COUNT,
        "How much the topic may hold; beyond it `overflow` decides.",
    )
    max_messages: int | None = _setting(
        None,
        _ANY_COUNT,
        "How many messages the topic may hold; beyond it `overflow` decides.",
    )
    overflow: str = _setting(
        "reject",
        Choice(("reject", "drop_oldest")),
        "What gives way when the topic is full: the new messages or the oldest.",
    )

    def __post_init__(self) -> None:
        _refuse(_value_faults({setting.name: getattr(self, setting.name) for setting in SETTINGS}))

    @classmethod
    def from_plain(cls, plain: object) -> "TopicConfig":
        """For a topic that is to be made. `InvalidConfig` names every fault at once."""
        given = _checked_map(plain)
        inside = _inside(given)
        _refuse([*_unknown_faults(given), *_value_faults(inside)])
        return cls(**inside)

    @classmethod
    def from_stored(cls, plain: Mapping[str, object]) -> "TopicConfig":
        """From `to_plain` of this version or another: what this one does not know is passed over."""
        known = _inside({key: value for key, value in plain.items() if key in _BY_NAME})
        try:
            return cls(**known)
        except InvalidConfig as error:
            raise UnknownFormat(
                f"a stored configuration has values that are unknown here: {error.message}"
            ) from error

    def altered(self, changes: object) -> "TopicConfig":
        """With these changes; None resets to the default. `InvalidConfig` names every fault at once."""
        given = _checked_map(changes)
        resets = {key: _BY_NAME[key].default for key, value in given.items() if value is None and key in _BY_NAME}
        inside = _inside(given) | resets
        _refuse([*_unknown_faults(given), *_value_faults(inside)])
        return replace(self, **inside)

    def to_plain(self) -> dict[str, Any]:
        """Every setting, so that a later version's defaults do not change a topic that is there."""
        values = {setting.name: getattr(self, setting.name) for setting in SETTINGS}
        return {name: UNLIMITED if value is None else value for name, value in values.items()}

    def to_log_config(self) -> LogConfig:
        """For the log, which knows neither groups nor keys: with retention by acks, nothing goes by age there."""
        by_age = self.cleanup == "delete" and self.retention == "time" and self.retention_hours is not None
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_age=_microseconds(self.segment_hours),
            retention_age=_microseconds(self.retention_hours or 0) if by_age else None,
            retention_bytes=self.retention_bytes if self.cleanup == "delete" else None,
            tombstone_age=_microseconds(self.tombstone_hours),
        )


class Setting(NamedTuple):
    """A row of the table, as documentation shows it."""

    name: str
    default: Any
    kind: SettingKind
    meaning: str


SETTINGS = tuple(
    Setting(row.name, row.default, row.metadata["kind"], row.metadata["meaning"]) for row in fields(TopicConfig)
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def _checked_map(plain: object) -> Mapping[Any, object]:
    if not isinstance(plain, Mapping):
        raise _refusal([f"a configuration is a map of settings to values, not {type(plain).__name__}"])
    return plain


def _inside(plain: Mapping[str, object]) -> dict[str, Any]:
    """The known settings, as they are inside."""
    known = {key: value for key, value in plain.items() if key in _BY_NAME}
    return {key: _read(_BY_NAME[key], value) for key, value in known.items()}


def _read(setting: Setting, value: object) -> object:
    if value == UNLIMITED and setting.kind.accepts(None):
        return None
    if value is None and setting.default is not None:
        return _NOT_SAID
    return value


class _NotSaid:
    """Accepted by no setting: None where it could mean the default or no limit."""

    def __repr__(self) -> str:
        return "null (the default? no limit?)"


_NOT_SAID = _NotSaid()


def _value_faults(inside: Mapping[str, object]) -> Iterator[str]:
    for name, value in inside.items():
        kind = _BY_NAME[name].kind
        if not kind.accepts(value):
            yield f"{name} is {shortened(value)}, but must be {kind.allowed}"


def _unknown_faults(plain: Mapping[str, object]) -> Iterator[str]:
    for key in plain:
        if key not in _BY_NAME:
            yield f"{shortened(key)} is not a setting{_nearest(key)}"


def _nearest(key: object) -> str:
    near = get_close_matches(str(key)[:KEY_LENGTH_SHOWN], _BY_NAME, n=1)
    return f" (did you mean {near[0]!r}?)" if near else f" (there are {', '.join(_BY_NAME)})"


def _refuse(faults: Iterable[str]) -> None:
    found = list(faults)
    if found:
        raise _refusal(found)


def _refusal(faults: list[str]) -> InvalidConfig:
    return InvalidConfig(f"nothing was changed: {'; '.join(faults)}", faults=faults)


def _microseconds(hours: float) -> Microseconds:
    return round(hours * HOUR)

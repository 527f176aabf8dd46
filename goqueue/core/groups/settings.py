"""What the members of a group have in common: how it is served and how its partitions are shared out.

The first member fixes these, later ones must ask for the same, and only `group alter` changes them. What differs
from consumer to consumer (visibility, limits in flight) is not here.

`GroupSettings` is the one table: each field carries its default, what it accepts and what it means.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from reprlib import repr as shortened
from typing import Any, TypeVar

from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.names import DEAD_LETTER_SUFFIX, is_internal
from goqueue.core.topics.config import Choice, Setting, SettingKind, Whole
from goqueue.errors import InvalidConfig

DELIVERIES_MAX = 1_000_000
ASSIGNORS = ("sticky", "range", "roundrobin")
REBALANCES = ("cooperative", "eager")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class YesOrNo:
    @property
    def allowed(self) -> str:
        return "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)


def _setting(default: Value, kind: SettingKind, meaning: str) -> Value:
    return field(default=default, metadata={"kind": kind, "meaning": meaning})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    mode: str = _setting(
        "queue",
        Choice(("queue", "stream")),
        "Whether each message is acked by itself, or offsets are committed in order.",
    )
    shared: bool = _setting(
        False,
        YesOrNo(),
        "Whether every member takes from every partition. Queue mode only.",
    )
    key_order: bool = _setting(
        False,
        YesOrNo(),
        "Whether a key's next message waits until the one before it is settled. Queue mode only.",
    )
    lanes: str = _setting(
        "weighted",
        Choice(("weighted", "strict")),
        "How priorities share: by weights, so that none starves, or the highest first. Queue mode only.",
    )
    max_deliveries: int = _setting(
        3,
        Whole(0, DELIVERIES_MAX),
        "After so many deliveries a message goes to the dead-letter topic; 0 is never.",
    )
    assignor: str = _setting(
        "sticky",
        Choice(ASSIGNORS),
        "How partitions are shared out: with the fewest moves, in ranges, or in turn.",
    )
    rebalance: str = _setting(
        "cooperative",
        Choice(REBALANCES),
        "Whether only what moves is let go when members change, or everything.",
    )

    def __post_init__(self) -> None:
        _refuse(_faults(asdict(self)))

    @classmethod
    def from_plain(cls, plain: object) -> "GroupSettings":
        """From `to_plain` of this version or another. `InvalidConfig` names every fault at once."""
        return cls(**_known(_checked_map(plain)))

    def to_plain(self) -> dict[str, Any]:
        """Every setting, so that a later version's defaults do not change a group that is there."""
        return asdict(self)

    def altered(self, changes: object) -> "GroupSettings":
        """With these changes; None resets to the default. Misspelt names are refused, not ignored."""
        given = _checked_map(changes)
        inside = {key: _BY_NAME[key].default if value is None else value for key, value in _known(given).items()}
        values = {**asdict(self), **inside}
        _refuse([*_unknown_faults(given), *_faults(values), *_idle_faults(values)])
        return replace(self, **inside)

    def conflicts_with(self, other: "GroupSettings") -> list[str]:
        """The names of the settings in which the two differ."""
        return [row.name for row in SETTINGS if getattr(self, row.name) != getattr(other, row.name)]


def ledger_settings(group: str, topic: str, settings: GroupSettings) -> LedgerSettings:
    """The settings of a group's ledgers on a topic. Dead letters have no dead letters: they are redelivered for
    ever, and a rejected one late. Only the broker's own group rejects them, to send them back."""
    are_letters = topic.endswith(DEAD_LETTER_SUFFIX)
    return LedgerSettings(
        max_deliveries=0 if are_letters else settings.max_deliveries,
        key_order=settings.key_order,
        strict_lanes=settings.lanes == "strict",
        has_dead_letters=not are_letters or is_internal(group),
    )


SETTINGS = tuple(
    Setting(row.name, row.default, row.metadata["kind"], row.metadata["meaning"]) for row in fields(GroupSettings)
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def _checked_map(plain: object) -> Mapping[Any, Any]:
    if not isinstance(plain, Mapping):
        _refuse([f"a group's settings are a map of names to values, not {type(plain).__name__}"])
    assert isinstance(plain, Mapping)
    return plain


def _known(plain: Mapping[Any, Any]) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if key in _BY_NAME}


def _faults(values: Mapping[str, object]) -> Iterator[str]:
    for name, value in values.items():
        kind = _BY_NAME[name].kind
        if not kind.accepts(value):
            yield f"{name} is {shortened(value)}, but must be {kind.allowed}"
    for name in ("shared", "key_order"):
        if values["mode"] == "stream" and values[name] is True:
            yield f'{name} is true, but a group in mode "stream" cannot have it; use mode "queue"'


def _idle_faults(values: Mapping[str, object]) -> Iterator[str]:
    """Settings that would have no effect. A group that already has them keeps them."""
    if values["mode"] == "stream" and values["lanes"] == "strict":
        yield 'lanes is "strict", but a group in mode "stream" reads in the order of offsets; use mode "queue"'


def _unknown_faults(plain: Mapping[Any, object]) -> Iterator[str]:
    for key in plain:
        if key not in _BY_NAME:
            yield f"{shortened(key)} is not a setting of a group (there are {', '.join(_BY_NAME)})"


def _refuse(faults: Iterable[str]) -> None:
    found = list(faults)
    if found:
        raise InvalidConfig(f"nothing was changed: {'; '.join(found)}", faults=found)

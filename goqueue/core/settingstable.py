"""Settings as a table: what can be set, to what, and what it means.

A frozen dataclass declares its settings with `setting`: each field carries its default, what it accepts and what it
means. Its `SettingsTable` is read from there. Checks, error texts and documentation come from the table. All faults
are told at once, and an unknown name with the nearest known one, so that a person mends a file in one go.

As plain values, over the wire and in files, a limit that is not there is written "unlimited"; inside it is None. A
plain None says "the default" when settings are altered. When they are first given it could also be meant as "no
limit", so `read` takes it only where both are the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from reprlib import repr as shortened
from typing import Any, NamedTuple, Protocol, TypeVar

from goqueue.errors import InvalidConfig

UNLIMITED = "unlimited"
HOURS_MAX = 1_000_000
KEY_LENGTH_COMPARED = 60
"""Characters of an unknown name that are compared with the known ones: a name may be huge."""

_NOT_SAID = object()
"""Accepted by no setting: None where it could mean the default or no limit."""

Value = TypeVar("Value")


class SettingKind(Protocol):
    """What a setting accepts. Values are as inside: None is unlimited."""

    @property
    def allowed(self) -> str: ...

    def accepts(self, value: object) -> bool: ...


class Choice(NamedTuple):
    values: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return " or ".join(f'"{value}"' for value in self.values)

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.values


@dataclass(frozen=True, slots=True)
class YesOrNo:
    @property
    def allowed(self) -> str:
        return "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)


class Whole(NamedTuple):
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


class Hours(NamedTuple):
    or_unlimited: bool = False

    @property
    def allowed(self) -> str:
        return f"hours, from 1/3600 (a second) to {HOURS_MAX:,}{_or_unlimited(self.or_unlimited)}"

    def accepts(self, value: object) -> bool:
        if value is None:
            return self.or_unlimited
        return type(value) in (int, float) and 1 / 3600 <= value <= HOURS_MAX  # type: ignore[operator]


class Number(NamedTuple):
    """Whole or not."""

    least: float
    most: float
    unit: str

    @property
    def allowed(self) -> str:
        return f"{self.unit}, {self.least:,g} to {self.most:,g}, as a number"

    def accepts(self, value: object) -> bool:
        """The comparison refuses nan, too."""
        return type(value) in (int, float) and self.least <= value <= self.most  # type: ignore[operator]


def _or_unlimited(there: bool) -> str:
    return f' or "{UNLIMITED}"' if there else ""


def setting(default: Value, kind: SettingKind, meaning: str) -> Value:
    """A field of a dataclass of settings."""
    return field(default=default, metadata={"kind": kind, "meaning": meaning})


class Setting(NamedTuple):
    """A row of the table, as documentation shows it."""

    name: str
    default: Any
    kind: SettingKind
    meaning: str


class SettingsTable:
    def __init__(self, declared: type, *, noun: str, map_named: str) -> None:
        """`noun` and `map_named` are words for people: "setting of a group", "a group's settings are a map"."""
        rows = [Setting(row.name, row.default, **row.metadata) for row in fields(declared)]
        self._rows = {row.name: row for row in rows}
        self._noun = noun
        self._map_named = map_named

    def __iter__(self) -> Iterator[Setting]:
        return iter(self._rows.values())

    def values_of(self, settings: object) -> dict[str, Any]:
        return {name: getattr(settings, name) for name in self._rows}

    # From plain values, and to them

    def checked_map(self, plain: object) -> Mapping[Any, Any]:
        if not isinstance(plain, Mapping):
            raise _refusal([f"{self._map_named} to values, not {type(plain).__name__}"])
        return plain

    def known(self, plain: Mapping[Any, Any]) -> dict[str, Any]:
        return {key: value for key, value in plain.items() if key in self._rows}

    def read(self, plain: Mapping[Any, Any]) -> dict[str, Any]:
        """The known settings, as they are inside."""
        return {key: _read(self._rows[key], value) for key, value in self.known(plain).items()}

    def read_changes(self, plain: Mapping[Any, Any]) -> dict[str, Any]:
        """The same for settings that are altered: None resets to the default."""
        resets = {key: self._rows[key].default for key, value in self.known(plain).items() if value is None}
        return self.read(plain) | resets

    def to_plain(self, settings: object) -> dict[str, Any]:
        """Every setting, so that a later version's defaults do not change what is there."""
        return {name: UNLIMITED if value is None else value for name, value in self.values_of(settings).items()}

    # Faults

    def value_faults(self, inside: Mapping[str, object]) -> Iterator[str]:
        for name, value in inside.items():
            kind = self._rows[name].kind
            if not kind.accepts(value):
                shown = "null (the default? no limit?)" if value is _NOT_SAID else shortened(value)
                yield f"{name} is {shown}, but must be {kind.allowed}"

    def unknown_faults(self, plain: Iterable[object]) -> Iterator[str]:
        for key in plain:
            if key not in self._rows:
                yield f"{shortened(key)} is not a {self._noun}{self._nearest(key)}"

    def _nearest(self, key: object) -> str:
        near = get_close_matches(str(key)[:KEY_LENGTH_COMPARED], self._rows, n=1)
        return f" (did you mean {near[0]!r}?)" if near else f" (there are {', '.join(self._rows)})"


def refuse(faults: Iterable[str]) -> None:
    """Raise `InvalidConfig` if there are any."""
    found = list(faults)
    if found:
        raise _refusal(found)


def _refusal(faults: list[str]) -> InvalidConfig:
    return InvalidConfig(f"nothing was changed: {'; '.join(faults)}", faults=faults)


def _read(row: Setting, value: object) -> object:
    if value == UNLIMITED and row.kind.accepts(None):
        return None
    if value is None and row.default is not None:
        return _NOT_SAID
    return value

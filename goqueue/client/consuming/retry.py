"""What becomes of a message that failed: `goqueue.Retry(attempts=40, first=1, longest=60)`.

Attempts and waits are settings that the whole group shares. What is left out is as the group has it, or as a new
group begins. `never_for` belongs to the consumer or the worker that was given it: the broker knows no exceptions.
"""

from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any

from goqueue.client.link.arguments import refusal
from goqueue.core.groups.settings import SETTINGS
from goqueue.types import Seconds, seconds_of

SETTING_OF = {
    "attempts": "max_deliveries",
    "first": "retry_first",
    "longest": "retry_longest",
    "jitter": "retry_jitter",
}
"""The setting of the group that each of these is."""
_KINDS = {row.name: row.kind for row in SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How a group tries a failed message again.

    After `attempts` deliveries it is a dead letter; 0 is never. It waits `first` seconds before its second one,
    then twice as long each time, up to `longest`; each wait is shorter by a random share, `jitter` at most. After
    an exception in `never_for` it is not tried again, and is a dead letter at once.
    """

    attempts: int | None = None
    first: Seconds | None = None
    longest: Seconds | None = None
    jitter: float | None = None
    never_for: type[Exception] | tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        first: Any = seconds_of(self.first)
        longest: Any = seconds_of(self.longest)
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "longest", longest)
        for name, setting in SETTING_OF.items():
            _check(name, getattr(self, name), setting)
        if first is not None and longest is not None and first > longest:
            raise refusal(f"Retry: first is {first:g} s and longest only {longest:g} s; exchange them")
        object.__setattr__(self, "never_for", _classes_in(self.never_for))

    @property
    def settings(self) -> dict[str, Any]:
        """The group settings that were given."""
        given = {setting: getattr(self, name) for name, setting in SETTING_OF.items()}
        return {setting: value for setting, value in given.items() if value is not None}

    def is_final(self, error: BaseException) -> bool:
        """Whether `never_for` names this error: its message should be rejected, not tried again."""
        return isinstance(error, self.never_for)


def _check(name: str, value: object, setting: str) -> None:
    kind = _KINDS[setting]
    if value is not None and not kind.accepts(value):
        raise refusal(f"Retry: {name} is {shortened(value)}, but must be {kind.allowed}")


def _classes_in(given: object) -> tuple[type[Exception], ...]:
    classes = tuple(given) if isinstance(given, tuple | list) else (given,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise refusal(f"Retry: never_for has {shortened(each)}; give classes, as (ValueError, KeyError)")
    return classes

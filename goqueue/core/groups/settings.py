"""What the members of a group have in common: how it is served and how its partitions are shared out.

The first member fixes these, later ones must ask for the same, and only `group alter` changes them. What differs
from consumer to consumer (visibility, limits in flight) is not here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from goqueue.core.ledger.settings import DELAY_FIRST, DELAY_MAX, LedgerSettings
from goqueue.core.names import DEAD_LETTER_SUFFIX, is_internal
from goqueue.core.settingstable import Choice, Number, SettingsTable, Whole, YesOrNo, refuse, setting

DELIVERIES_MAX = 1_000_000
RETRY_SECONDS = Number(0, 12 * 3600, "seconds")
ASSIGNORS = ("sticky", "range", "roundrobin")
REBALANCES = ("cooperative", "eager")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    mode: str = setting(
        "queue",
        Choice(("queue", "stream")),
        "Whether each message is acked by itself, or offsets are committed in order.",
    )
    shared: bool = setting(False, YesOrNo(), "Whether every member takes from every partition. Queue mode only.")
    key_order: bool = setting(
        False, YesOrNo(), "Whether a key's next message waits until the one before it is settled. Queue mode only."
    )
    lanes: str = setting(
        "weighted",
        Choice(("weighted", "strict")),
        "How priorities share: by weights, so that none starves, or the highest first. Queue mode only.",
    )
    max_deliveries: int = setting(
        3, Whole(0, DELIVERIES_MAX), "After so many deliveries a message goes to the dead-letter topic; 0 is never."
    )
    assignor: str = setting(
        "sticky", Choice(ASSIGNORS), "How partitions are shared out: with the fewest moves, in ranges, or in turn."
    )
    rebalance: str = setting(
        "cooperative", Choice(REBALANCES), "Whether only what moves is let go when members change, or everything."
    )
    retry_first: float = setting(
        DELAY_FIRST,
        RETRY_SECONDS,
        "The wait before the first retry of a message that failed; it doubles with each. Queue mode only.",
    )
    retry_longest: float = setting(DELAY_MAX, RETRY_SECONDS, "The longest wait before a retry. Queue mode only.")
    retry_jitter: float = setting(
        0.0,
        Number(0, 1, "a share"),
        "By what share a wait may be shorter, so that messages that failed together do not come again together. "
        "Queue mode only.",
    )

    def __post_init__(self) -> None:
        refuse(_faults(SETTINGS.values_of(self)))

    @classmethod
    def from_plain(cls, plain: object) -> "GroupSettings":
        """From `to_plain` of this version or another. `InvalidConfig` names every fault at once."""
        return cls(**SETTINGS.known(SETTINGS.checked_map(plain)))

    def to_plain(self) -> dict[str, Any]:
        return SETTINGS.to_plain(self)

    def altered(self, changes: object) -> "GroupSettings":
        """With these changes; None resets to the default. Misspelt names are refused, not ignored."""
        given = SETTINGS.checked_map(changes)
        inside = SETTINGS.read_changes(given)
        values = {**SETTINGS.values_of(self), **inside}
        refuse([*SETTINGS.unknown_faults(given), *_faults(values), *_idle_faults(values)])
        return replace(self, **inside)

    @classmethod
    def asked_for(
        cls, there: "GroupSettings | None", given: Mapping[str, object], defaults: Mapping[str, object]
    ) -> "GroupSettings":
        """What a member asks for. Settings that it leaves out are those of the group; `defaults` are what it wants
        beyond that of a group that has none yet."""
        others = defaults if there is None else there.to_plain()
        return cls.from_plain({**others, **given})

    def conflicts_with(self, other: "GroupSettings") -> list[str]:
        """The names of the settings in which the two differ."""
        return [row.name for row in SETTINGS if getattr(self, row.name) != getattr(other, row.name)]


def ledger_settings(group: str, topic: str, settings: GroupSettings) -> LedgerSettings:
    """The settings of a group's ledgers on a topic. Dead letters have no dead letters: they are redelivered for
    ever, and a rejected one late. Only the broker's own group rejects them, to send them back."""
    are_letters = topic.endswith(DEAD_LETTER_SUFFIX)
    return LedgerSettings(
        max_deliveries=0 if are_letters else settings.max_deliveries,
        backoff_first=float(settings.retry_first),
        backoff_max=float(settings.retry_longest),
        key_order=settings.key_order,
        strict_lanes=settings.lanes == "strict",
        has_dead_letters=not are_letters or is_internal(group),
        jitter=float(settings.retry_jitter),
    )


SETTINGS = SettingsTable(
    GroupSettings, noun="setting of a group", map_named="a group's settings are a map of names"
)


def _faults(values: Mapping[str, object]) -> Iterator[str]:
    yield from SETTINGS.value_faults(values)
    for name in ("shared", "key_order"):
        if values["mode"] == "stream" and values[name] is True:
            yield f'{name} is true, but a group in mode "stream" cannot have it; use mode "queue"'


def _idle_faults(values: Mapping[str, object]) -> Iterator[str]:
    """Settings that would have no effect. A group that already has them keeps them."""
    if values["mode"] == "stream" and values["lanes"] == "strict":
        yield 'lanes is "strict", but a group in mode "stream" reads in the order of offsets; use mode "queue"'

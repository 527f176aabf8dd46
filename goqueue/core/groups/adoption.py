"""Which groups the register lacks though the partitions have ledgers of them.

The register names a group before any partition hears of it, and drops it from its list of leaving groups only when
every partition has forgotten it. So a ledger whose group is in neither list means that the register lost entries.
The group is adopted: it keeps its id, and with it all its progress.

    not known at all                        made, with its settings and topics
    known, without settings or a topic      these are added
    known under an id that no ledger has    made again under the ledgers' id, if the register is damaged; else the
                                            ledgers are left over from a deleted group
    about to leave                          nothing: it was deleted
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from goqueue.core.groups.registry import KnownGroup, SeenTopic
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.start import EARLIEST
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.names import is_internal


@dataclass(frozen=True, slots=True)
class HeldLedger:
    """A group's ledger, and where it lies."""

    group: str
    group_id: int
    settings: GroupSettings
    topic: str
    uuid: UUID
    partition: int
    partitions: int
    """The number of partitions of the topic."""


@dataclass(frozen=True, slots=True)
class Adoption:
    name: str
    id: int
    is_unknown: bool
    """It is not in the register, or not under this id."""
    settings: GroupSettings | None
    """The settings that the register lacks; None when it has them, or the group is the broker's own."""
    topics: tuple[SeenTopic, ...]

    def __str__(self) -> str:
        topics = ", ".join(topic.name for topic in self.topics)
        what = "the group itself" if self.is_unknown else "settings or topics of the group"
        return f"{self.name}: the register had lost {what}" + (f"; its ledgers are on {topics}" if topics else "")


def settings_of(plain: Mapping[str, Any] | None, ledger: LedgerSettings) -> GroupSettings:
    """The settings in a ledger; if an older goqueue wrote it, those of a queue group with the ledger's own
    settings."""
    if plain is not None:
        return GroupSettings.from_plain(plain)
    return GroupSettings(
        max_deliveries=ledger.max_deliveries,
        key_order=ledger.key_order,
        retry_first=ledger.backoff_first,
        retry_longest=ledger.backoff_max,
        retry_jitter=ledger.jitter,
        lanes="strict" if ledger.strict_lanes else "weighted",
    )


def adoptions(
    known: Iterable[KnownGroup],
    leaving: Iterable[KnownGroup],
    ledgers: Sequence[HeldLedger],
    *,
    is_damaged: bool,
) -> Iterator[Adoption]:
    """In order of name. `is_damaged`: the register has lost entries, or may have."""
    groups, gone = {each.name: each for each in known}, {(each.name, each.id) for each in leaving}
    by_name: dict[str, list[HeldLedger]] = {}
    for ledger in ledgers:
        if (ledger.group, ledger.group_id) not in gone:
            by_name.setdefault(ledger.group, []).append(ledger)
    for name in sorted(by_name):
        adoption = _adopted(groups.get(name), by_name[name], is_damaged)
        if adoption is not None:
            yield adoption


def _adopted(known: KnownGroup | None, ledgers: Sequence[HeldLedger], is_damaged: bool) -> Adoption | None:
    ids = Counter(ledger.group_id for ledger in ledgers)
    if known is not None and (known.id in ids or not is_damaged):
        return _completed(known, [each for each in ledgers if each.group_id == known.id])
    group_id = max(ids, key=lambda each: (ids[each], each))
    ours = [each for each in ledgers if each.group_id == group_id]
    return Adoption(ours[0].group, group_id, True, _settings(ours), _topics(ours, ()))


def _completed(known: KnownGroup, ledgers: Sequence[HeldLedger]) -> Adoption | None:
    topics = _topics(ledgers, {topic.uuid for topic in known.topics.values()})
    settings = _settings(ledgers) if known.settings is None else None
    if not topics and settings is None:
        return None
    return Adoption(known.name, known.id, False, settings, topics)


def _settings(ledgers: Sequence[HeldLedger]) -> GroupSettings | None:
    """The broker's own groups have none. On a dead-letter topic a ledger has `max_deliveries` 0, since dead letters
    have no dead letters: a ledger on another topic comes first."""
    if not ledgers or is_internal(ledgers[0].group):
        return None
    return max(ledgers, key=lambda each: each.settings.max_deliveries).settings


def _topics(ledgers: Sequence[HeldLedger], seen: Collection[UUID]) -> tuple[SeenTopic, ...]:
    """A partition without a ledger begins at its beginning, which loses nothing (G5)."""
    found: dict[UUID, list[HeldLedger]] = {}
    for ledger in ledgers:
        if ledger.uuid not in seen:
            found.setdefault(ledger.uuid, []).append(ledger)
    return tuple(
        SeenTopic(some[0].topic, uuid, some[0].partitions, EARLIEST, _prefix({each.partition for each in some}))
        for uuid, some in found.items()
    )


def _prefix(numbers: Collection[int]) -> int:
    return next(number for number in range(len(numbers) + 1) if number not in numbers)

"""Which groups there are: the groups' part of the internal log `__metadata` (core/metadata has all of it).

A command is checked against the state and gives the entry to write; it changes nothing. Once the entry is durable,
`apply` changes the state. Starting again applies the same entries.

An entry is a map: `v` (1), `kind`, `group`, and

    made        id            drawn anew, so that a group made again under its name begins anew everywhere
    fixed       settings      by its first member, or altered
    reserved    generation    none above it has been given out; a start goes on from there
    began       topic, uuid, partitions, start    the group has seen this topic, which had so many partitions then
    attached    topic, uuid, partitions    so many of them, from the first on, have the group's ledger durably
    ceased      topic, uuid   the topic is gone
    members     members       who was in the group a moment ago, and owned what; see memory.py
    removed                   the group is gone; its partitions have yet to hear of it
    forgotten   id            they have; older entries lack the id and mean every group of this name
    doubted                   entries may have been lost: groups are to be looked for in the partitions
    mended      generation    that was done; a group that is made later may have been lost, and begins above it
    snapshot    groups, leaving, doubtful, generation    stands for all entries before it; the last two only if so

`start` is kept because a partition may be down when its group first sees it. Partitions that the topic gets later
begin at their beginning: what is in them was published after the group began (G5).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from reprlib import repr as shortened
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID

from goqueue.core.groups.memory import RememberedMember
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.start import EARLIEST, check_start
from goqueue.core.names import check_group_name
from goqueue.errors import GroupConflict, InvalidConfig, InvalidName, UnknownFormat, UnknownGroup

VERSION = 1
GROUPS_MAX = 10_000
LEAVING_MAX = 10_000
"""Limit of the removed groups that wait for a partition to hear of it; beyond it the oldest are dropped."""
GROUP_ID_BITS = 63

RegistryEntry: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SeenTopic:
    """A topic as the group first saw it."""

    name: str
    uuid: UUID
    partitions: int
    start: str
    attached: int = 0
    """The number of partitions, from the first on, that have the group's ledger: if it is missing there, it was
    lost."""

    def start_of(self, partition: int) -> str:
        return self.start if partition < self.partitions else EARLIEST

    def to_plain(self) -> list[Any]:
        return [self.name, str(self.uuid), self.partitions, self.start, self.attached]


@dataclass(frozen=True, slots=True)
class KnownGroup:
    name: str
    id: int
    settings: GroupSettings | None = None
    """None before the first member."""
    generation: int = 0
    """Not below the last one that was given out."""
    topics: Mapping[str, SeenTopic] = field(default_factory=lambda: MappingProxyType({}))
    members: tuple[RememberedMember, ...] = ()

    def to_plain(self) -> list[Any]:
        settings = None if self.settings is None else self.settings.to_plain()
        topics = [topic.to_plain() for topic in self.topics.values()]
        members = [member.to_plain() for member in self.members]
        return [self.name, self.id, settings, self.generation, topics, members]


class GroupRegistry:
    def __init__(self) -> None:
        self._groups: dict[str, KnownGroup] = {}
        self._leaving: dict[tuple[str, int], KnownGroup] = {}
        self.is_doubtful = False
        """Entries were lost, or may have been, and nobody has looked for the groups since."""
        self._mended_at = 0
        """The generation above which groups begin that may have been lost."""

    def __iter__(self) -> Iterator[KnownGroup]:
        """Every group, in order of name."""
        return iter([self._groups[name] for name in sorted(self._groups)])

    def __len__(self) -> int:
        return len(self._groups)

    def find(self, name: str) -> KnownGroup | None:
        return self._groups.get(name)

    def group(self, name: str) -> KnownGroup:
        group = self._groups.get(name)
        if group is None:
            raise UnknownGroup(f"there is no group {shortened(name)}; the first consumer that joins makes it")
        return group

    def leaving(self) -> list[KnownGroup]:
        """Removed groups that some partition may not have heard of."""
        return list(self._leaving.values())

    # Commands: the entry to write, or an error. The state stays as it is.

    def make(self, name: object, group_id: int, *, by_broker: bool = False) -> RegistryEntry:
        checked = check_group_name(name, by_broker=by_broker)
        if checked in self._groups:
            raise GroupConflict(f"group {shortened(checked)} is there already")
        if len(self._groups) >= GROUPS_MAX:
            raise GroupConflict(f"there are {GROUPS_MAX:,} groups, as many as may be; delete some")
        return _entry("made", checked, id=group_id)

    def fix(self, name: str, settings: GroupSettings) -> RegistryEntry:
        """Settings from the first member, or from an operator."""
        return _entry("fixed", self.group(name).name, settings=settings.to_plain())

    def reserve(self, name: str, generation: int) -> RegistryEntry:
        """A group may use generations up to this one."""
        return _entry("reserved", self.group(name).name, generation=max(generation, self.group(name).generation))

    def begin(self, name: str, seen: SeenTopic) -> RegistryEntry:
        check_start(seen.start)
        return _entry("began", self.group(name).name, seen=seen.to_plain())

    def attach(self, name: str, topic: str, uuid: UUID, partitions: int) -> RegistryEntry:
        """The first `partitions` partitions of the topic have the group's ledger durably."""
        return _entry("attached", self.group(name).name, topic=topic, uuid=str(uuid), partitions=partitions)

    def remake(self, name: str, group_id: int) -> RegistryEntry:
        """The group had this id before the register lost entries."""
        return _entry("made", check_group_name(name, by_broker=True), id=group_id)

    def cease(self, name: str, topic: str, uuid: UUID) -> RegistryEntry:
        return _entry("ceased", self.group(name).name, topic=topic, uuid=str(uuid))

    def remember(self, name: str, members: Iterable[RememberedMember]) -> RegistryEntry:
        return _entry("members", self.group(name).name, members=[each.to_plain() for each in members])

    def remove(self, name: str) -> RegistryEntry:
        return _entry("removed", self.group(name).name)

    def forget(self, name: str, group_id: int) -> RegistryEntry:
        return _entry("forgotten", name, id=group_id)

    def doubt(self) -> RegistryEntry:
        return _entry("doubted", "")

    def mend(self, generation: int) -> RegistryEntry:
        return _entry("mended", "", generation=generation)

    def snapshot(self) -> RegistryEntry:
        groups, leaving = ([each.to_plain() for each in some] for some in (self, self._leaving.values()))
        doubtful = {"doubtful": True} if self.is_doubtful else {}
        mended = {"generation": self._mended_at} if self._mended_at else {}
        return _entry("snapshot", "", groups=groups, leaving=leaving, **doubtful, **mended)

    # Entries

    def fits(self, entry: object) -> bool:
        """Whether it can be applied: where entries were lost, others may name an unknown group."""
        fields = _checked(entry)
        return fields["kind"] not in _OF_A_GROUP or fields.get("group") in self._groups

    def apply(self, entry: object) -> None:
        """Apply a durable entry, a new one or one of a replay. `UnknownFormat` changes nothing."""
        fields = _checked(entry)
        try:
            _APPLIED[fields["kind"]](self, fields)
        except (LookupError, TypeError, ValueError, AttributeError, InvalidConfig, InvalidName) as error:
            raise UnknownFormat(f"an entry of the groups cannot be read: {shortened(entry)}") from error

    def _made(self, fields: RegistryEntry) -> None:
        """The id tells the group from what is left of an earlier one of this name."""
        name = check_group_name(fields["group"], by_broker=True)
        self._groups[name] = KnownGroup(name, int(fields["id"]), generation=self._mended_at)

    def _fixed(self, fields: RegistryEntry) -> None:
        self._change(fields, settings=GroupSettings.from_plain(fields["settings"]))

    def _reserved(self, fields: RegistryEntry) -> None:
        self._change(fields, generation=int(fields["generation"]))

    def _began(self, fields: RegistryEntry) -> None:
        seen = _seen_from(fields["seen"])
        self._change(fields, topics=_frozen({**self._groups[fields["group"]].topics, seen.name: seen}))

    def _attached(self, fields: RegistryEntry) -> None:
        topics, uuid = dict(self._groups[fields["group"]].topics), UUID(fields["uuid"])
        seen = topics.get(fields["topic"])
        if seen is not None and seen.uuid == uuid:
            topics[seen.name] = replace(seen, attached=int(fields["partitions"]))
        self._change(fields, topics=_frozen(topics))

    def _ceased(self, fields: RegistryEntry) -> None:
        """Only the topic with this UUID ceases, not one that was made again under its name."""
        topics, uuid = dict(self._groups[fields["group"]].topics), UUID(fields["uuid"])
        if fields["topic"] in topics and topics[fields["topic"]].uuid == uuid:
            del topics[fields["topic"]]
        self._change(fields, topics=_frozen(topics))

    def _remembered(self, fields: RegistryEntry) -> None:
        self._change(fields, members=tuple(map(RememberedMember.from_plain, fields["members"])))

    def _removed(self, fields: RegistryEntry) -> None:
        group = self._groups.pop(fields["group"])
        self._leaving[group.name, group.id] = group
        if len(self._leaving) > LEAVING_MAX:
            del self._leaving[next(iter(self._leaving))]

    def _forgotten(self, fields: RegistryEntry) -> None:
        name, group_id = fields["group"], fields.get("id")
        meant = [key for key in self._leaving if key[0] == name and group_id in (None, key[1])]
        for key in meant:
            del self._leaving[key]

    def _doubted(self, _: RegistryEntry) -> None:
        self.is_doubtful = True

    def _mended(self, fields: RegistryEntry) -> None:
        self.is_doubtful = False
        self._mended_at = max(self._mended_at, int(fields.get("generation", 0)))

    def _replaced(self, fields: RegistryEntry) -> None:
        groups, leaving = (list(_groups_from(fields[key])) for key in ("groups", "leaving"))
        self.is_doubtful, self._mended_at = bool(fields.get("doubtful")), int(fields.get("generation", 0))
        self._groups = {group.name: group for group in groups}
        self._leaving = {(group.name, group.id): group for group in leaving}

    def _change(self, fields: RegistryEntry, **changes: Any) -> None:
        self._groups[fields["group"]] = replace(self._groups[fields["group"]], **changes)


_APPLIED: dict[str, Callable[[GroupRegistry, RegistryEntry], None]] = {
    "made": GroupRegistry._made,
    "fixed": GroupRegistry._fixed,
    "reserved": GroupRegistry._reserved,
    "began": GroupRegistry._began,
    "attached": GroupRegistry._attached,
    "ceased": GroupRegistry._ceased,
    "members": GroupRegistry._remembered,
    "removed": GroupRegistry._removed,
    "forgotten": GroupRegistry._forgotten,
    "doubted": GroupRegistry._doubted,
    "mended": GroupRegistry._mended,
    "snapshot": GroupRegistry._replaced,
}


_OF_A_GROUP = frozenset({"fixed", "reserved", "began", "attached", "ceased", "members", "removed"})


def _entry(kind: str, group: str, **fields: Any) -> RegistryEntry:
    return {"v": VERSION, "kind": kind, "group": group, **fields}


def _checked(entry: object) -> RegistryEntry:
    fields = entry if isinstance(entry, dict) else {}
    kind = fields.get("kind")
    if fields.get("v") != VERSION or not isinstance(kind, str) or kind not in _APPLIED:
        raise UnknownFormat(f"an entry of the groups is unknown: {shortened(entry)}; start a goqueue that knows it")
    return fields


def _groups_from(plain: Any) -> Iterator[KnownGroup]:
    return map(_group_from, plain)


def _group_from(plain: Any) -> KnownGroup:
    """Names are checked again: they become folders. Older snapshots have no members."""
    name, group_id, settings, generation, topics = plain[:5]
    seen = {each.name: each for each in map(_seen_from, topics)}
    fixed = None if settings is None else GroupSettings.from_plain(settings)
    members = tuple(map(RememberedMember.from_plain, plain[5] if len(plain) > 5 else ()))
    checked = check_group_name(name, by_broker=True)
    return KnownGroup(checked, int(group_id), fixed, int(generation), _frozen(seen), members)


def _seen_from(plain: Any) -> SeenTopic:
    """Older files do not say how many partitions have a ledger."""
    name, uuid, partitions, start, *later = plain
    attached = int(later[0]) if later else 0
    return SeenTopic(str(name), UUID(uuid), int(partitions), check_start(start), attached)


def _frozen(topics: dict[str, SeenTopic]) -> Mapping[str, SeenTopic]:
    return MappingProxyType(topics)

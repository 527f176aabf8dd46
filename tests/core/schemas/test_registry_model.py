"""The registry against a plain model of it, through any commands, restarts and snapshots."""

from dataclasses import dataclass, field
from typing import Any

import msgpack
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.core.schemas.changing import SettingsChange, change
from goqueue.core.schemas.deleting import delete_subject, delete_version
from goqueue.core.schemas.registering import Wish, look_up, register
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.core.schemas.schema import Reference, SchemaVersion
from goqueue.errors import RegistryError
from tests.core.schemas.registries import content

NAMES = ("orders", "orders-value", "orders-key")
KEYS = {"orders": "orders-value"}
TITLES = st.integers(1, 2)
SUBJECTS = st.sampled_from(NAMES)
NUMBERS = st.integers(1, 4)


def key(name: str) -> str:
    return KEYS.get(name, name)


def text_of(title: int) -> str:
    return f'{{"title":"{title}","description":""}}'


def turned_round(title: int) -> str:
    """The same members in another order."""
    return f'{{"description":"","title":"{title}"}}'


@dataclass
class ModelVersion:
    schema: tuple[Any, ...]
    """What makes it the same as another."""
    id: int
    references: tuple[tuple[str, int], ...] = ()
    is_deleted: bool = False


@dataclass
class Model:
    subjects: dict[str, dict[int, ModelVersion]] = field(default_factory=dict)
    given_ids: set[int] = field(default_factory=set)
    given_versions: set[tuple[str, int]] = field(default_factory=set)

    def live(self, name: str) -> dict[int, ModelVersion]:
        return {number: each for number, each in self.subjects.get(name, {}).items() if not each.is_deleted}

    def ids_of(self, schema: tuple[Any, ...]) -> set[int]:
        return {each.id for some in self.subjects.values() for each in some.values() if each.schema == schema}

    def referrers(self, name: str, number: int, *, deleted: bool) -> list[tuple[str, int]]:
        return [
            (other, at)
            for other, some in self.subjects.items()
            for at, each in some.items()
            if (name, number) in each.references and (deleted or not each.is_deleted)
        ]


class RegistryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = SchemaRegistry()
        self.entries: list[bytes] = []
        self.model = Model()

    def _write(self, entry: dict[str, Any]) -> None:
        packed = msgpack.packb(entry)
        self.entries.append(packed)
        self.registry.apply(msgpack.unpackb(packed))

    # Commands

    @rule(name=SUBJECTS, title=TITLES, is_turned=st.booleans())
    def register_plain(self, name: str, title: int, is_turned: bool) -> None:
        text = turned_round(title) if is_turned else text_of(title)
        self._register(name, text, (text,), ())

    @rule(name=SUBJECTS, target_name=SUBJECTS, number=NUMBERS)
    def register_with_reference(self, name: str, target_name: str, number: int) -> None:
        place = (key(target_name), number)
        schema = ('{"$ref":"x"}', place)
        if number not in self.model.live(key(target_name)):
            found = self._try_register(name, schema[0], [Reference("x", target_name, number)])
            assert found is None, "it must exist"
            return
        self._register(name, schema[0], schema, (place,), [Reference("x", target_name, number)])

    @rule(name=SUBJECTS, title=TITLES, is_turned=st.booleans())
    def register_normalized(self, name: str, title: int, is_turned: bool) -> None:
        """The order of members does not count: a version that has either is the answer, else an id that has."""
        same = ((text_of(title),), (turned_round(title),))
        live = {number: each for number, each in self.model.live(key(name)).items() if each.schema in same}
        text = turned_round(title) if is_turned else text_of(title)
        found = self._try_register(name, text, [], normalize=True)
        if live:
            assert isinstance(found, SchemaVersion)
            assert found.version == max(live)
            return
        assert found is not None
        assert not isinstance(found, SchemaVersion)
        ids = {schema: self.model.ids_of(schema) for schema in same}
        schema = next((each for each in ((text,), *same) if ids[each]), (text,))
        if ids[schema]:
            assert ids[schema] == {found.entry["id"]}
        self._take(found.entry, key(name), schema, ())

    def _try_register(self, name: str, text: str, references: list[Reference], **wished: Any) -> Any:
        """A version, an entry, or None when it is refused."""
        try:
            return register(self.registry, Wish(name, content(text, references), **wished))
        except RegistryError:
            return None

    def _register(
        self,
        name: str,
        text: str,
        schema: tuple[Any, ...],
        places: tuple[tuple[str, int], ...],
        references: list[Reference] = [],  # noqa: B006 - it stays empty
    ) -> None:
        found, live = self._try_register(name, text, references), self.model.live(key(name))
        there = {number: each for number, each in live.items() if each.schema == schema}
        if there:
            assert isinstance(found, SchemaVersion)
            assert {found.version: found.id} == {number: each.id for number, each in there.items()}
            return
        assert found is not None
        assert not isinstance(found, SchemaVersion)
        number, schema_id, ids = found.entry["version"], found.entry["id"], self.model.ids_of(schema)
        if ids:
            assert ids == {schema_id}, "the same schema has one id"
        else:
            assert schema_id not in self.model.given_ids, "ids are never given again"
        assert (key(name), number) not in self.model.given_versions, "versions are never given again"
        compared = [each.version.version for each in found.comparisons]
        assert compared == sorted(live)[-1:], "the newest version that is not deleted"
        self._take(found.entry, key(name), schema, places)

    def _take(
        self, entry: dict[str, Any], name: str, schema: tuple[Any, ...], places: tuple[tuple[str, int], ...]
    ) -> None:
        number, schema_id = entry["version"], entry["id"]
        self._write(entry)
        self.model.given_ids.add(schema_id)
        self.model.given_versions.add((name, number))
        self.model.subjects.setdefault(name, {})[number] = ModelVersion(schema, schema_id, places)

    @rule(name=SUBJECTS, number=NUMBERS, permanent=st.booleans())
    def delete_one(self, name: str, number: int, permanent: bool) -> None:
        there = self.model.subjects.get(key(name), {}).get(number)
        may = there is not None and there.is_deleted == permanent
        may = may and not self.model.referrers(key(name), number, deleted=permanent)
        try:
            entry = delete_version(self.registry, name, number, permanent=permanent)
        except RegistryError:
            assert not may
            return
        assert may
        assert entry["versions"] == [number]
        self._delete(entry, key(name), permanent=permanent)

    @rule(name=SUBJECTS, permanent=st.booleans())
    def delete_all(self, name: str, permanent: bool) -> None:
        some, live = self.model.subjects.get(key(name), {}), self.model.live(key(name))
        going = some if permanent else live
        outside = [
            place
            for number in going
            for place in self.model.referrers(key(name), number, deleted=permanent)
            if place[0] != key(name) or place[1] not in going
        ]
        may = bool(some) and bool(live) != permanent and not outside
        try:
            entry = delete_subject(self.registry, name, permanent=permanent)
        except RegistryError:
            assert not may
            return
        assert may
        assert entry["versions"] == sorted(going)
        self._delete(entry, key(name), permanent=permanent)

    @rule(name=SUBJECTS)
    def remove_all(self, name: str) -> None:
        self.delete_all(name, permanent=False)
        self.delete_all(name, permanent=True)

    def _delete(self, entry: dict[str, Any], name: str, *, permanent: bool) -> None:
        self._write(entry)
        for number in entry["versions"]:
            if permanent:
                del self.model.subjects[name][number]
            else:
                self.model.subjects[name][number].is_deleted = True

    @rule(name=SUBJECTS | st.none(), level=st.sampled_from(("BACKWARD", "FORWARD", "FULL")))
    def set_level(self, name: str | None, level: str) -> None:
        self._write(change(self.registry, SettingsChange(name, level=level)))
        assert self.registry.settings(name).level.value == level

    @rule()
    def refused_commands_change_nothing(self) -> None:
        before = self.registry.snapshot()
        self._try_register("orders", '{"$ref":"x"}', [Reference("x", "missing", 1)])
        self._try_register("orders", "{", [])
        self._try_register("orders", "{}", [], id=9)
        assert self.registry.snapshot() == before

    # Restarts

    @rule()
    def restart(self) -> None:
        before, self.registry = self.registry.snapshot(), SchemaRegistry()
        for packed in self.entries:
            self.registry.apply(msgpack.unpackb(packed))
        assert self.registry.snapshot() == before

    @rule()
    def restart_from_a_snapshot(self) -> None:
        self.entries = [msgpack.packb(self.registry.snapshot())]
        before = self.registry.snapshot()
        self.restart()
        assert self.registry.snapshot() == before

    # What holds at any time

    @invariant()
    def subjects_and_versions_are_those_of_the_model(self) -> None:
        shown = {
            subject.key: {number: (each.id, each.is_deleted) for number, each in subject.versions.items()}
            for subject in self.registry
        }
        assert shown == {
            name: {number: (each.id, each.is_deleted) for number, each in some.items()}
            for name, some in self.model.subjects.items()
            if some
        }

    @invariant()
    def every_live_version_is_found_by_its_schema_and_resolves(self) -> None:
        for name in self.model.subjects:
            for number, each in self.model.live(name).items():
                version = self.registry.version(name, number)
                found = content(version.schema.text, version.schema.references)
                assert look_up(self.registry, name, found).version == number
                resolved = self.registry.resolved(each.id)
                assert len(resolved.references) == len(each.references)
                assert all(at in self.model.live(target) for target, at in each.references)

    @invariant()
    def referrers_and_uses_agree(self) -> None:
        for name, some in self.model.subjects.items():
            for number, each in some.items():
                found = [(item.subject, item.version) for item in self.registry.referrers(name, number)]
                expected = self.model.referrers(name, number, deleted=True)
                assert sorted((key(subject), at) for subject, at in found) == sorted(expected)
                assert number in {use.version for use in self.registry.uses(each.id) if key(use.subject) == name}

    @invariant()
    def counts_agree(self) -> None:
        counts = self.registry.counts()
        live = [each for name in self.model.subjects for each in self.model.live(name).values()]
        every = [each for some in self.model.subjects.values() for each in some.values()]
        assert counts.subjects == sum(1 for name in self.model.subjects if self.model.live(name))
        assert (counts.versions, counts.deleted_versions) == (len(live), len(every) - len(live))
        assert counts.schemas == len({each.id for each in every})
        assert counts.size == sum(
            len(self.registry.schema(each).schema.text) for each in {each.id for each in every}
        )


RegistryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRegistry = RegistryMachine.TestCase

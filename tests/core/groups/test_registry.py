"""Which groups there are: commands, entries, and what a replay gives back."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.groups.registry import GROUPS_MAX, GroupRegistry, SeenTopic
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.start import check_start
from goqueue.errors import GroupConflict, InvalidConfig, InvalidName, UnknownFormat, UnknownGroup

FIRST, SECOND = UUID(int=1), UUID(int=2)


def written(registry: GroupRegistry, *entries: dict[str, Any]) -> GroupRegistry:
    for entry in entries:
        registry.apply(entry)
    return registry


def billing() -> GroupRegistry:
    registry = GroupRegistry()
    return written(registry, registry.make("billing", 7))


def test_a_command_changes_nothing_before_its_entry_is_applied() -> None:
    registry = GroupRegistry()
    entry = registry.make("billing", 7)
    assert len(registry) == 0
    registry.apply(entry)
    assert registry.group("billing").id == 7


def test_a_group_keeps_what_was_said_of_it() -> None:
    registry = billing()
    settings = GroupSettings(max_deliveries=9)
    written(
        registry,
        registry.fix("billing", settings),
        registry.reserve("billing", 1_000),
        registry.begin("billing", SeenTopic("orders", FIRST, 3, "latest")),
    )
    group = registry.group("billing")
    assert (group.settings, group.generation) == (settings, 1_000)
    assert [group.topics["orders"].start_of(number) for number in (0, 2, 3)] == ["latest", "latest", "earliest"]


def test_generations_never_fall() -> None:
    registry = billing()
    written(registry, registry.reserve("billing", 2_000))
    written(registry, registry.reserve("billing", 1_000))
    assert registry.group("billing").generation == 2_000


def test_the_end_of_a_topic_is_not_that_of_its_successor() -> None:
    registry = billing()
    written(registry, registry.begin("billing", SeenTopic("orders", FIRST, 1, "earliest")))
    late = registry.cease("billing", "orders", FIRST)
    written(registry, registry.begin("billing", SeenTopic("orders", SECOND, 1, "earliest")), late)
    assert registry.group("billing").topics["orders"].uuid == SECOND
    written(registry, registry.cease("billing", "orders", SECOND))
    assert registry.group("billing").topics == {}


def test_a_removed_group_is_remembered_until_its_partitions_have_heard_of_it() -> None:
    registry = billing()
    written(
        registry, registry.begin("billing", SeenTopic("orders", FIRST, 1, "earliest")), registry.remove("billing")
    )
    assert [group.name for group in registry.leaving()] == ["billing"]
    with pytest.raises(UnknownGroup):
        registry.group("billing")
    written(registry, registry.forget("billing", 7))
    assert registry.leaving() == []


def test_a_group_made_again_leaves_what_is_left_of_the_old_one_to_be_forgotten() -> None:
    """A partition that was down has the old one's ledger still: it is not to come back as a group."""
    registry = billing()
    written(registry, registry.remove("billing"))
    written(registry, registry.make("billing", 8))
    assert (registry.group("billing").id, [group.id for group in registry.leaving()]) == (8, [7])
    written(registry, registry.remove("billing"), registry.forget("billing", 7))
    assert [group.id for group in registry.leaving()] == [8]
    written(registry, {"v": 1, "kind": "forgotten", "group": "billing"})  # as older ones are
    assert registry.leaving() == []


@pytest.mark.parametrize("name", ["", ".", "a/b", "__redrive", "x" * 197, None, 5])
def test_bad_names_are_refused(name: object) -> None:
    with pytest.raises(InvalidName):
        GroupRegistry().make(name, 1)


def test_commands_that_do_not_fit_are_refused() -> None:
    registry = billing()
    with pytest.raises(GroupConflict):
        registry.make("billing", 9)
    with pytest.raises(UnknownGroup):
        registry.fix("audit", GroupSettings())
    with pytest.raises(InvalidConfig):
        registry.begin("billing", SeenTopic("orders", FIRST, 1, "noon"))


def test_there_is_a_limit_to_groups() -> None:
    registry = GroupRegistry()
    for number in range(GROUPS_MAX):
        registry.apply(registry.make(f"group-{number}", number))
    with pytest.raises(GroupConflict, match="delete some"):
        registry.make("one-more", 1)


@pytest.mark.parametrize("start", ["earliest", "latest", "offset:0", "offset:17", "time:1700000000000000"])
def test_where_a_group_may_begin(start: str) -> None:
    assert check_start(start) == start


@pytest.mark.parametrize("start", ["", "Earliest", "offset:", "offset:-1", "time:1.5", "offset:1 ", None, 5])
def test_where_a_group_may_not_begin(start: object) -> None:
    with pytest.raises(InvalidConfig, match="must be"):
        check_start(start)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {},
        {"v": 2, "kind": "made", "group": "a", "id": 1},
        {"v": 1, "kind": "unheard", "group": "a"},
        {"v": 1, "kind": [], "group": "a"},
        {"v": 1, "kind": "made"},
        {"v": 1, "kind": "made", "group": "../up", "id": 1},
        {"v": 1, "kind": "fixed", "group": "nobody", "settings": {}},
        {"v": 1, "kind": "fixed", "group": "billing", "settings": {"max_deliveries": -1}},
        {"v": 1, "kind": "began", "group": "billing", "seen": ["orders", "no uuid", 1, "earliest"]},
        {"v": 1, "kind": "began", "group": "billing", "seen": ["orders"]},
        {"v": 1, "kind": "snapshot", "group": "", "groups": [["billing"]], "leaving": []},
    ],
)
def test_an_entry_that_cannot_be_read_changes_nothing(entry: object) -> None:
    registry = billing()
    before = registry.snapshot()
    with pytest.raises(UnknownFormat):
        registry.apply(entry)
    assert registry.snapshot() == before


NAMES = st.sampled_from(["a", "b", "c"])
COMMANDS = st.lists(st.tuples(st.sampled_from(["make", "fix", "reserve", "begin", "cease", "remove"]), NAMES))


@given(COMMANDS, st.integers(0, 20))
def test_a_replay_from_any_snapshot_on_gives_the_same_groups(commands: list[tuple[str, str]], cut: int) -> None:
    registry, entries = GroupRegistry(), list[dict[str, Any]]()
    for number, (command, name) in enumerate(commands):
        try:
            entry = _entry(registry, command, name, number)
        except (GroupConflict, UnknownGroup):
            continue
        if len(entries) == cut:
            entries.append(registry.snapshot())
        registry.apply(entry)
        entries.append(entry)
    first = next((place for place, entry in enumerate(entries) if entry["kind"] == "snapshot"), 0)
    again = written(GroupRegistry(), *entries[first:])
    assert (list(again), again.leaving()) == (list(registry), registry.leaving())


def _entry(registry: GroupRegistry, command: str, name: str, number: int) -> dict[str, Any]:
    match command:
        case "make":
            return registry.make(name, number)
        case "fix":
            return registry.fix(name, GroupSettings(max_deliveries=number))
        case "reserve":
            return registry.reserve(name, number)
        case "begin":
            return registry.begin(name, SeenTopic(f"topic-{number % 2}", UUID(int=number), number, "latest"))
        case "cease":
            return registry.cease(name, "topic-0", UUID(int=number - 1 if number else 0))
    return registry.remove(name)


def test_a_group_that_may_have_been_lost_begins_above_every_generation_that_it_gave_out() -> None:
    """G10: its members of before may still be there."""
    registry = GroupRegistry()
    written(registry, registry.doubt(), registry.mend(1_700_000_000))
    written(registry, registry.make("billing", 1), registry.mend(1_600_000_000), registry.make("audit", 2))
    again = GroupRegistry()
    again.apply(registry.snapshot())
    written(again, again.make("later", 3))
    assert {each.generation for each in again} == {1_700_000_000}

"""Topics and groups as one machine: what a start finds is what was there, wherever a snapshot stands."""

from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.groups.registry import GroupRegistry, RegistryEntry, SeenTopic
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.metadata.metadata import BrokerMetadata, group_record, with_groups
from goqueue.core.topics.metadata import Metadata, MetadataRecord
from goqueue.errors import GoQueueError, UnknownFormat

FIRST = UUID(int=1)


def over_the_log(record: MetadataRecord) -> MetadataRecord:
    unpacked: MetadataRecord = msgpack.unpackb(msgpack.packb(record))
    return unpacked


def replayed(*records: MetadataRecord) -> BrokerMetadata:
    metadata = BrokerMetadata()
    for record in records:
        metadata.apply(over_the_log(record))
    return metadata


def orders() -> MetadataRecord:
    return Metadata().create_topic("orders", 3, {}, FIRST)


def billing() -> MetadataRecord:
    return group_record(GroupRegistry().make("billing", 7))


def test_topics_and_groups_stand_in_one_log() -> None:
    metadata = replayed(orders(), billing())
    assert [topic.name for topic in metadata.topics] == ["orders"]
    assert metadata.groups.group("billing").id == 7


def test_a_record_of_a_group_is_its_entry_as_it_is() -> None:
    assert billing() == {
        "v": 1,
        "kind": "group",
        "entry": {"v": 1, "kind": "made", "group": "billing", "id": 7},
    }


def test_only_changes_of_topics_are_told() -> None:
    metadata = replayed(orders())
    assert metadata.apply(billing()) == []
    assert len(metadata.apply(metadata.topics.delete_topic("orders"))) == 1


def test_a_log_that_never_spoke_of_groups_does_not_claim_in_a_snapshot_that_there_are_none() -> None:
    """Else the groups of an older data directory would never be imported."""
    metadata = replayed(orders())
    assert not metadata.has_groups
    assert "groups" not in metadata.snapshot()
    assert not replayed(metadata.snapshot()).has_groups


def test_a_register_without_groups_counts_as_imported() -> None:
    metadata = replayed(with_groups(replayed(orders()).snapshot(), GroupRegistry().snapshot()))
    assert metadata.has_groups
    assert replayed(metadata.snapshot()).has_groups


def test_a_snapshot_stands_for_topics_and_groups_before_it() -> None:
    metadata = replayed(orders(), billing())
    metadata.apply(BrokerMetadata().snapshot())
    assert (list(metadata.topics), list(metadata.groups), metadata.has_groups) == ([], [], False)


def test_the_doubt_about_groups_survives_until_somebody_has_looked() -> None:
    metadata = replayed(billing())
    metadata.apply(group_record(metadata.groups.doubt()))
    assert replayed(metadata.snapshot()).groups.is_doubtful
    metadata.apply(group_record(metadata.groups.mend(7)))
    assert not replayed(metadata.snapshot()).groups.is_doubtful
    assert "doubtful" not in metadata.snapshot()["groups"]


def test_what_a_newer_goqueue_said_in_a_snapshot_is_said_again() -> None:
    metadata = replayed(replayed(orders(), billing()).snapshot() | {"level": 3})
    assert metadata.snapshot()["level"] == 3
    assert [group.name for group in metadata.groups] == ["billing"]


MADE = billing()
SNAPSHOT = replayed(orders(), billing()).snapshot()


@pytest.mark.parametrize(
    "record",
    [
        None,
        7,
        MADE | {"v": 2},
        MADE | {"v": True},
        MADE | {"kind": "groups"},
        MADE | {"kind": ["group"]},
        MADE | {"entry": None},
        {"v": 1, "kind": "group"},
        MADE | {"entry": {"v": 2, "kind": "made", "group": "audit", "id": 1}},
        MADE | {"entry": {"v": 1, "kind": "fixed", "group": "nobody", "settings": {}}},
        SNAPSHOT | {"groups": None},
        SNAPSHOT | {"groups": {"v": 1, "kind": "snapshot", "group": "", "groups": [["a"]], "leaving": []}},
        SNAPSHOT | {"topics": [7]},
    ],
    ids=str,
)
def test_a_record_that_this_version_could_not_have_written_stops_and_changes_nothing(record: object) -> None:
    """G13"""
    metadata = replayed(Metadata().create_topic("bills", 1, {}, UUID(int=9)), group_record(_made("audit", 1)))
    before = metadata.snapshot()
    with pytest.raises(UnknownFormat):
        metadata.apply(record)
    assert metadata.snapshot() == before


def _made(name: str, group_id: int) -> RegistryEntry:
    return GroupRegistry().make(name, group_id)


names = st.sampled_from(["a", "b", "c"])
commands = st.lists(
    st.tuples(
        st.sampled_from(["create", "alter", "delete", "make", "fix", "begin", "remove", "doubt", "mend"]), names
    ),
    max_size=30,
)


def record_of(metadata: BrokerMetadata, command: str, name: str, number: int) -> MetadataRecord:
    topics, groups, uuid = metadata.topics, metadata.groups, UUID(int=number)
    match command:
        case "create":
            return topics.create_topic(name, 1 + number, {}, uuid)
        case "alter":
            return topics.alter_topic(name, {"max_messages": 1 + number})
        case "delete":
            return topics.delete_topic(name)
        case "make":
            return group_record(groups.make(name, number))
        case "fix":
            return group_record(groups.fix(name, GroupSettings(max_deliveries=1 + number)))
        case "begin":
            return group_record(groups.begin(name, SeenTopic("orders", uuid, 1, "latest")))
        case "remove":
            return group_record(groups.remove(name))
        case "doubt":
            return group_record(groups.doubt())
        case _:
            return group_record(groups.mend(7))


def state(metadata: BrokerMetadata) -> tuple[MetadataRecord, bool]:
    return metadata.snapshot(), metadata.has_groups


@given(commands, st.integers(0, 30))
def test_a_replay_gives_back_the_live_state_with_a_snapshot_at_any_place(
    commands: list[tuple[str, str]], cut: int
) -> None:
    """G13: a snapshot that replaces too much or too little would show."""
    live, records, at_cut = BrokerMetadata(), list[MetadataRecord](), BrokerMetadata().snapshot()
    for number, (command, name) in enumerate(commands):
        before = state(live)
        try:
            records.append(record_of(live, command, name, number))
        except GoQueueError:
            continue
        finally:
            assert state(live) == before, "a command changes nothing"
        live.apply(records[-1])
        if len(records) == cut:
            at_cut = live.snapshot()
    cut = cut if cut <= len(records) else 0
    assert state(replayed(*records)) == state(live)
    assert state(replayed(at_cut, *records[cut:])) == state(live)
    assert state(replayed(*records[:cut], at_cut, *records[cut:])) == state(live)

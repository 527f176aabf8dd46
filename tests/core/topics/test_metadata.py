"""The state machine behind `__metadata`: what a start finds is what was there."""

from typing import Any
from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.topics.config import TopicConfig
from goqueue.core.topics.metadata import (
    DELETED_MAX,
    PARTITIONS_MAX,
    KnownTopic,
    Metadata,
    MetadataChange,
    MetadataRecord,
)
from goqueue.errors import GoQueueError, InvalidConfig, InvalidName, TopicExists, UnknownFormat, UnknownTopic

FIRST, SECOND = UUID(int=1), UUID(int=2)


def over_the_log(record: MetadataRecord) -> MetadataRecord:
    """As it is read again."""
    unpacked: MetadataRecord = msgpack.unpackb(msgpack.packb(record))
    return unpacked


def replayed(*records: MetadataRecord) -> Metadata:
    metadata = Metadata()
    for record in records:
        metadata.apply(over_the_log(record))
    return metadata


def with_orders(partitions: int = 3, **config: Any) -> Metadata:
    return replayed(Metadata().create_topic("orders", partitions, config, FIRST))


def test_a_command_changes_nothing_until_its_record_is_applied() -> None:
    metadata = Metadata()
    record = metadata.create_topic("orders", 3, {"max_messages": 7}, FIRST)
    assert metadata.find("orders") is None
    topic = KnownTopic("orders", FIRST, 3, TopicConfig(max_messages=7))
    assert metadata.apply(record) == [MetadataChange(None, topic)]
    assert metadata.topic("orders") == topic


def test_a_record_is_a_plain_map_that_says_its_version() -> None:
    record = Metadata().create_topic("orders", 3, {}, FIRST)
    assert record == {
        "v": 1,
        "kind": "create_topic",
        "name": "orders",
        "uuid": "00000000-0000-0000-0000-000000000001",
        "partitions": 3,
        "config": TopicConfig().to_plain(),
    }


def test_a_topic_that_exists_is_not_made_again() -> None:
    with pytest.raises(TopicExists, match="orders"):
        with_orders().create_topic("orders", 3, {}, SECOND)


def test_a_topic_made_again_has_another_uuid_and_late_records_do_not_touch_it() -> None:
    metadata = with_orders()
    late = metadata.alter_topic("orders", {"max_messages": 1})
    metadata.apply(metadata.delete_topic("orders"))
    metadata.apply(metadata.create_topic("orders", 1, {}, SECOND))
    with pytest.raises(UnknownFormat, match="not there"):
        metadata.apply(late)
    assert metadata.topic("orders") == KnownTopic("orders", SECOND, 1, TopicConfig())


@pytest.mark.parametrize("partitions", [0, -1, PARTITIONS_MAX + 1, 2**70, 1.0, "3", None, True])
def test_a_topic_has_1_to_10000_partitions(partitions: object) -> None:
    with pytest.raises(InvalidConfig, match="1 to 10,000"):
        Metadata().create_topic("orders", partitions, {}, FIRST)
    with pytest.raises(InvalidConfig, match="1 to 10,000"):
        with_orders().add_partitions("orders", partitions)


def test_partitions_only_grow() -> None:
    """G4: keys would lose their partition, and messages their log."""
    metadata = with_orders(3)
    with pytest.raises(InvalidConfig, match="cannot shrink to 2"):
        metadata.add_partitions("orders", 2)
    for total in (3, 4, PARTITIONS_MAX):
        [change] = metadata.apply(metadata.add_partitions("orders", total))
        assert change.after == metadata.topic("orders")
        assert metadata.topic("orders").partitions == total


def test_altering_keeps_what_is_not_named() -> None:
    metadata = with_orders(max_messages=7, cleanup="compact")
    metadata.apply(metadata.alter_topic("orders", {"max_messages": None, "segment_hours": 1}))
    assert metadata.topic("orders").config == TopicConfig(cleanup="compact", segment_hours=1)


def test_unknown_topics_are_named_with_a_near_one() -> None:
    metadata = with_orders()
    for command in (
        lambda: metadata.topic("order"),
        lambda: metadata.delete_topic("order"),
        lambda: metadata.alter_topic("order", {}),
        lambda: metadata.add_partitions("order", 9),
    ):
        with pytest.raises(UnknownTopic, match=r"no topic 'order' \(there is 'orders'\)"):
            command()


def test_internal_topics_are_for_the_broker_alone() -> None:
    metadata = Metadata()
    with pytest.raises(InvalidName):
        metadata.create_topic("__groups", 1, {}, FIRST)
    metadata.apply(metadata.create_topic("__groups", 1, {}, FIRST, by_broker=True))
    with pytest.raises(InvalidName):
        metadata.alter_topic("__groups", {})
    with pytest.raises(InvalidName):
        metadata.add_partitions("__groups", 9)
    with pytest.raises(InvalidName):
        metadata.delete_topic("__groups")
    metadata.apply(metadata.delete_topic("__groups", by_broker=True))
    assert len(metadata) == 0


def test_what_a_newer_goqueue_said_is_kept_and_said_again() -> None:
    created = Metadata().create_topic("orders", 3, {}, FIRST)
    created["owner"], created["config"]["colour"] = "billing", "red"
    metadata = replayed(created)
    metadata.apply(metadata.alter_topic("orders", {"max_messages": 7}) | {"reason": "growth"})
    metadata.apply(metadata.add_partitions("orders", 4))
    metadata.apply(metadata.snapshot() | {"taken_by": 3})
    snapshot = replayed(metadata.snapshot()).snapshot()
    assert snapshot["taken_by"] == 3
    [topic] = snapshot["topics"]
    assert (topic["owner"], topic["reason"], topic["config"]["colour"]) == ("billing", "growth", "red")
    assert (topic["partitions"], topic["config"]["max_messages"]) == (4, 7)


def test_a_snapshot_stands_for_all_before_it() -> None:
    metadata = with_orders()
    metadata.apply(metadata.create_topic("bills", 1, {}, SECOND))
    assert list(replayed(metadata.snapshot())) == list(metadata)
    assert metadata.apply(metadata.snapshot()) == []


def test_a_snapshot_taken_elsewhere_says_what_became_of_each_topic() -> None:
    """A changed topic is not deleted and made again: its messages stay."""
    here, there = with_orders(), with_orders()
    here.apply(here.create_topic("old", 1, {}, SECOND))
    old = here.topic("old")
    there.apply(there.alter_topic("orders", {"max_messages": 7}))
    there.apply(there.create_topic("old", 1, {}, UUID(int=3)))
    changes = here.apply(there.snapshot())
    made_again, orders = there.topic("old"), there.topic("orders")
    assert changes == [
        MetadataChange(old, None),
        MetadataChange(None, made_again),
        MetadataChange(with_orders().topic("orders"), orders),
    ]
    assert list(here) == list(there)


GOOD = Metadata().create_topic("orders", 3, {}, FIRST)


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {},
        GOOD | {"v": 2},
        GOOD | {"v": "1"},
        GOOD | {"v": True},
        GOOD | {"kind": "rename_topic"},
        GOOD | {"kind": ["create_topic"]},
        GOOD | {"name": "../orders"},
        GOOD | {"name": 7},
        GOOD | {"uuid": "orders"},
        GOOD | {"uuid": 1},
        GOOD | {"uuid": None},
        GOOD | {"partitions": 0},
        GOOD | {"config": None},
        GOOD | {"config": {"cleanup": "shred"}},
        GOOD | {"kind": "alter_topic", "name": "bills", "config": {"cleanup": "shred"}},
        GOOD | {"kind": "alter_topic"},
        GOOD | {"kind": "add_partitions"},
        GOOD | {"kind": "add_partitions", "name": "bills", "uuid": str(SECOND), "partitions": 1},
        GOOD | {"kind": "delete_topic"},
        GOOD | {"kind": "delete_topic", "name": "bills"},
        GOOD | {"name": "bills"},
        {"v": 1, "kind": "snapshot"},
        {"v": 1, "kind": "snapshot", "topics": [7], "more": 1},
        {"v": 1, "kind": "snapshot", "topics": [GOOD, GOOD], "more": 1},
        {"v": 1, "kind": "snapshot", "topics": [], "deleted": "all"},
        {"v": 1, "kind": "snapshot", "topics": [], "deleted": ["orders"]},
        GOOD | {"token": "mine"},
    ],
    ids=str,
)
def test_a_record_that_this_version_could_not_have_written_stops_and_changes_nothing(record: object) -> None:
    """G13: guessing at a record could lose a topic, or bring a deleted one back."""
    metadata = replayed(Metadata().create_topic("bills", 2, {}, SECOND))
    before = metadata.snapshot()
    with pytest.raises(UnknownFormat):
        metadata.apply(record)
    assert metadata.snapshot() == before


names = st.sampled_from(["a", "b", "c", "a.dlq", "__x", "no/name"])
configs = st.sampled_from([{}, {"max_messages": 5}, {"max_messages": None}, {"cleanup": "shred"}, {"colour": 1}])
commands = st.lists(
    st.one_of(
        st.tuples(st.just("create"), names, st.integers(0, 5), configs),
        st.tuples(st.just("alter"), names, st.just(0), configs),
        st.tuples(st.just("add"), names, st.integers(0, 8), st.just({})),
        st.tuples(st.just("delete"), names, st.just(0), st.just({})),
    ),
    max_size=25,
)
Command = tuple[str, str, int, dict[str, Any]]
Model = dict[str, tuple[UUID, int, int | None]]
"""By name: UUID, partitions, max_messages."""


def ask(metadata: Metadata, command: Command, uuid: UUID) -> MetadataRecord:
    verb, name, partitions, config = command
    if verb == "create":
        return metadata.create_topic(name, partitions, config, uuid)
    if verb == "alter":
        return metadata.alter_topic(name, config)
    if verb == "add":
        return metadata.add_partitions(name, partitions)
    return metadata.delete_topic(name)


def refusal(model: Model, command: Command) -> type[GoQueueError] | None:
    """What the model says of a command, in the order in which a person would notice."""
    verb, name, partitions, config = command
    if name in ("__x", "no/name"):
        return InvalidName
    if (name in model) == (verb == "create"):
        return TopicExists if verb == "create" else UnknownTopic
    bad_number = verb in ("create", "add") and not 1 <= partitions <= PARTITIONS_MAX
    shrinks = verb == "add" and name in model and partitions < model[name][1]
    return InvalidConfig if bad_number or shrinks or config.keys() & {"colour", "cleanup"} else None


def perform(model: Model, command: Command, uuid: UUID) -> None:
    verb, name, partitions, config = command
    if verb == "create":
        model[name] = (uuid, partitions, config.get("max_messages"))
    elif verb == "alter":
        old = model[name]
        model[name] = (old[0], old[1], config.get("max_messages", old[2]))
    elif verb == "add":
        model[name] = (model[name][0], partitions, model[name][2])
    else:
        del model[name]


def seen(metadata: Metadata) -> Model:
    return {topic.name: (topic.uuid, topic.partitions, topic.config.max_messages) for topic in metadata}


@given(commands)
def test_any_row_of_commands_does_what_a_plain_dict_would(commands: list[Command]) -> None:
    metadata, model = Metadata(), Model()
    for number, command in enumerate(commands):
        expected = refusal(model, command)
        before = metadata.snapshot()
        if expected is not None:
            with pytest.raises(expected):
                ask(metadata, command, UUID(int=number))
            assert metadata.snapshot() == before
            continue
        record = ask(metadata, command, UUID(int=number))
        assert metadata.snapshot() == before
        metadata.apply(record)
        perform(model, command, UUID(int=number))
        assert seen(metadata) == model


@given(commands, st.integers(0, 25))
def test_a_replay_gives_back_the_live_state_with_or_without_a_snapshot(commands: list[Command], cut: int) -> None:
    """Topic settings survive a restart; a snapshot at any place stands for the records before it."""
    live, records, at_cut = Metadata(), list[MetadataRecord](), Metadata().snapshot()
    for number, command in enumerate(commands):
        try:
            records.append(ask(live, command, UUID(int=number)))
        except GoQueueError:
            continue
        live.apply(records[-1])
        if len(records) == cut:
            at_cut = live.snapshot()
    cut = cut if cut <= len(records) else 0
    assert replayed(*records).snapshot() == live.snapshot()
    assert replayed(at_cut, *records[cut:]).snapshot() == live.snapshot()
    assert replayed(*records[:cut], at_cut, *records[cut:]).snapshot() == live.snapshot()


def test_the_token_of_a_topic_is_kept_and_tells_a_repeat_from_another_request() -> None:
    metadata, token = Metadata(), UUID(int=77)
    record = metadata.create_topic("orders", 1, {}, UUID(int=1), token=token)
    metadata.apply(record)
    made = metadata.topic("orders")
    metadata.apply(metadata.alter_topic("orders", {"retention_hours": 7}))
    for known in (metadata, replayed(metadata.snapshot())):
        found = known.made_by("orders", token)
        assert found is not None
        assert (found.uuid, found.token) == (made.uuid, token)
        assert known.made_by("orders", UUID(int=78)) is None
        assert known.made_by("others", token) is None
    assert Metadata().made_by("orders", None) is None


def test_a_topic_without_a_token_is_written_as_ever() -> None:
    metadata = Metadata()
    record = metadata.create_topic("orders", 1, {}, UUID(int=1))
    assert "token" not in record
    metadata.apply(record)
    assert metadata.made_by("orders", None) is None


def test_a_delete_that_names_another_uuid_touches_nothing() -> None:
    metadata = Metadata()
    metadata.apply(metadata.create_topic("orders", 1, {}, UUID(int=1)))
    with pytest.raises(UnknownTopic, match="made again"):
        metadata.delete_topic("orders", UUID(int=2))
    assert metadata.delete_topic("orders", UUID(int=1))["uuid"] == str(UUID(int=1))


def test_the_topics_deleted_last_are_remembered_and_the_oldest_forgotten_first() -> None:
    metadata = Metadata()
    for number in range(DELETED_MAX + 1):
        metadata.apply(metadata.create_topic("orders", 1, {}, UUID(int=number)))
        metadata.apply(metadata.delete_topic("orders"))
    for known in (metadata, replayed(metadata.snapshot())):
        assert not known.is_deleted(UUID(int=0))
        assert all(known.is_deleted(UUID(int=number)) for number in range(1, DELETED_MAX + 1))
        assert len(known.snapshot()["deleted"]) == DELETED_MAX


def test_a_topic_missing_from_a_snapshot_was_deleted() -> None:
    metadata = Metadata()
    metadata.apply(metadata.create_topic("orders", 1, {}, UUID(int=1)))
    metadata.apply(Metadata().snapshot())
    assert metadata.is_deleted(UUID(int=1))

"""Every kind of request has a rule: what it needs, and whether the audit shows it."""

from typing import Any

import pytest
from hypothesis import given

from goqueue.core.security.audit import DONE, Requester, line
from goqueue.core.security.principals import ANONYMOUS
from goqueue.core.security.rights import RULES, Permission, Resource, Right, authorise
from goqueue.net.wire import delays, groups, letters, messages, schemas
from goqueue.net.wire.kinds import ANSWERS, KIND_NAMES
from tests.net import bodies
from tests.net.strategies import any_request

UUID, OTHER = bytes(16), bytes(range(16))
REQUESTER = Requester(ANONYMOUS, None, 1, "7")


def needs(request: Any) -> list[tuple[str, str, str | bytes | None]]:
    found = RULES[KIND_NAMES[type(request)]].needs(request)
    return [(need.right.value, need.resource.value, need.name) for need in found]


def test_every_kind_of_request_has_a_rule_and_every_rule_a_kind() -> None:
    assert set(RULES) == {KIND_NAMES[request] for request in ANSWERS}


@given(any_request)
def test_a_rule_can_be_asked_about_any_request(request: Any) -> None:
    kind = KIND_NAMES[type(request)]
    authorise(ANONYMOUS, kind, request)
    found = list(RULES[kind].needs(request))
    for need in found:
        assert isinstance(need, Permission)
        assert isinstance(need.right, Right)
        assert isinstance(need.resource, Resource)
        assert need.name is None or isinstance(need.name, str | bytes)
    if RULES[kind].is_audited(request):
        text = line(REQUESTER, kind, request, DONE, lambda _: None)
        assert text.isascii()
        assert text.isprintable()


def test_a_kind_without_a_rule_is_not_served() -> None:
    with pytest.raises(AssertionError, match="has no rule"):
        authorise(ANONYMOUS, "teleport", None)


def batch(topic: bytes) -> messages.ProduceBatch:
    return messages.ProduceBatch(topic, 0, 0, 0, 0, 0, 0, 1, b"")


def test_a_publish_needs_each_of_its_topics_once() -> None:
    request = messages.Produce(1, (batch(UUID), batch(UUID), batch(OTHER)))
    assert needs(request) == [("publish", "topic", UUID), ("publish", "topic", OTHER)]


def test_a_member_of_a_stream_consumes_what_a_reader_reads() -> None:
    fetch = messages.Fetch(0, 1, (messages.FetchPartition(UUID, 0, 0, 0),))
    for reader in (fetch, fetch._replace(group="g"), fetch._replace(member="m")):
        assert needs(reader) == [("read", "topic", UUID)]
    assert needs(fetch._replace(group="g", member="m")) == [("consume", "group", "g"), ("consume", "topic", UUID)]


def test_a_receipt_is_no_right() -> None:
    assert needs(groups.Settle("g", ())) == [("consume", "group", "g")]


def test_a_redrive_needs_the_dead_letters_and_where_they_go() -> None:
    assert needs(letters.Redrive("orders", "g")) == [("read", "topic", "orders.dlq"), ("consume", "group", "g")]
    assert needs(letters.Redrive("orders"))[1] == ("consume", "group", None), "of all groups"
    assert needs(letters.Redrive("orders", to="other"))[2:] == [("publish", "topic", "other")]
    assert needs(letters.Redrive("orders", all_groups=True))[2:] == [("publish", "topic", "orders")]
    assert needs(letters.Dismiss("orders", "g")) == [("read", "topic", "orders.dlq"), ("consume", "group", "g")]


def test_to_count_dead_letters_is_less_than_to_see_them() -> None:
    assert needs(letters.CountLetters("orders")) == [("describe", "topic", "orders.dlq")]
    assert needs(letters.FindDecisions("orders", 0, 0, 1)) == [("read", "topic", "orders.dlq")]


def test_a_schema_is_registered_by_right_of_its_subject_and_shows_what_it_refers_to() -> None:
    reference = schemas.SchemaReference("customer.json", "customers", 1)
    schema = schemas.SchemaBody("{}", references=(reference, reference._replace(version=2)))
    asked = schemas.RegisterSchema("orders", schema)
    assert needs(asked) == [("register", "subject", "orders"), ("read", "subject", "customers")]
    for forced in (asked._replace(force=True), asked._replace(id=7), asked._replace(version=7)):
        assert needs(forced)[:2] == [("alter", "subject", "orders"), ("register", "subject", "orders")]
    assert needs(schemas.CheckSchema("orders", schema))[1:] == [("read", "subject", "customers")]


def test_a_schema_that_is_named_by_its_id_needs_nothing() -> None:
    assert needs(schemas.GetSchema("orders")) == [("read", "subject", "orders")]
    assert needs(schemas.GetSchema("orders", id=7)) == needs(schemas.GetSchema(guid=UUID)) == []


def test_the_settings_of_all_subjects_are_read_by_all_and_changed_by_those_who_may_alter_all() -> None:
    assert needs(schemas.ReadSchemaSettings(None)) == []
    assert needs(schemas.ReadSchemaSettings("orders")) == [("read", "subject", "orders")]
    assert needs(schemas.ChangeSchemaSettings(None)) == [("alter", "subject", None)]


def test_the_audit_says_that_a_check_was_skipped() -> None:
    asked = schemas.RegisterSchema("orders", schemas.SchemaBody("{}"))
    assert '"force"' not in line(REQUESTER, "register_schema", asked, DONE, lambda _: None)
    assert '"force": true' in line(REQUESTER, "register_schema", asked._replace(force=True), DONE, lambda _: None)


COMMIT = bodies.commit("g", None, 0, (groups.CommitPartition(UUID, 0, 5),))
AUDITED = [
    messages.CreateTopic("orders", 1, {}),
    messages.AlterTopic("orders", {}),
    messages.AddPartitions("orders", 3),
    messages.DeleteTopic("orders"),
    messages.Purge("orders"),
    messages.DeleteBefore("orders", 0, 5),
    messages.RestorePartition("orders", 0, accept_loss=True),
    messages.TakeSnapshot(),
    groups.AlterGroup("g", {}),
    groups.DeleteGroup("g"),
    groups.ResetGroup("g", None, None, "latest"),
    groups.SkipDamaged("g", "orders", 0, 0, 1),
    letters.Redrive("orders"),
    letters.Dismiss("orders"),
    COMMIT,
    delays.CancelDelayed(UUID, 0, 5),
    delays.MoveDelayed(UUID, 0, 5, 1, None),
    schemas.RegisterSchema("orders", schemas.SchemaBody("{}")),
    schemas.DeleteSchema("orders"),
    schemas.ChangeSchemaSettings(None, level="NONE"),
]
DRY = [
    messages.RestorePartition("orders", 0, accept_loss=False),
    groups.ResetGroup("g", None, None, "latest", dry_run=True),
    groups.SkipDamaged("g", "orders", 0, 0, 1, dry_run=True),
    letters.Redrive("orders", dry_run=True),
    letters.Dismiss("orders", dry_run=True),
    COMMIT._replace(member="m"),
]


def is_audited(request: Any) -> bool:
    return RULES[KIND_NAMES[type(request)]].is_audited(request)


def test_the_audit_shows_what_operators_change_and_not_how_messages_flow() -> None:
    assert all(map(is_audited, AUDITED))
    assert not any(map(is_audited, DRY))
    shown = {type(request) for request in AUDITED}
    others = {KIND_NAMES[kind] for kind in ANSWERS if kind not in shown}
    assert others == {
        "describe_topics",
        "init_producer",
        "produce",
        "fetch",
        "offset_at_time",
        "stats",
        "check_health",
        "join_group",
        "heartbeat",
        "leave_group",
        "receive",
        "settle",
        "describe_groups",
        "ask_offsets",
        "why",
        "list_delayed",
        "find_delayed",
        "count_delayed",
        "count_letters",
        "find_decisions",
        "look_up_schema",
        "get_schema",
        "list_subjects",
        "list_versions",
        "list_schemas",
        "find_uses",
        "find_referrers",
        "check_schema",
        "read_schema_settings",
        "count_schemas",
        "fetch_registry",
    }

"""What the members of a group have in common, and how faults and differences are told (G14)."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.groups.settings import SETTINGS, GroupSettings, ledger_settings
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.errors import InvalidConfig

plain_settings = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["queue", "stream"]),
        "shared": st.booleans(),
        "key_order": st.booleans(),
        "lanes": st.sampled_from(["weighted", "strict"]),
        "max_deliveries": st.integers(0, 1_000_000),
        "assignor": st.sampled_from(["sticky", "range", "roundrobin"]),
        "rebalance": st.sampled_from(["cooperative", "eager"]),
        "retry_first": st.floats(0, 43_200),
        "retry_longest": st.integers(0, 43_200),
        "retry_jitter": st.floats(0, 1),
        "of_a_later_version": st.integers(),
    },
)


def faults_of(plain: object) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        GroupSettings.from_plain(plain)
    return list(caught.value.details["faults"])


def test_the_defaults_are_those_of_the_contract() -> None:
    assert GroupSettings.from_plain({}).to_plain() == {
        "mode": "queue",
        "shared": False,
        "key_order": False,
        "lanes": "weighted",
        "max_deliveries": 3,
        "assignor": "sticky",
        "rebalance": "cooperative",
        "retry_first": 1.0,
        "retry_longest": 60.0,
        "retry_jitter": 0.0,
    }


def test_every_setting_says_what_it_accepts_and_means_and_has_a_good_default() -> None:
    for setting in SETTINGS:
        assert setting.kind.accepts(setting.default)
        assert setting.kind.allowed
        assert setting.meaning.endswith(".")


def test_all_faults_are_told_at_once() -> None:
    plain = {"mode": "stream", "shared": True, "key_order": 1, "max_deliveries": -1, "assignor": "fair", "later": 1}
    assert faults_of(plain) == [
        "key_order is 1, but must be true or false",
        "max_deliveries is -1, but must be a whole number from 0 to 1,000,000",
        'assignor is \'fair\', but must be "sticky" or "range" or "roundrobin"',
        'shared is true, but a group in mode "stream" cannot have it; use mode "queue"',
    ]


@pytest.mark.parametrize("name", ["shared", "key_order"])
def test_a_stream_is_neither_shared_nor_ordered_by_key(name: str) -> None:
    flag: dict[str, Any] = {name: True}
    assert len(faults_of({"mode": "stream", **flag})) == 1
    assert GroupSettings(**flag).mode == "queue"
    with pytest.raises(InvalidConfig, match=name):
        GroupSettings(**flag).altered({"mode": "stream"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "topic"),
        ("mode", None),
        ("mode", ["queue"]),
        ("shared", "yes"),
        ("lanes", "fair"),
        ("max_deliveries", True),
        ("max_deliveries", 2.0),
        ("max_deliveries", 1_000_001),
        ("rebalance", "lazy"),
        ("retry_first", -1),
        ("retry_longest", float("inf")),
        ("retry_longest", "60"),
        ("retry_jitter", 1.1),
        ("retry_jitter", float("nan")),
        ("retry_jitter", True),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, value: object) -> None:
    [fault] = faults_of({name: value})
    assert fault.startswith(f"{name} is ")


@pytest.mark.parametrize("plain", [None, [], "mode=queue"])
def test_what_is_no_map_is_refused(plain: object) -> None:
    assert "map" in faults_of(plain)[0]
    with pytest.raises(InvalidConfig, match="map"):
        GroupSettings().altered(plain)


def test_altering_changes_what_is_named_resets_by_none_and_refuses_what_is_unknown() -> None:
    settings = GroupSettings(max_deliveries=7, assignor="range")
    assert settings.altered({"max_deliveries": None, "lanes": "strict"}) == GroupSettings(
        assignor="range", lanes="strict"
    )
    with pytest.raises(InvalidConfig, match=r"'asignor' is not a setting of a group \(did you mean 'assignor'\?\)"):
        settings.altered({"asignor": "sticky"})


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        (GroupSettings(mode="stream"), {"lanes": "strict"}),
        (GroupSettings(lanes="strict"), {"mode": "stream"}),
    ],
)
def test_a_stream_is_not_altered_to_lanes_that_it_cannot_have(
    settings: GroupSettings, changes: dict[str, str]
) -> None:
    with pytest.raises(InvalidConfig, match='lanes is "strict", but a group in mode "stream"'):
        settings.altered(changes)


def test_differences_are_told_by_name() -> None:
    one, other = GroupSettings(mode="stream", max_deliveries=5), GroupSettings(assignor="range", max_deliveries=5)
    assert one.conflicts_with(other) == other.conflicts_with(one) == ["mode", "assignor"]
    assert one.conflicts_with(one) == []


@given(plain_settings)
def test_settings_survive_the_wire_and_fields_of_later_versions_are_passed_over(plain: dict[str, Any]) -> None:
    try:
        settings = GroupSettings.from_plain(plain)
    except InvalidConfig:
        assert plain["mode"] == "stream"
        return
    assert GroupSettings.from_plain(msgpack.unpackb(msgpack.packb(settings.to_plain()))) == settings
    assert all(getattr(settings, name) == value for name, value in plain.items() if name != "of_a_later_version")


# Of a member


@given(st.dictionaries(st.sampled_from(["shared", "key_order"]), st.booleans()), st.booleans(), st.booleans())
def test_a_member_asks_for_what_it_gave_and_else_for_what_the_group_has_and_its_defaults_make_a_group(
    given: dict[str, bool], has_settings: bool, key_order: bool
) -> None:
    defaults = {"shared": True, "max_deliveries": 40}
    there = GroupSettings(key_order=key_order, max_deliveries=7) if has_settings else None
    asked = GroupSettings.asked_for(there, given, defaults)
    assert asked == GroupSettings(
        shared=given.get("shared", not has_settings),
        key_order=given.get("key_order", key_order and has_settings),
        max_deliveries=7 if has_settings else 40,
    )


# Of a group's ledgers


def test_a_ledger_has_the_settings_of_its_group() -> None:
    settings = GroupSettings(
        max_deliveries=7, key_order=True, lanes="strict", retry_first=2, retry_longest=9, retry_jitter=0.5
    )
    assert ledger_settings("billing", "orders", settings) == LedgerSettings(
        7, 2.0, 9.0, key_order=True, strict_lanes=True, jitter=0.5
    )


def test_dead_letters_have_no_dead_letters() -> None:
    """However often one is delivered, and whoever rejects it, it stays."""
    found = ledger_settings("billing", "orders.dlq", GroupSettings(max_deliveries=7))
    assert found == LedgerSettings(0, has_dead_letters=False)


def test_the_brokers_own_group_sends_dead_letters_back_by_rejecting_them() -> None:
    found = ledger_settings("__redrive", "orders.dlq", GroupSettings(max_deliveries=7))
    assert found == LedgerSettings(0, has_dead_letters=True)

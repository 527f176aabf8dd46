"""A topic's configuration: what can be set, and how faults are told (G14)."""

from dataclasses import FrozenInstanceError
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.config import HOUR, LogConfig
from goqueue.core.settingstable import UNLIMITED, Choice, Hours, SettingKind, Whole
from goqueue.core.topics.config import SETTINGS, TopicConfig
from goqueue.errors import InvalidConfig, UnknownFormat

NAMES = [setting.name for setting in SETTINGS]


def values_of(kind: SettingKind) -> st.SearchStrategy[Any]:
    """Good plain values."""
    if isinstance(kind, Choice):
        return st.sampled_from(kind.values)
    if isinstance(kind, Whole):
        plain: st.SearchStrategy[Any] = st.integers(kind.least, kind.most)
    else:
        plain = st.integers(1, 1_000_000) | st.floats(1 / 3600, 1e6)
    assert isinstance(kind, Whole | Hours)
    return plain | st.just(UNLIMITED) if kind.or_unlimited else plain


plain_configs = st.fixed_dictionaries({}, optional={row.name: values_of(row.kind) for row in SETTINGS})
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


def faults_of(plain: object) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        TopicConfig.from_plain(plain)
    return list(caught.value.details["faults"])


def test_the_defaults_are_those_of_the_contract() -> None:
    assert TopicConfig.from_plain({}).to_plain() == {
        "retention": "time",
        "retention_hours": 168,
        "retention_bytes": "unlimited",
        "cleanup": "delete",
        "tombstone_hours": 24,
        "segment_bytes": 64 * 1024 * 1024,
        "segment_hours": 24,
        "compression": "none",
        "min_acks": "none",
        "max_message_bytes": 16 * 1024 * 1024,
        "max_bytes": "unlimited",
        "max_messages": "unlimited",
        "overflow": "reject",
        "schema_validation": "on",
        "schema_value_bytes": 256 * 1024,
    }


def test_a_default_topic_has_a_default_log() -> None:
    assert TopicConfig().to_log_config() == LogConfig()


def test_every_setting_says_what_it_accepts_and_means_and_has_a_good_default() -> None:
    for setting in SETTINGS:
        assert setting.kind.accepts(setting.default)
        assert setting.kind.allowed
        assert setting.meaning.endswith(".")


def test_all_faults_are_told_at_once_unknown_names_with_the_nearest_known_one() -> None:
    """G14: a person mends a file in one go."""
    plain = {"retenton_hours": 4, "cleanup": "shred", "segment_bytes": 0, "zzz": 1, "max_messages": 7}
    assert faults_of(plain) == [
        "'retenton_hours' is not a setting (did you mean 'retention_hours'?)",
        f"'zzz' is not a setting (there are {', '.join(NAMES)})",
        'cleanup is \'shred\', but must be "delete" or "compact"',
        "segment_bytes is 0, but must be a whole number from 1,024 to 1,073,741,824",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention", "never"),
        ("retention_hours", 0),
        ("retention_hours", -1),
        ("retention_hours", float("nan")),
        ("retention_hours", float("inf")),
        ("retention_hours", 1_000_001),
        ("retention_hours", True),
        ("retention_hours", "168"),
        ("retention_bytes", 0),
        ("retention_bytes", 1.5),
        ("retention_bytes", 2**63),
        ("cleanup", None),
        ("cleanup", ["compact"]),
        ("segment_hours", UNLIMITED),
        ("segment_bytes", UNLIMITED),
        ("segment_bytes", 1023),
        ("segment_bytes", 1024 * 1024 * 1024 + 1),
        ("compression", "gzip"),
        ("min_acks", "some"),
        ("max_message_bytes", 0),
        ("schema_validation", "maybe"),
        ("schema_value_bytes", 0),
        ("schema_value_bytes", 16 * 1024 * 1024 + 1),
        ("max_message_bytes", 16 * 1024 * 1024 + 1),
        ("max_messages", False),
        ("overflow", "drop"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, value: object) -> None:
    [fault] = faults_of({name: value})
    assert fault.startswith(f"{name} is ")
    with pytest.raises(InvalidConfig):
        TopicConfig().altered({name: value if value is not None else "null"})


@pytest.mark.parametrize("plain", [None, [], "retention_hours=4", 7])
def test_what_is_no_map_is_refused(plain: object) -> None:
    assert "map" in faults_of(plain)[0]
    with pytest.raises(InvalidConfig, match="map"):
        TopicConfig().altered(plain)


def test_none_is_taken_at_creation_only_where_the_default_is_no_limit() -> None:
    """Elsewhere a wrong guess between "the default" and "no limit" would delete data."""
    assert TopicConfig.from_plain({"retention_bytes": None, "max_bytes": None}) == TopicConfig()
    [fault] = faults_of({"retention_hours": None})
    assert "null" in fault
    assert UNLIMITED in fault


def test_unlimited_is_a_word_outside_and_none_inside() -> None:
    config = TopicConfig.from_plain({"retention_hours": "unlimited"})
    assert config.retention_hours is None
    assert config.to_plain()["retention_hours"] == "unlimited"


def test_altering_changes_what_is_named_and_none_resets_it() -> None:
    config = TopicConfig(retention_hours=None, max_messages=5, cleanup="compact")
    altered = config.altered({"retention_hours": None, "max_messages": None, "segment_hours": 2})
    assert altered == TopicConfig(cleanup="compact", segment_hours=2)


def test_a_configuration_can_neither_be_changed_nor_made_wrong() -> None:
    with pytest.raises(FrozenInstanceError):
        TopicConfig().cleanup = "compact"  # type: ignore[misc]
    with pytest.raises(InvalidConfig, match="overflow"):
        TopicConfig(overflow="burst")


def test_the_log_deletes_by_age_and_size() -> None:
    log = TopicConfig(retention_hours=1.5, retention_bytes=9, segment_hours=0.5, segment_bytes=2048).to_log_config()
    assert log == LogConfig(2048, HOUR // 2, HOUR * 3 // 2, 9)
    assert TopicConfig(retention_hours=None).to_log_config().retention_age is None


def test_what_waits_for_acks_does_not_go_by_age_but_stays_bounded_by_bytes() -> None:
    log = TopicConfig(retention="acked", retention_bytes=9).to_log_config()
    assert (log.retention_age, log.retention_bytes) == (None, 9)


def test_the_newest_message_of_a_key_outlives_age_and_size() -> None:
    log = TopicConfig(cleanup="compact", retention_bytes=9, tombstone_hours=2).to_log_config()
    assert (log.retention_age, log.retention_bytes, log.tombstone_age) == (None, None, 2 * HOUR)


@given(plain_configs, plain_configs)
def test_a_good_configuration_survives_the_wire_and_alters_like_a_map(
    plain: dict[str, Any], changes: dict[str, Any]
) -> None:
    config = TopicConfig.from_plain(plain).altered(changes)
    assert config.to_plain() == TopicConfig().to_plain() | plain | changes
    packed = msgpack.unpackb(msgpack.packb(config.to_plain()))
    assert TopicConfig.from_plain(packed) == TopicConfig.from_stored(packed) == config
    config.to_log_config()


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=9), anything))
def test_whatever_comes_is_taken_or_refused_by_name(plain: dict[str, Any]) -> None:
    """G14: and the refusal stays small."""
    try:
        config = TopicConfig.from_plain(plain)
    except InvalidConfig:
        assert all(len(fault) < 400 for fault in faults_of(plain))
    else:
        assert config.to_plain() | {k: v for k, v in plain.items() if v is not None} == config.to_plain()


def test_a_later_versions_settings_are_passed_over_but_not_its_values() -> None:
    assert TopicConfig.from_stored({"colour": "red", "max_messages": 3}) == TopicConfig(max_messages=3)
    with pytest.raises(UnknownFormat, match="lz4"):
        TopicConfig.from_stored({"compression": "lz4"})


def test_huge_names_are_answered_in_few_words() -> None:
    [fault] = faults_of({"retention_hours" * 1_000_000: 1})
    assert len(fault) < 400

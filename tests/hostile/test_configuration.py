"""Settings that nobody means: all faults at once, typed, in sentences, and nothing is opened or bound."""

import json
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.cli import main
from goqueue.core.topics.config import SETTINGS, TopicConfig
from goqueue.core.topics.metadata import Metadata
from goqueue.errors import GoQueueError, InvalidConfig
from goqueue.settings import Settings, flag_of, load

NAMES = list(Settings.model_fields)
serve: ModuleType = import_module("goqueue.cli.serve")
"""The module; the package names its command like that."""
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
numbers = st.integers() | st.just(10**400) | st.integers(-(2**80), 2**80)
oddities = st.sampled_from(
    ["nan", "inf", "-1", "1e999", "٣", "0x10", "１０", "127.0.0.1:٨٠", "[::1]:0", ":::", "5%", "1e3GiB", "9" * 400]
)
texts = oddities | words
toml_values = (
    st.booleans().map(lambda value: "true" if value else "false")
    | numbers.map(str)
    | st.floats().map(repr)
    | texts.map(lambda text: json.dumps(text).replace("\x7f", "?"))
    | st.sampled_from(["[]", "{}", '["a"]', "{a = 1}", "1979-05-27", "nan", "+inf", "0o7", "-0.0", "[[[[[]]]]]"])
)
keys = st.sampled_from([*NAMES, "listn", "conections_max", "data.path", '"a b"', '"\\u0000"', "é"])
toml_lines = st.builds("{} = {}".format, keys, toml_values) | words
toml_files = st.lists(toml_lines, max_size=6).map("\n".join)
environments = st.dictionaries(st.sampled_from(NAMES), texts, max_size=3)
flags = st.dictionaries(st.sampled_from(NAMES), texts, max_size=3)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("GOQUEUE_")]:
        monkeypatch.delenv(name)


def run(arguments: list[str], environment: dict[str, str]) -> Result:
    given_names = {f"GOQUEUE_{name.upper()}": value for name, value in environment.items()}
    return CliRunner().invoke(main, arguments, env=given_names)


def check_told(result: Result) -> None:
    """A sentence for each fault and an exit code; no traceback."""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    assert result.exit_code in (0, 2)
    assert bool(result.exit_code) == (not result.stdout)


@given(toml_files, environments, flags)
@example("connections_max = true\ndisk_free_min = true", {}, {})
@example("connections_max = 1e999\ndisk_free_min = nan", {}, {})
@example("data = 1\ndata = 2", {}, {})
@example("", {}, {"listen": "127.0.0.1:٨٠", "connections_max": "٣"})
@example("[" * 5_000, {}, {})
def test_whatever_the_settings_are_they_hold_or_every_fault_is_told(
    tmp_path: Path, content: str, environment: dict[str, str], given_flags: dict[str, str]
) -> None:
    """G14"""
    file = tmp_path / "goqueue.toml"
    file.write_text(content, encoding="utf-8")
    arguments = [f"{flag_of(name)}={value}" for name, value in given_flags.items()]
    shown = run(["config", "show", "--config", str(file), *arguments, "-o", "json"], environment)
    check_told(shown)
    if shown.exit_code == 0:
        values = {name: row["value"] for name, row in json.loads(shown.stdout).items()}
        assert Settings(**values).model_dump(mode="json") == values
        assert all(type(value) in (str, int, list) for value in values.values())
        return
    data = tmp_path / "data"
    if "data" not in given_flags:
        refused = run(["serve", "--config", str(file), *arguments, f"--data={data}"], environment)
        check_told(refused)
        assert refused.exit_code == 2, "it was refused a moment ago"
    assert not data.exists()


@pytest.mark.parametrize("name", ["connections_max", "disk_free_min"])
@pytest.mark.parametrize("value", ["true", "nan", "-1", "1.5", '"٣"', "[1]", str(10**400)])
def test_what_is_no_number_is_none(tmp_path: Path, name: str, value: str) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text(f"{name} = {value}", encoding="utf-8")
    with pytest.raises(InvalidConfig, match=f"^{name} in .* cannot be used"):
        load({}, str(file))


@given(st.binary(max_size=40))
def test_a_file_of_any_bytes_is_told_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_bytes(content)
    result = run(["config", "show", "--config", str(file)], {})
    check_told(result)
    assert result.exit_code == 0 or str(file) in result.stderr


@given(st.dictionaries(st.sampled_from(NAMES), texts, min_size=1))
def test_each_bad_flag_is_named_beside_the_others(given_flags: dict[str, str]) -> None:
    bad = []
    for name, value in given_flags.items():
        try:
            load({name: value})
        except InvalidConfig:
            bad.append(name)
    if bad:
        with pytest.raises(InvalidConfig) as refusal:
            load(given_flags)
        told = refusal.value.details["faults"]
        assert len(told) == len(bad)
        assert all(any(line.startswith(f"{flag_of(name)} ") for line in told) for name in bad)


anything = st.recursive(
    st.none() | st.booleans() | numbers | st.floats() | texts | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=3,
)
topic_keys = st.sampled_from([setting.name for setting in SETTINGS]) | words
topic_settings = st.dictionaries(topic_keys, anything, max_size=5)


@given(topic_settings)
def test_a_topic_s_settings_hold_or_every_fault_is_told(config: dict[str, Any]) -> None:
    """G14"""
    bad = []
    for key, value in config.items():
        try:
            TopicConfig.from_plain({key: value})
        except InvalidConfig:
            bad.append(key)
    if not bad:
        TopicConfig.from_plain(config)
        return
    with pytest.raises(InvalidConfig) as refusal:
        TopicConfig.from_plain(config)
    assert len(refusal.value.details["faults"]) == len(bad)


@given(words, numbers, topic_settings)
def test_a_topic_of_any_name_and_width_is_made_or_refused_with_its_reason(
    name: str, partitions: int, config: dict[str, Any]
) -> None:
    """G14"""
    metadata = Metadata()
    with suppress(GoQueueError):
        metadata.apply(metadata.create_topic(name, partitions, config, UUID(int=1)))
        assert metadata.topic(name).partitions == partitions
        return
    assert metadata.find(name) is None


def test_connections_leave_half_of_the_descriptors_to_the_logs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A log that cannot open its next segment ends the node, so no crowd may take all of them."""
    monkeypatch.setattr(serve, "descriptors_max", lambda: 1_024)
    assert serve._connections_max(500, 12) == (500, 12)
    assert not caplog.text
    assert serve._connections_max(10_000, 1_000) == (384, 128)
    assert "only 384 websockets and 128 HTTP connections are possible" in caplog.text
    assert serve._connections_max(10_000, 20) == (492, 20)
    assert serve._connections_max(200, 1_000) == (200, 312)

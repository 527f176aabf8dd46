"""Settings: from a file, the environment and flags; all faults at once; `goqueue config show`."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from goqueue.cli import main
from goqueue.core.log.admission import DISK_FREE_MIN
from goqueue.errors import InvalidConfig
from goqueue.settings import Settings, host_and_port, load


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("GOQUEUE_")]:
        monkeypatch.delenv(name)


def show(*arguments: str, environment: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["config", "show", *arguments], env=dict(environment or {}))


def shown(*arguments: str, environment: Mapping[str, str] | None = None) -> dict[str, tuple[str | int, str]]:
    result = show(*arguments, "-o", "json", environment=environment)
    assert result.exit_code == 0, result.stderr
    return {name: (row["value"], row["from"]) for name, row in json.loads(result.stdout).items()}


def test_without_a_word_the_defaults_hold() -> None:
    assert shown() == {
        "data": ("goqueue-data", "default"),
        "listen": ("127.0.0.1:7710", "default"),
        "http": ("127.0.0.1:7711", "default"),
        "node": ("node-1", "default"),
        "disk_free_min": (1024**3, "default"),
        "connections_max": (10_000, "default"),
        "http_connections_max": (1_000, "default"),
        "metrics_series_max": (50_000, "default"),
        "hosts": ([], "default"),
        "origins": ([], "default"),
        "log_level": ("info", "default"),
        "log_format": ("text", "default"),
    }


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text('data = "from-file"\nlisten = "127.0.0.1:1"\nhttp = "127.0.0.1:2"\n')
    environment = {"GOQUEUE_LISTEN": "127.0.0.1:3", "GOQUEUE_HTTP": "127.0.0.1:4"}
    assert shown("--config", str(file), "--http", "localhost:5", environment=environment) == {
        "data": ("from-file", str(file)),
        "listen": ("127.0.0.1:3", "GOQUEUE_LISTEN"),
        "http": ("localhost:5", "--http"),
        "node": ("node-1", "default"),
        "disk_free_min": (1024**3, "default"),
        "connections_max": (10_000, "default"),
        "http_connections_max": (1_000, "default"),
        "metrics_series_max": (50_000, "default"),
        "hosts": ([], "default"),
        "origins": ([], "default"),
        "log_level": ("info", "default"),
        "log_format": ("text", "default"),
    }


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text('node = "seven"\n')
    assert shown(environment={"GOQUEUE_CONFIG": str(file)})["node"] == ("seven", str(file))


def test_a_table_shows_each_setting_its_value_and_who_said_so() -> None:
    rows = [line.split() for line in show("--node", "seven").stdout.splitlines()]
    assert rows[0] == ["SETTING", "VALUE", "FROM"]
    assert ["node", "seven", "--node"] in rows
    assert ["data", "goqueue-data", "default"] in rows
    assert len(rows) == 1 + len(Settings.model_fields)


def test_all_faults_are_told_at_once_also_hidden_ones_and_nothing_is_made(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text('listn = "127.0.0.1:1"\nhttp = 7711\ncolour = "red"\n')
    environment = {"GOQUEUE_DATA": "", "GOQUEUE_NOED": "seven"}
    flags = ["--config", str(file), "--http", "127.0.0.1:0", "--listen", "0.0.0.0:7710", "--node", "a b"]
    data = ["--data", str(tmp_path / "data")]
    result = CliRunner().invoke(main, ["serve", *flags, *data], env=environment)
    assert (result.exit_code, result.stdout) == (2, "")
    told = result.stderr.splitlines()[1:]
    wanted = [
        f"listn in {file} is not a setting (did you mean 'listen'?)",
        f"http in {file} cannot be used",
        f"colour in {file} is not a setting (there are data, listen, http, node, disk_free_min, connections_max,",
        "GOQUEUE_DATA cannot be used",
        "GOQUEUE_NOED is not a setting (did you mean 'node'?)",
        "--listen cannot be used: 0.0.0.0 is beyond loopback",
        "--node cannot be used",
    ]
    assert len(told) == len(wanted)
    for words in wanted:
        assert any(words in line for line in told), words
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("4096", 4096), ("500MB", 500_000_000), ("2GiB", 2 * 1024**3)]
)
def test_the_room_to_leave_on_the_disk_is_bytes_or_a_size(text: str, value: int) -> None:
    assert shown("--disk-free-min", text)["disk_free_min"] == (value, "--disk-free-min")
    found = shown(environment={"GOQUEUE_DISK_FREE_MIN": text})["disk_free_min"]
    assert found == (value, "GOQUEUE_DISK_FREE_MIN")


def test_a_file_says_the_room_to_leave_as_a_number_or_a_size(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    for content, value in (("disk_free_min = 7", 7), ('disk_free_min = "1KiB"', 1024)):
        file.write_text(content)
        assert shown("--config", str(file))["disk_free_min"] == (value, str(file))


@pytest.mark.parametrize("text", ["-1", "much", "", "5%"])
def test_what_is_no_size_is_refused_by_the_flag_s_name(text: str) -> None:
    result = show("--disk-free-min", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--disk-free-min cannot be used" in result.stderr


def test_without_a_word_as_much_stays_free_as_the_engine_wants() -> None:
    assert load({}).settings.disk_free_min == DISK_FREE_MIN


def test_names_of_others_in_the_environment_are_theirs() -> None:
    """A container may set GOQUEUE_PORT and GOQUEUE_SERVICE_HOST for a service of that name."""
    theirs = {
        "GOQUEUE_PORT": "tcp://10.0.0.1:7710",
        "GOQUEUE_SERVICE_HOST": "10.0.0.1",
        "GOQUEUE_URL": "ws://there",
    }
    assert show(environment=theirs).exit_code == 0


@pytest.mark.parametrize("content", [b"data = ", b"\xff", b'[data]\npath = "x"\n', b"data = 1\n"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_bytes(content)
    result = show("--config", str(file))
    assert result.exit_code == 2
    assert str(file) in result.stderr


def test_a_file_that_is_not_there_is_no_empty_file(tmp_path: Path) -> None:
    result = show("--config", str(tmp_path / "missing.toml"))
    assert result.exit_code == 2
    assert "missing.toml" in result.stderr


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "127.0.0.1:", ":7710", "127.0.0.1:65536", "127.0.0.1:-1", "[]:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="is not an address like"):
        load({"listen": text})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com", "127.0.0.1.example.com"])
def test_listening_beyond_loopback_is_refused(host: str) -> None:
    with pytest.raises(InvalidConfig, match="beyond loopback"):
        load({"http": f"[{host}]:7711"})


def test_an_address_has_a_host_and_a_port() -> None:
    assert host_and_port("localhost:0") == ("localhost", 0)
    assert host_and_port("[::1]:7710") == ("::1", 7710)


@pytest.mark.parametrize(
    ("flag", "text"), [("--log-level", "loud"), ("--log-level", "INFO"), ("--log-format", "xml")]
)
def test_another_level_or_form_of_the_log_is_refused(flag: str, text: str) -> None:
    result = show(flag, text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{flag} cannot be used: input should be" in result.stderr


def test_people_see_sizes_with_their_unit_and_lists_as_names() -> None:
    table = [line.split() for line in show("--hosts", "a.shop,b.shop").stdout.splitlines()]
    assert ["disk_free_min", "1GiB", "default"] in table
    assert ["hosts", "a.shop,", "b.shop", "--hosts"] in table
    assert ["origins", "-", "default"] in table
    helped = " ".join(CliRunner().invoke(main, ["serve", "--help"]).stdout.split())
    assert "0 lets them fill it. [default: 1GiB]" in helped
    assert "default: ()" not in helped

"""deploy/goqueue.service: systemd understands it, it is shut off from the rest, and it fits the broker."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from goqueue.actors.node.broker import TOPICS_STOP_SECONDS
from goqueue.cli import main
from goqueue.http.gateway import DRAIN_SECONDS_MAX
from goqueue.settings import PREFIX, Settings

UNIT = Path(__file__).parents[2] / "deploy" / "goqueue.service"
STOP_SECONDS_MAX = 30
"""G15"""
EXPOSURE_MAX = 2.0
"""Of 10, as systemd reckons: an ordinary service has 9."""


def settings(section: str) -> dict[str, list[str]]:
    """The values of each key, in order."""
    found: dict[str, list[str]] = {}
    _, _, rest = UNIT.read_text().partition(f"[{section}]\n")
    for line in rest.partition("\n[")[0].splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def only(key: str) -> str:
    [value] = settings("Service")[key]
    return value


def test_it_starts_a_command_that_there_is() -> None:
    program, command = only("ExecStart").split()
    assert program.endswith("/bin/goqueue")
    assert command in main.list_commands(main.make_context("goqueue", ["--help"], resilient_parsing=True))


def test_it_names_settings_that_there_are() -> None:
    for each in settings("Service")["Environment"]:
        name, _, value = each.partition("=")
        assert name.removeprefix(PREFIX).lower() in Settings.model_fields
        assert value == "/var/lib/" + only("StateDirectory")


def test_the_broker_has_the_time_that_it_may_take_to_stop() -> None:
    """G15: drained, then stopped in order. Systemd kills later."""
    assert only("KillSignal") == "SIGTERM"
    assert DRAIN_SECONDS_MAX + TOPICS_STOP_SECONDS <= STOP_SECONDS_MAX < int(only("TimeoutStopSec"))


def test_descriptors_suffice_for_the_connections_that_are_allowed() -> None:
    allowed = (
        Settings.model_fields["connections_max"].default + Settings.model_fields["http_connections_max"].default
    )
    assert int(only("LimitNOFILE")) >= 2 * allowed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("CapabilityBoundingSet", ""),
        ("Restart", "on-failure"),
        ("User", "goqueue"),
        ("UMask", "0077"),
    ],
)
def test_it_is_shut_off_from_the_rest(key: str, value: str) -> None:
    assert only(key) == value


def test_it_may_speak_tcp_and_sync_asynchronously() -> None:
    assert set(only("RestrictAddressFamilies").split()) == {"AF_INET", "AF_INET6", "AF_UNIX"}
    assert "@system-service" in settings("Service")["SystemCallFilter"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_systemd_understands_it_and_finds_it_tight(tmp_path: Path) -> None:
    """Its program is replaced by one that is there."""
    unit = tmp_path / "goqueue.service"
    unit.write_text(UNIT.read_text().replace(only("ExecStart").split()[0], shutil.which("true") or "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in (verified.stdout + verified.stderr).splitlines() if "goqueue.service" in line]
    assert (verified.returncode, complaints) == (0, [])
    secured = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    exposure = re.search(r"exposure level for goqueue\.service: ([0-9.]+)", secured.stdout)
    assert exposure is not None
    assert float(exposure[1]) <= EXPOSURE_MAX

"""What the files below deploy/ name of metrics and alerts."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
RULE_TESTS = ALERTS.with_name("alerts_test.yml")
FETCHED = Path.home() / ".cache" / "goqueue" / "promtool"
"""Where `./dev test` puts it."""
_METRIC = re.compile(r"\bgoqueue_\w+")


def dashboard(path: Path) -> Any:
    return json.loads(path.read_text())


def expressions(path: Path) -> list[str]:
    """The queries of a dashboard, as Grafana sends them."""
    asked = [target["expr"] for panel in dashboard(path)["panels"] for target in panel["targets"]]
    return [re.sub(r"\$(instance|group)\b", ".*", each).replace("$__rate_interval", "1m") for each in asked]


def metrics_in(text: str) -> set[str]:
    return set(_METRIC.findall(text))


def alerts() -> list[str]:
    return re.findall(r"^ +- alert: (\w+)$", ALERTS.read_text(), re.MULTILINE)


def alert_expressions() -> str:
    """The rules without what they say to people."""
    return re.sub(r"^ +(summary|runbook):.*$", "", ALERTS.read_text(), flags=re.MULTILINE)


def promtool() -> str:
    found = shutil.which("promtool") or (str(FETCHED) if FETCHED.exists() else None)
    if found is None:
        pytest.fail(
            "promtool is missing, and without it nobody knows whether the alerts work: ./dev test fetches it where"
            f" there is apt-get; elsewhere install Prometheus, or put promtool at {FETCHED}"
        )
    return found

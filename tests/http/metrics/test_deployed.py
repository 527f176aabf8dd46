"""The dashboards and alerts of deploy/: what they ask for is there, and each alert fires."""

import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from tests.http.metrics.deployed import (
    ALERTS,
    DASHBOARDS,
    ROOT,
    RULE_TESTS,
    alert_expressions,
    alerts,
    dashboard,
    expressions,
    metrics_in,
    promtool,
)
from tests.http.metrics.driven import a_broker, drive
from tests.http.metrics.scraping import scrape

OPERATIONS = ROOT / "docs" / "operations.md"


def run(*arguments: str | Path, within: Path = ROOT) -> None:
    done = subprocess.run(
        [promtool(), *map(str, arguments)], cwd=within, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def test_a_broker_has_every_metric_that_dashboards_and_alerts_name(autojump_clock: MockClock) -> None:
    named = metrics_in(alert_expressions()).union(*(metrics_in(path.read_text()) for path in DASHBOARDS))
    async with a_broker() as (network, client):
        await drive(client)
        await scrape(network)
        there = {each.name for each in (await scrape(network)).samples}
    assert named - there == set()
    assert len(named) > 60, "else this shows nothing"


def test_each_alert_fires_and_a_sound_broker_raises_none() -> None:
    run("test", "rules", RULE_TESTS.name, within=RULE_TESTS.parent)
    fired = re.findall(r'exp_samples: \[\{labels: \'\{alertname="(\w+)"\}', RULE_TESTS.read_text())
    assert sorted(fired) == sorted(alerts())


def test_each_alert_has_its_paragraph() -> None:
    rules, page = ALERTS.read_text(), OPERATIONS.read_text()
    assert re.findall(r"runbook: (\S+)", rules) == [f"docs/operations.md#{name.lower()}" for name in alerts()]
    section = page[page.index("\n## Alerts\n") :].split("\n## ")[1]
    assert re.findall(r"^### (\w+)$", section, re.MULTILINE) == alerts()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_prometheus_understands_the_queries_of_a_dashboard(path: Path, tmp_path: Path) -> None:
    rules = "".join(
        f"      - {{record: 'a:b', labels: {{n: '{n}'}}, expr: {expr!r}}}\n"
        for n, expr in enumerate(expressions(path))
    )
    (tmp_path / "rules.yml").write_text(f"groups:\n  - name: queries\n    rules:\n{rules}")
    run("check", "rules", tmp_path / "rules.yml")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_the_data_source_that_its_user_chooses(path: Path) -> None:
    board = dashboard(path)
    assert board["uid"] == f"goqueue-{path.stem}"
    assert board["templating"]["list"][0]["type"] == "datasource"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
    places = [panel["gridPos"] for panel in board["panels"]]
    assert not [pair for pair in combinations(places, 2) if _overlap(*pair)]


def _overlap(one: Any, other: Any) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not (beside or above)

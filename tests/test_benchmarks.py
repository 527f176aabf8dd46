"""The benchmarks run end to end at sizes that only show that they run, so that they cannot rot unseen.

Whether a goal is met is not asked here: at such sizes the figures mean nothing.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from itertools import accumulate, count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.bars import shown
from benchmarks.calm import calmest
from benchmarks.figures import Figure, rows_of_page
from benchmarks.peers import plots
from benchmarks.peers.alternation import COUNT_MAX, Row, Sizes, alternate, warm_up
from benchmarks.peers.goals import ratios
from benchmarks.peers.report import Report
from benchmarks.peers.workload import BLOCK, SIZE, What, Workload, Wrong, check_count, check_values

ROOT = Path(__file__).parents[1]
GOALS_MISSED = 1
LEAST = {
    "storage": 10,
    "publish": 10,
    "scale": 10,
    "consume": 8,
    "modes": 10,
    "lanes": 10,
    "delay": 10,
    "http": 13,
    "schema": 9,
}
"""Benchmarks of goqueue alone, and how many figures each has at least."""
SHOWN = ("scale", "consume", "modes", "lanes", "delay", "http", "schema", "rebalance", "spark")
"""Those whose figures the page shows."""


def benchmark(module: str, *options: str | Path, path: str | None = None) -> Any:
    """What it prints as JSON."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--tiny", "-o", "json", *map(str, options)]
    environment = os.environ if path is None else {**os.environ, "PATH": path}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, GOALS_MISSED), done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def absurd(figures: list[Figure]) -> list[Figure]:
    return [figure for figure in figures if not (math.isfinite(figure.value) and figure.value >= 0)]


@pytest.mark.parametrize(("module", "least"), LEAST.items())
def test_a_benchmark_of_goqueue_alone_runs_and_gives_a_figure_for_each_name(module: str, least: int) -> None:
    figures = [Figure(**each) for each in benchmark(module, path="/nowhere")]
    assert len({figure.name for figure in figures}) == len(figures) >= least
    assert absurd(figures) == []


def test_spark_reads_what_was_written_and_gives_a_figure_for_each_name() -> None:
    """With Java, and so with a path; it checks every count and sum by itself."""
    figures = [Figure(**each) for each in benchmark("spark")]
    assert len({figure.name for figure in figures}) == len(figures) >= 7
    assert absurd(figures) == []


def test_goqueue_runs_beside_no_peer_draws_its_plots_and_keeps_its_figures(tmp_path: Path) -> None:
    report = benchmark("peers", "--only", "goqueue", "--plots", tmp_path)
    assert {row["what"] for row in report["rows"]} == {what.value for what in What}
    assert all(row["peer"] == "goqueue" and row["durability"] and row["median"] > 0 for row in report["rows"])
    assert json.loads((tmp_path / "peers.json").read_text()) == report
    assert len([ElementTree.parse(path) for path in tmp_path.glob("*.svg")]) == len(What)


def test_members_of_a_group_come_and_go_and_every_message_is_received(tmp_path: Path) -> None:
    """G5, G10, with real processes: only what does not depend on the machine is held to its goal."""
    figures = [Figure(**each) for each in benchmark("rebalance", "--plots", tmp_path)]
    assert len({figure.name for figure in figures}) == len(figures) >= 20
    assert absurd(figures) == []
    counted = [each for each in figures if each.name.endswith(("never received", "received again, of others"))]
    assert [figure.value for figure in counted] == [0, 0, 0, 0]
    assert [asdict(figure) for figure in figures] == json.loads((tmp_path / "rebalance.json").read_text())[
        "figures"
    ]
    assert ElementTree.parse(tmp_path / "rebalance.svg").getroot().tag.endswith("svg")


def test_a_peer_that_is_not_installed_is_left_out_and_named() -> None:
    report = benchmark("peers", "--only", "redis", "beanstalkd", path="/nowhere")
    assert set(report["left out"]) == {"Redis Streams", "beanstalkd"}
    assert all("not installed" in why for why in report["left out"].values())
    assert report["rows"] == report["ratios"] == []


@pytest.mark.parametrize("peer", ["redis", "nats", "rabbitmq", "beanstalkd"])
def test_a_peer_that_is_installed_publishes_and_is_read_back_and_another_is_named(peer: str) -> None:
    report = benchmark("peers", "--only", peer)
    if why := "".join(report["left out"].values()):
        assert "not installed" in why
        assert report["rows"] == []
        return
    assert {row["what"] for row in report["rows"]} == {what.value for what in What}
    assert all(report["versions"].values())


def test_the_figures_behind_the_page_are_whole() -> None:
    """Plots, page and data are of one run."""
    kept = {path.name: json.loads(path.read_text()) for path in (ROOT / "docs/plots").glob("*.json")}
    page = (ROOT / "docs/performance.md").read_text()
    assert set(kept) == {"peers.json", "natural.json", *(f"{name}.json" for name in SHOWN)}
    for name in (f"{name}.json" for name in SHOWN):
        for line in rows_of_page([Figure(**each) for each in kept[name]["figures"]]):
            assert line in page
    for row in kept["peers.json"]["rows"]:
        drawn = (ROOT / f"docs/plots/{row['what'].replace(' ', '-')}.svg").read_text()
        assert f">{shown(row['median'])}<" in drawn
        assert shown(row["median"]) in page


def workload(key: str, *seconds: float, what: What = What.PUBLISH) -> Workload:
    """One whose runs take so long, the last of them for ever after."""
    left = list(seconds)
    return Workload(key, key, what, "", "", lambda _: left.pop(0) if len(left) > 1 else left[0])


def row(key: str, *runs: float) -> Row:
    return Row(workload(key, 1.0), 1_000, list(runs))


def test_a_ratio_is_the_median_of_the_ratios_within_each_round() -> None:
    """The third round met a busy machine, which both felt."""
    ours, theirs = row("goqueue leader", 400, 500, 40, 450, 420), row("redis", 100, 100, 10, 100, 100)
    [figure] = ratios([ours, theirs])
    assert figure.value == pytest.approx(4.2)
    assert figure.met is True


def test_a_goal_that_is_not_met_makes_the_exit_code_one() -> None:
    missed = ratios([row("goqueue read", 300), row("redis group", 100)])
    assert [figure.met for figure in missed] == [False]
    assert Report({}, {}, {}, [], missed).exit_code() == 1
    met = ratios([row("goqueue single all", 1.0), row("redis single always", 1.0)])
    assert Report({}, {}, {}, [], met).exit_code() == 0


def test_who_failed_a_check_is_named_with_what_it_did() -> None:
    def lose_one(count: int) -> float:
        check_count(count - 1, count, "confirmed")
        return 1.0

    bad = Workload("", "Forgetful", What.PUBLISH, "hope", "", lose_one)
    with pytest.raises(Wrong, match="Forgetful, publish by hope: confirmed: 999 of 1,000"):
        alternate([bad], Sizes(), lambda _: None)


def test_runs_take_turns() -> None:
    order: list[str] = []

    def noted(key: str) -> Workload:
        def run(_: int) -> float:
            order.append(key)
            return 1.0

        return Workload(key, key, What.SINGLE, "", "", run)

    rows = alternate([noted("a"), noted("b")], Sizes(runs=2, singles=1), lambda _: None)
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert [len(each.runs) for each in rows] == [2, 2]


def test_a_warm_up_finds_how_many_messages_take_the_wanted_time() -> None:
    def takes_10_us_each(count: int) -> float:
        return count * 10e-6

    steady = Workload("", "", What.PUBLISH, "", "", takes_10_us_each)
    assert warm_up(steady, Sizes(seconds=2)) == 200_000
    assert warm_up(workload("", 1e-9), Sizes(seconds=2)) == COUNT_MAX


def test_a_run_that_lost_mixed_up_or_changed_a_message_has_no_figure() -> None:
    sound = BLOCK * 2
    check_values(sound, len(sound))
    swapped = [*BLOCK, BLOCK[1], BLOCK[0], *BLOCK[2:]]
    for damaged in (sound[:-1], swapped, [*sound[:-1], bytes(SIZE)]):
        with pytest.raises(Wrong):
            check_values(damaged, len(sound))
    with pytest.raises(Wrong, match="confirmed: 999 of 1,000"):
        check_count(999, 1_000, "confirmed")


def test_values_have_a_hundred_bytes_and_differ() -> None:
    assert {len(value) for value in BLOCK} == {SIZE} == {100}
    assert len(set(BLOCK)) == len(BLOCK)


def test_a_plot_names_every_row_and_its_median() -> None:
    drawn = plots.picture(What.PUBLISH, [row("fast & good", 100_000, 300_000, 200_000), row("slow", 1, 2, 3)])
    texts = [each.text for each in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"fast & good", "200,000", "slow", "2.00"} <= set(texts)


# Calm rounds


def rounds_in_which(taken: list[float]) -> tuple[Callable[[], Awaitable[int]], Callable[[], float]]:
    """Measures the number of its round; and what the host has taken so far."""
    rounds = count()

    async def measure() -> int:
        return next(rounds)

    totals = accumulate(each for lost in taken for each in (0.0, lost))
    return measure, lambda: next(totals)


async def calm(wanted: int, taken: list[float]) -> list[int]:
    measure, stolen = rounds_in_which(taken)
    return await calmest(wanted, measure, stolen, clock=count().__next__)


async def test_a_round_in_which_the_host_took_the_processor_is_made_again() -> None:
    assert await calm(2, [0.0, 0.1, 0.001]) == [0, 2]


async def test_where_no_round_is_calm_the_calmest_count() -> None:
    assert await calm(1, [0.4, 0.3, 0.1, 0.2]) == [2]

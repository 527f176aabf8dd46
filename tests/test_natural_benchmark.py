"""`./dev bench natural`: one message at a time beside other libraries; its goals, its page and its charts."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.figures import Figure
from benchmarks.natural import page, plots
from benchmarks.natural.goals import GOALS, Cost, Ratio, goals_of
from benchmarks.natural.notes import noting, sample_of_notes
from benchmarks.natural.playing import Result, Sizes, warm_up
from benchmarks.natural.report import Line, Report, kept_report
from benchmarks.natural.rows import CONTENDERS, ROWS, Group, Row
from benchmarks.natural.task import Sample, Task
from benchmarks.peers.workload import Wrong
from tests.test_benchmarks import ROOT, absurd, benchmark

KEPT = ROOT / "docs/plots"
BLOCKING = "goqueue.blocking: send, acks=leader"


# The rows


def test_each_row_has_a_name_of_its_own_and_says_how_durable_it_is() -> None:
    assert [name for name, count in Counter(row.name for row in ROWS).items() if count > 1] == []
    assert [row.name for row in ROWS if not row.durability or row.contender not in CONTENDERS] == []
    assert {row.group for row in ROWS} == set(Group)


def test_a_goal_and_the_chart_of_the_readme_name_rows_that_there_are() -> None:
    names = {row.name for row in ROWS}
    asked = {name for goal in GOALS for name in rows_of(goal)}
    assert asked | set(plots.README_ROWS) <= names


def rows_of(goal: Ratio | Cost) -> tuple[str, ...]:
    return (goal.ours, *goal.theirs) if isinstance(goal, Ratio) else (goal.row,)


# Turns


def test_a_warm_up_goes_on_until_it_knows_how_many_messages_take_the_wanted_time() -> None:
    """The first messages are the slow ones."""
    played = list[int]()

    def play(_: Row, count: int) -> Sample:
        played.append(count)
        return Sample(count, 0.05 + count * 20e-6, 1.0)

    assert warm_up(play, ROWS[0], Sizes(seconds=1.0, first=1_000)) == 42_553
    assert played == [1_000, 14_286]


def test_messages_are_shared_out_evenly_and_without_a_wanted_time_nothing_warms_up() -> None:
    row = next(row for row in ROWS if row.at_once == 100)

    def play(_: Row, __: int) -> Sample:
        raise AssertionError

    count = warm_up(play, row, Sizes(seconds=0.0, first=20))
    assert count == 200
    assert [len(share) for share in Task("topic", count, at_once=row.at_once).shares()] == [2] * 100


# Goals


def result(name: str, *samples: Sample) -> Result:
    row = next(row for row in ROWS if row.name == name)
    return Result(row, 100, list(samples))


def rates(name: str, *found: float) -> Result:
    return result(name, *(Sample(100, 100 / rate, 1.0) for rate in found))


def test_a_ratio_is_the_median_of_the_rounds_each_with_the_best_of_the_others() -> None:
    goal = Ratio("ours / theirs", BLOCKING, ("Dramatiq: .send", "Celery: .delay"), at_least=1.0)
    both = [rates("Dramatiq: .send", 100, 10, 100), rates("Celery: .delay", 50, 20, 400)]
    found = goal.figure({each.row.name: each for each in (rates(BLOCKING, 200, 20, 100), *both)})
    assert found is not None
    assert found.value == pytest.approx(1.0)
    assert found.met is True


def test_a_ratio_of_times_takes_the_shortest_of_the_others_and_less_is_better() -> None:
    ours, theirs = (Sample(100, 1.0, 1.0, p50_ms=time) for time in (0.6, 0.4))
    names = ("goqueue: send, acks=leader, 1 connection", "nats-py: js.publish, 1 connection")
    [found] = goals_of([result(names[0], ours), result(names[1], theirs)])
    assert found.value == pytest.approx(1.5)
    assert (found.goal, found.met) == ("≤ 1.4", False)


def test_a_goal_of_which_one_side_did_not_run_has_no_figure() -> None:
    assert goals_of([rates(BLOCKING, 100)]) == []
    assert Cost("cost", BLOCKING, 70).figure({BLOCKING: rates(BLOCKING, 100)}) is None


# Notes of handlers


def noted(folder: Path, count: int, handled: list[int]) -> Task:
    task = Task("jobs", count, notes=str(folder / "notes"))
    note = noting(task)
    for number in handled:
        note(number)
    return task


def test_a_rate_is_counted_from_the_first_message_handled_to_the_last(tmp_path: Path) -> None:
    sample = sample_of_notes(noted(tmp_path, 3, [2, 0, 1]), settle_seconds=0)
    assert sample.messages == 2
    assert sample.seconds > 0
    assert sample.broker_us is None


@pytest.mark.parametrize("handled", [[0, 1, 1], [0, 1, 2, 2], [0, 1, 7]])
def test_a_message_that_was_not_handled_exactly_once_is_no_figure(tmp_path: Path, handled: list[int]) -> None:
    with pytest.raises(Wrong, match="handled"):
        sample_of_notes(noted(tmp_path, 3, handled), settle_seconds=0)


# The program


def test_it_runs_with_goqueue_alone_and_says_what_it_left_out(tmp_path: Path) -> None:
    tables = tmp_path / "page.md"
    tables.write_text(f"Before.\n{page.BEGIN}\nold\n{page.END}\nBehind.\n")
    figures = [
        Figure(**each) for each in benchmark("natural", "--plots", tmp_path, "--page", tables, path="/nowhere")
    ]
    assert len({figure.name for figure in figures}) == len(figures) >= 50
    assert absurd(figures) == []
    report = kept_report(tmp_path)
    assert {line.group for line in report.lines} == {group.value for group in Group if group is not Group.COUNTING}
    assert all("not installed" in each.why for each in report.left_out if "INCR" in each.name)
    text = tables.read_text()
    assert text == f"Before.\n{page.BEGIN}\n{page.section(report)}\n{page.END}\nBehind.\n"
    assert len([ElementTree.parse(path) for path in tmp_path.glob("*.svg")]) == len(Group)


def test_a_peer_without_its_server_is_left_out_and_not_zero() -> None:
    command = [sys.executable, "-m", "benchmarks.natural", "--tiny", "--contenders", "kafka", "redis"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    has_kafka, has_redis = (find_spec(name) is not None for name in ("confluent_kafka", "redis"))  # of extras
    assert ("BENCH_KAFKA=host:port names one" in said) is has_kafka
    assert ("redis-server is not installed" in said) is has_redis


def test_a_word_that_no_row_has_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.natural", "--tiny", "--only", "no-such-row"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "no row" in done.stderr


# The page


def test_the_tables_of_the_page_and_its_charts_are_of_the_run_that_is_kept() -> None:
    """`python -m benchmarks.natural.page` writes both anew."""
    report = kept_report(KEPT)
    assert f"{page.BEGIN}\n{page.section(report)}\n{page.END}" in page.PAGE.read_text()
    drawn = dict(plots.pictures(report))
    assert {name: (KEPT / name).read_text() for name in drawn} == drawn


def test_a_report_comes_back_from_its_file(tmp_path: Path) -> None:
    line = Line("a group", "goqueue", "goqueue", "send", "fsync", 10, [1.0, 2.0], 1.5, 0.1, None, 3.0, None)
    report = Report({"date": "today"}, {"goqueue": "1"}, [], [line], [Figure("ratio", 1.0, "×")])
    report.keep(tmp_path)
    assert kept_report(tmp_path) == report
    assert json.loads((tmp_path / "natural.json").read_text())["figures"] == [asdict(report.goals[0])]

"""`./dev bench compare`: ratios, noise, verdicts, and a whole comparison of two commits."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.compare import trees
from benchmarks.compare.__main__ import main, play, table_of
from benchmarks.compare.ratios import Comparison, Round, Verdict, compare, exit_code
from benchmarks.figures import Better, Figure, better


def comparison(ratios: Iterable[float], noise: Iterable[float]) -> Comparison:
    return Comparison("publish", "rate", "messages/s", "more", 100.0, 100.0, list(ratios), list(noise))


def rounds(unit: str, *values: tuple[float, float, float]) -> list[Round]:
    return [Round(*([Figure("a figure", value, unit)] for value in each)) for each in values]


# Directions


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Figure("publish", 1.0, "messages/s"), Better.MORE),
        (Figure("read: client", 1.0, "µs CPU/message", "≤ 1.5"), Better.LESS),
        (Figure("keys / none", 1.0, "×", "≥ 0.5"), Better.MORE),
        (Figure("single publish / echo", 1.0, "×", "≤ 1.5"), Better.LESS),
        (Figure("p99", 1.0, "ms", "< 20"), Better.LESS),
        (Figure("share of critical", 50.0, "%", "50"), None),
        (Figure("bare websocket echo, median", 1.0, "ms"), None),
        (Figure("large / empty", 1.0, "×", "≈ 1"), None),
    ],
)
def test_a_figure_has_a_direction_by_its_goal_or_its_unit(figure: Figure, expected: Better | None) -> None:
    assert better(figure) is expected


def test_most_figures_of_the_page_have_a_direction() -> None:
    """A unit that nobody gave a direction would leave its figures out of every comparison."""
    kept = Path(__file__).parents[1] / "docs" / "plots"
    unknown = {
        figure.unit
        for path in kept.glob("*.json")
        for figure in (Figure(**each) for each in json.loads(path.read_text()).get("figures", []))
        if better(figure) is None
    }
    assert unknown <= {"×", "%", "", "messages", "partitions", "moves", "messages/s", "ms"}


# Ratios


def test_a_ratio_above_one_is_better_whatever_the_direction() -> None:
    for unit, values in (("messages/s", (100.0, 200.0, 100.0)), ("ms", (200.0, 100.0, 200.0))):
        [found], left_out = compare("publish", rounds(unit, values))
        assert (found.ratio, found.noise, left_out) == (2.0, [1.0], [])


def test_the_ratio_is_the_median_of_those_within_a_round() -> None:
    """The second round met a busy machine, which all three felt."""
    [found], _ = compare("publish", rounds("messages/s", (100, 99, 101), (10, 11, 10), (100, 100, 100)))
    assert found.ratios == pytest.approx([0.99, 1.1, 1.0])
    assert found.ratio == 1.0
    assert (found.old, found.new) == (100, 99)


def test_a_median_below_the_least_is_worse_unless_the_commit_differs_as_much_from_itself() -> None:
    assert comparison([0.97, 0.981, 1.0], [1.0]).verdict is Verdict.HOLDS
    assert comparison([0.97, 0.97, 1.2], [0.99, 1.0, 1.01]).verdict is Verdict.WORSE
    assert comparison([0.97, 0.97, 1.2], [0.96, 1.0, 1.01]).verdict is Verdict.NOISE


def test_noise_counts_both_ways_round() -> None:
    """That the second of two equal runs was the faster one is chance."""
    assert comparison([0.95], [1.06]).verdict is Verdict.NOISE
    assert comparison([0.94], [1.06]).verdict is Verdict.WORSE


def test_one_worse_figure_makes_the_exit_code_one() -> None:
    fine, worse = comparison([1.0], [1.0]), comparison([0.5], [1.0])
    assert exit_code([fine]) == exit_code([]) == 0
    assert exit_code([fine, worse]) == 1


def test_what_cannot_be_compared_is_left_out_and_says_why() -> None:
    both = [Figure("a", 1.0, "ms"), Figure("b", 1.0, "ms"), Figure("a / b", 1.0, "×", "≤ 2")]
    old = [*both, Figure("zero", 0.0, "ms"), Figure("share", 1.0, "%")]
    new = [*old, Figure("only new", 1.0, "ms")]
    compared, left_out = compare("modes", [Round(old, new, old)])
    assert [each.name for each in compared] == ["a", "b"]
    assert {each.name: each.why for each in left_out} == {
        "a / b": "a ratio of two other figures",
        "zero": "not above 0 in every run, so that it has no ratio",
        "share": "neither more nor less is better",
        "only new": "the old tree has no such figure in every run",
    }


def test_runs_take_turns_and_the_order_rotates() -> None:
    order = list[str]()

    def run(role: str) -> list[Figure]:
        order.append(role)
        return [Figure(role, 1.0, "ms")]

    found = play("publish", 3, run)
    assert order == ["old", "new", "again", "new", "again", "old", "again", "old", "new"]
    assert {tuple(run[0].name for run in each) for each in found} == {("old", "new", "again")}


def test_the_table_shows_ratio_spread_noise_and_verdict() -> None:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(table_of("0123456789abcdef", "publish", [comparison([0.9, 0.95, 1.0], [0.99, 1.01])]))
    for shown in ("0123456789ab", "0.950", "0.900 to 1.000", "0.990 to 1.010", "worse"):
        assert shown in captured.get()


# Environments


def tree_with(folder: Path, dependency: str) -> Path:
    folder.mkdir()
    project = f'[project]\ndependencies = ["{dependency}"]\noptional-dependencies = {{bench = ["redis"]}}\n'
    (folder / "pyproject.toml").write_text(project)
    (folder / "constraints.txt").write_text("trio==0.31.0\n")
    return folder


def test_trees_with_the_same_dependencies_share_an_environment(tmp_path: Path) -> None:
    one, same, other = (
        tree_with(tmp_path / name, dependency)
        for name, dependency in (("one", "trio>=0.31"), ("same", "trio>=0.31"), ("other", "trio>=0.32"))
    )
    assert trees.requirements(one, ["bench"]) == ["trio>=0.31", "redis"]
    assert trees.fingerprint(one, ["bench"]) == trees.fingerprint(same, ["bench"])
    assert trees.fingerprint(one, ["bench"]) != trees.fingerprint(other, ["bench"])
    assert trees.fingerprint(one, ["bench"]) != trees.fingerprint(one, [])


# A whole comparison


FAKE = """
import argparse, json, goqueue
parser = argparse.ArgumentParser()
parser.add_argument("-o")
parser.add_argument("--tiny", action="store_true")
parser.add_argument("--quick", action="store_true")
options = parser.parse_args()
figure = {"name": "rate", "value": goqueue.RATE, "unit": "messages/s", "goal": "", "met": None}
print(json.dumps([figure, {**figure, "name": "written by LABEL", "unit": "ms"}]))
raise SystemExit(goqueue.CODE)
"""


def commit(root: Path, rate: float, label: str, code: int = 0) -> None:
    for package in ("goqueue", "benchmarks"):
        (root / package).mkdir(exist_ok=True)
        (root / package / "__init__.py").touch()
    (root / "goqueue/__init__.py").write_text(f"RATE, CODE = {rate}, {code}\n")
    (root / "benchmarks/fake.py").write_text(FAKE.replace("LABEL", label))
    for name in ("pyproject.toml", "constraints.txt"):
        (root / name).touch()
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", label]):
        identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        subprocess.run(["git", *identity, *command], cwd=root, check=True, capture_output=True)


def compared_fakes(root: Path, *options: str) -> int:
    return main(["HEAD~1", "fake", "--runs", "1", "--python", sys.executable, *options], root)


def test_two_commits_are_compared_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both run the benchmark of the present tree, so that only goqueue differs; nothing stays behind."""
    commit(tmp_path, 100.0, "before")
    commit(tmp_path, 50.0, "after")
    assert compared_fakes(tmp_path, "-o", "json") == 1
    said = json.loads(capsys.readouterr().out)
    assert {each["name"]: each["verdict"] for each in said["figures"]} == {
        "rate": "worse",
        "written by after": "holds",
    }
    assert said["left_out"] == []
    assert [each["ratios"] for each in said["figures"] if each["name"] == "rate"] == [[0.5]]
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert len(listed.splitlines()) == 1


def test_each_tree_runs_its_own_benchmarks_when_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(tmp_path, 100.0, "before")
    commit(tmp_path, 100.0, "after")
    assert compared_fakes(tmp_path, "--own-benchmarks", "-o", "json") == 0
    left_out = json.loads(capsys.readouterr().out)["left_out"]
    assert {each["name"] for each in left_out} == {"written by before", "written by after"}


def test_each_benchmark_is_shown_as_soon_as_it_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So a run that ends early keeps what it has: here the second benchmark fails in its first real run."""
    commit(tmp_path, 100.0, "before")
    commit(tmp_path, 50.0, "after")
    broken = FAKE.replace("goqueue.CODE", "0 if options.tiny else 3")
    (tmp_path / "benchmarks/broken.py").write_text(broken)
    names = ["fake", "broken", "--runs", "1", "--python", sys.executable]
    assert main(["HEAD~1", *names], tmp_path) == 2
    said = capsys.readouterr()
    assert "fake: the present tree" in said.out
    assert "broken: the present tree" not in said.out
    assert "benchmarks.broken fails" in said.err


def test_a_comparison_that_cannot_be_made_ends_with_code_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(tmp_path, 100.0, "before", code=3)
    commit(tmp_path, 100.0, "after")
    assert compared_fakes(tmp_path) == 2
    assert "benchmarks.fake fails in the old tree" in capsys.readouterr().err
    assert main(["HEAD", "nothing"], tmp_path) == 2
    assert "there is no benchmark nothing; there are storage, publish" in capsys.readouterr().err
    assert main(["no-such-commit", "fake"], tmp_path) == 2
    assert "no-such-commit" in capsys.readouterr().err

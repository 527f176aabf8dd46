"""Compares benchmarks of the present tree with those of a commit; above 1 is better."""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.commandline import Size
from benchmarks.compare import trees
from benchmarks.compare.ratios import RATIO_MIN, Comparison, LeftOut, Round, compare, exit_code
from benchmarks.compare.trees import Failed
from benchmarks.figures import Figure
from benchmarks.machine import machine

ROOT = Path(__file__).parents[2]
NAMES = (
    *("storage", "publish", "scale", "consume", "modes", "lanes", "delay", "http", "schema", "rebalance", "spark"),
    "natural",
)
ROLES = ("old", "new", "again")
CANNOT, INTERRUPTED = 2, 130
COLUMNS = ("figure", "unit", "old", "new", "ratio", "lowest to highest", "noise", f"≥ {RATIO_MIN}")
WIDTH_MIN = 130
"""Of output that goes to a file."""


@dataclass(frozen=True, slots=True)
class Side:
    python: Path
    tree: Path


def play(
    name: str, runs: int, run: Callable[[str], list[Figure]], tell: Callable[[str], None] = lambda _: None
) -> list[Round]:
    """The order rotates: each of the three is first, second and last in turn."""
    rounds = []
    for number in range(runs):
        found = {}
        for role in (ROLES[(number + place) % len(ROLES)] for place in range(len(ROLES))):
            tell(f"{name}, round {number + 1} of {runs}: {role}")
            found[role] = run(role)
        rounds.append(Round(**found))
    return rounds


@contextmanager
def both_sides(root: Path, commit: str, options: argparse.Namespace) -> Iterator[dict[str, Side]]:
    extras = ("dev", "bench", "spark") if "spark" in options.names else ("dev", "bench")
    with tempfile.TemporaryDirectory(prefix="goqueue-compare-") as folder:
        new = trees.copy_present(root, Path(folder) / "new")
        with trees.worktree(root, commit, Path(folder) / "old") as old:
            home = root / ".compare"
            pythons = [options.python or trees.environment(tree, home, extras) for tree in (old, new)]
            if not options.own_benchmarks:
                trees.take_benchmarks(new, old)
            before, after = (Side(python, tree) for python, tree in zip(pythons, (old, new), strict=True))
            yield {"old": before, "new": after, "again": before}


def measure(
    options: argparse.Namespace,
    root: Path,
    commit: str,
    tell: Callable[[str, Sequence[Comparison], Sequence[LeftOut]], None],
) -> tuple[list[Comparison], list[LeftOut]]:
    """`tell` hears of each benchmark as soon as it is done: a run that is ended loses only the one under way."""
    console = Console(stderr=True)
    compared, left_out = list[Comparison](), list[LeftOut]()
    with (
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
        both_sides(root, commit, options) as sides,
    ):
        task = progress.add_task("warming up", total=len(options.names) * (2 + 3 * options.runs))

        def run(role: str, name: str, size: Size) -> list[Figure]:
            side = sides[role]
            figures = trees.run_benchmark(side.python, side.tree, name, size)
            progress.advance(task)
            return figures

        for name in options.names:
            for role in ("old", "new"):
                run(role, name, "tiny")  # compiles, and fails at once where it cannot run
        for name in options.names:
            rounds = play(
                name,
                options.runs,
                lambda role, name=name: run(role, name, options.size),  # type: ignore[misc]  # mypy: a default
                lambda what: progress.update(task, description=what),
            )
            found = compare(name, rounds)
            progress.stop()
            tell(name, *found)
            progress.start()
            compared += found[0]
            left_out += found[1]
    return compared, left_out


# Output


def table_of(commit: str, benchmark: str, compared: Sequence[Comparison]) -> Table:
    table = Table(title=f"{benchmark}: the present tree / {commit[:12]}, above 1 is better")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("old", "new", "ratio") else "left")
    for each in compared:
        table.add_row(
            each.name,
            each.unit,
            f"{each.old:,.4g}",
            f"{each.new:,.4g}",
            f"{each.ratio:.3f}",
            _spread(each.ratios),
            _spread(each.noise),
            each.verdict.value,
        )
    return table


def _spread(ratios: Sequence[float]) -> str:
    return f"{min(ratios):.3f} to {max(ratios):.3f}"


def show_table(commit: str, benchmark: str, compared: Sequence[Comparison], left_out: Sequence[LeftOut]) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH_MIN)
    console.print(table_of(commit, benchmark, compared))
    for each in left_out:
        console.print(f"left out: {each.benchmark}: {each.name}: {each.why}", markup=False, highlight=False)
    sys.stdout.flush()


def show_json(
    commit: str, options: argparse.Namespace, compared: Sequence[Comparison], left_out: Sequence[LeftOut]
) -> None:
    said = {
        "commit": commit,
        "machine": machine(),
        "runs": options.runs,
        "size": options.size,
        "ratio_min": RATIO_MIN,
        "figures": [each.as_json() for each in compared],
        "left_out": [each._asdict() for each in left_out],
    }
    print(json.dumps(said, indent=2, ensure_ascii=False))


# The command


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Exit code 1: a figure is worse. 2: there is nothing to compare."""
    options = _parser().parse_args(arguments)
    try:
        commit = trees.git(root, "rev-parse", "--verify", f"{options.commit}^{{commit}}")
        _check_names(root, options.names)
        as_json = options.output == "json"
        tell = (lambda *_: None) if as_json else partial(show_table, commit)
        compared, left_out = measure(options, root, commit, tell)
    except Failed as error:
        print(f"compare: {error}", file=sys.stderr)
        return CANNOT
    if as_json:
        show_json(commit, options, compared, left_out)
    return exit_code(compared)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench compare", description=__doc__)
    parser.add_argument("commit", help="the commit to compare with, as git names it")
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--runs", type=_at_least_one, default=5, help="rounds of three runs each (5)")
    parser.add_argument(
        "--size", choices=get_args(Size), default="quick", help="how long a run is (quick); full is as in the docs"
    )
    parser.add_argument("--quick", dest="size", action="store_const", const="quick", help="--size quick")
    parser.add_argument(
        "--own-benchmarks",
        action="store_true",
        help="each tree runs its own benchmarks; else both run those of the present tree",
    )
    parser.add_argument("--python", type=Path, help="one that has the dependencies already, for both trees")
    return parser


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _check_names(root: Path, names: Sequence[str]) -> None:
    for name in names:
        folder = root / "benchmarks" / name
        if not (folder.with_suffix(".py").is_file() or (folder / "__main__.py").is_file()):
            raise Failed(f"there is no benchmark {name}; there are {', '.join(NAMES)}")


def _stop_in_order() -> None:
    """SIGTERM ends us as Ctrl-C does, also where a shell started us in the background and has SIGINT ignored: the
    worktree is removed, and the benchmark stops its broker.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


if __name__ == "__main__":
    _stop_in_order()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)

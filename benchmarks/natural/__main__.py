"""One message at a time, as users write it, beside other libraries: `./dev bench natural`.

Each run is a process of its own with the plain code of one library: enqueue, work, ack. Runs alternate, and the
median of five is shown; every message is checked. Exits with 1 when a goal is not met, with 2 and no figures when a
check failed.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks.commandline import Size, Tell, add_sizes
from benchmarks.machine import machine
from benchmarks.natural import page, plots
from benchmarks.natural.playing import Sizes, Stage, play_in_turns
from benchmarks.natural.report import LeftOut, Report, report_of
from benchmarks.natural.rows import CONTENDERS, ROWS, Row, why_not
from benchmarks.natural.servers import start_all
from benchmarks.peers.workload import Wrong

FAILED = 2
SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(runs=3, seconds=0.4, first=500),
    "tiny": Sizes(runs=1, seconds=0.0, first=20),
}
SHORT = ("goqueue", "dramatiq", "echo")
"""The contenders of a quick run."""
ALONE = ("goqueue", "echo")
"""Those of a tiny one."""
CONTENDERS_OF: dict[Size, tuple[str, ...]] = {"full": tuple(CONTENDERS), "quick": SHORT, "tiny": ALONE}


def chosen_rows(options: argparse.Namespace) -> list[Row]:
    contenders = options.contenders or CONTENDERS_OF[options.size]
    words = options.only or [""]
    chosen = [row for row in ROWS if row.contender in contenders and any(word in searched(row) for word in words)]
    return chosen if options.size != "tiny" else list({program_of(row): row for row in chosen}.values())


def searched(row: Row) -> str:
    return f"{row.group.name.lower()} {row.group.value} {row.name}"


def program_of(row: Row) -> tuple[object, ...]:
    """A tiny run has one row of each."""
    return row.program, *(row.options.get(name) for name in ("surface", "confirm_acks", "handler"))


def measure(rows: list[Row], folder: Path, sizes: Sizes, tell: Tell) -> Report:
    about = machine()
    left_out = [LeftOut(row.name, why) for row in rows if (why := why_not(row)) is not None]
    able = [row for row in rows if why_not(row) is None]
    with ExitStack() as stack:
        servers, missing = start_all(dict.fromkeys(name for row in able for name in row.servers), folder, stack)
        left_out += [LeftOut(row.name, missing[name]) for row in able if (name := lacking(row, missing))]
        playing = [row for row in able if lacking(row, missing) is None]
        return report_of(about, left_out, play_in_turns(Stage(servers, folder), playing, sizes, tell))


def lacking(row: Row, missing: Mapping[str, str]) -> str | None:
    """The first of its servers that did not start."""
    return next((name for name in row.servers if name in missing), None)


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    sizes = SIZES[options.size]
    rows = chosen_rows(options)
    if not rows:
        parser.error("no row has these words; the names of rows are in the tables")
    sizes = replace(sizes, runs=options.runs or sizes.runs)
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        task = progress.add_task("start", total=len(rows) * (1 + sizes.runs))
        try:
            report = measure(
                rows, Path(folder), sizes, lambda what: progress.update(task, advance=1, description=what)
            )
        except Wrong as error:
            progress.console.print(f"no figures: {error}", markup=False)
            return FAILED
    if options.plots is not None:
        report.keep(options.plots)
        plots.draw_all(report, options.plots)
    if options.page is not None:
        page.write(report, options.page)
    return report.show(options.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.natural", description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    add_sizes(parser)
    parser.add_argument("--runs", type=int, help="of each row; the median is shown (5)")
    parser.add_argument("--only", nargs="+", metavar="WORDS", help="rows whose group or name has one of these")
    parser.add_argument("--contenders", nargs="+", choices=list(CONTENDERS), help="these alone")
    parser.add_argument("--plots", type=Path, help="a folder for charts and figures; none are kept without")
    parser.add_argument("--page", type=Path, help="a page whose tables between marks are written anew")
    return parser


if __name__ == "__main__":
    sys.exit(main())

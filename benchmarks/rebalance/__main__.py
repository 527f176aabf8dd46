"""Members of a group join, leave, die and come back, as processes of their own: `./dev bench rebalance`.

Each consumer notes what it receives and when, while somebody publishes to every partition all the time. Once as a
queue, once as a stream. Then how long it takes to join a group over a thousand partitions.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import trio
from rich.console import Console
from rich.progress import Progress

from benchmarks.broker import broker_process
from benchmarks.commandline import add_sizes
from benchmarks.figures import Figure, keep, show
from benchmarks.machine import machine
from benchmarks.peers.workload import Wrong
from benchmarks.rebalance.goals import figures_of
from benchmarks.rebalance.joining import measure_joining
from benchmarks.rebalance.plot import picture
from benchmarks.rebalance.scene import SIZES, Run, Sizes, play

MODES = ("queue", "stream")
FAILED = 2


def measure(folder: Path, sizes: Sizes, tell: Callable[[str], None]) -> tuple[list[Run], list[Figure]]:
    runs = []
    with broker_process(str(folder / "data")) as broker:
        for mode in MODES:
            (folder / mode).mkdir()
            runs.append(trio.run(play, broker.url, folder / mode, mode, sizes, tell))
        tell(f"joining {sizes.many:,} partitions")
        joining = trio.run(measure_joining, broker.url, sizes)
    return runs, [*(figure for run in runs for figure in figures_of(run)), *joining]


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    about, sizes = machine(), SIZES[options.size]
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        task = progress.add_task("start", total=None)

        def tell(what: str) -> None:
            progress.update(task, advance=1, description=what)

        try:
            runs, figures = measure(Path(folder), sizes, tell)
        except Wrong as error:
            progress.console.print(f"no figures: {error}", markup=False)
            return FAILED
    if options.plots is not None:
        (options.plots / "rebalance.svg").write_text(picture(runs))
        keep(options.plots / "rebalance.json", about, figures)
    title = f"rebalance: {sizes.partitions} partitions, {sizes.seats} consumers"
    return show(title, figures, options.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rebalance", description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    add_sizes(parser)
    parser.add_argument("--plots", type=Path, help="a folder for the plot and the figures; none are kept without")
    return parser


if __name__ == "__main__":
    sys.exit(main())

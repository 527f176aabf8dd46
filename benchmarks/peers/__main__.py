"""goqueue beside Redis Streams, NATS JetStream, RabbitMQ and beanstalkd: `./dev bench peers`.

Each server is started for the benchmark on loopback, in a temporary folder, and ended after it. Runs alternate, and
the median of five is shown; every message is checked. Exits with 1 when a goal is not met, with 2 and no figures
when a check failed.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks.children import Unavailable
from benchmarks.machine import machine
from benchmarks.peers import beanstalkd, nats_jetstream, own, plots, rabbitmq, redis_streams
from benchmarks.peers.alternation import Sizes, alternate
from benchmarks.peers.goals import ratios
from benchmarks.peers.report import Report
from benchmarks.peers.workload import Peer, Start, What, Workload, Wrong

STARTS: dict[str, tuple[str, Start]] = {
    "goqueue": (own.NAME, own.started),
    "redis": (redis_streams.NAME, redis_streams.started),
    "nats": (nats_jetstream.NAME, nats_jetstream.started),
    "rabbitmq": (rabbitmq.NAME, rabbitmq.started),
    "beanstalkd": (beanstalkd.NAME, beanstalkd.started),
}

FAILED = 2
TINY = Sizes(runs=1, seconds=0.01, singles=20)


def start_all(names: list[str], folder: Path, stack: ExitStack) -> tuple[list[Peer], dict[str, str]]:
    """Those that run, and why the others do not."""
    peers, left_out = [], {}
    for name in names:
        title, start = STARTS[name]
        own_folder = folder / name
        own_folder.mkdir()
        try:
            peers.append(stack.enter_context(start(own_folder)))
        except Unavailable as error:
            left_out[title] = str(error)
    return peers, left_out


def side_by_side(peers: list[Peer]) -> list[Workload]:
    """All who publish, then all who read: what is compared is measured close together."""
    return [each for what in What for peer in peers for each in peer.workloads if each.what is what]


def measure(names: list[str], folder: Path, sizes: Sizes, progress: Progress) -> Report:
    about = machine()
    task = progress.add_task("starting", total=None)
    with ExitStack() as stack:
        peers, left_out = start_all(names, folder, stack)
        workloads = side_by_side(peers)
        progress.update(task, total=len(workloads) * (sizes.runs + 1))
        rows = alternate(workloads, sizes, lambda what: progress.update(task, advance=1, description=what))
    return Report(about, {peer.name: peer.version for peer in peers}, left_out, rows, ratios(rows))


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sizes = TINY if options.tiny else Sizes(runs=options.runs, seconds=options.seconds)
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        try:
            report = measure(options.only or list(STARTS), Path(folder), sizes, progress)
        except Wrong as error:
            progress.console.print(f"no figures: {error}", markup=False)
            return FAILED
    if options.plots is not None:
        plots.draw_all(report.rows, options.plots)
        (options.plots / "peers.json").write_text(report.as_json())
    _show(report, options.output)
    return report.exit_code()


def _show(report: Report, output: str) -> None:
    if output == "table":
        report.print_tables(Console())
    else:
        print(report.as_json() if output == "json" else report.as_markdown(), end="")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json", "markdown"], default="table")
    parser.add_argument("--only", nargs="+", choices=list(STARTS), help="these alone")
    parser.add_argument("--runs", type=int, default=5, help="of each workload; the median is shown")
    parser.add_argument("--seconds", type=float, default=2.0, help="that one run takes, about")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it runs")
    parser.add_argument("--folder", help="where the servers write; a temporary folder unless given")
    parser.add_argument("--plots", type=Path, help="a folder for plots and figures; none are drawn without")
    return parser


if __name__ == "__main__":
    sys.exit(main())

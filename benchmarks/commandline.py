"""How a benchmark whose figures a page shows is run: its flags, its progress, where its figures are kept."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from rich.console import Console
from rich.progress import Progress

from benchmarks.figures import Figure, keep, show
from benchmarks.machine import machine

Tell: TypeAlias = Callable[[str], None]
"""What is measured now, for whoever watches."""
Size: TypeAlias = Literal["full", "quick", "tiny"]
"""`full` is behind the docs, `quick` is for comparing two commits, `tiny` only shows that the benchmark runs."""
Measure: TypeAlias = Callable[[Path, Size, Tell], list[Figure]]
"""Measures in a folder of its own."""


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """`options.size` is a Size."""
    sizes = parser.add_mutually_exclusive_group()
    for size, about in (
        ("tiny", "sizes that only show that it runs"),
        ("quick", "a short run of goqueue alone, for comparing commits"),
    ):
        sizes.add_argument(f"--{size}", dest="size", action="store_const", const=size, default="full", help=about)


def run(name: str, about: str, title: str, measure: Measure, arguments: list[str] | None = None) -> int:
    """The exit code: 0 when every goal is met."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    add_sizes(parser)
    parser.add_argument("--figures", type=Path, help="a file that keeps the figures and their machine")
    options = parser.parse_args(arguments)
    measured_on = machine()
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(console=Console(stderr=True), transient=True) as progress,
    ):
        task = progress.add_task("start", total=None)
        figures = measure(
            Path(folder), options.size, lambda what: progress.update(task, advance=1, description=what)
        )
    if options.figures is not None:
        keep(options.figures, measured_on, figures)
    return show(title, figures, options.output)

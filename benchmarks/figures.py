"""Figures, how they are shown, and a stopwatch."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    goal: str = ""
    met: bool | None = None


class Better(Enum):
    MORE = "more"
    LESS = "less"


_MORE, _LESS = Better.MORE, Better.LESS
BETTER_OF_UNIT = {
    **dict.fromkeys(("messages/s", "rows/s"), _MORE),
    **dict.fromkeys(("µs CPU/message", "µs CPU/record", "µs/record", "% of a core", "ms", "s"), _LESS),
    **dict.fromkeys(("MiB", "MiB more", "bytes"), _LESS),
}
BETTER_OF_GOAL = {"≥": _MORE, "≤": _LESS, "<": _LESS}
_PEERS = ("Dramatiq:", "Celery:", "RQ:", "pika:", "nats-py:", "redis-py:", "confluent-kafka:")
YARDSTICKS = ("bare ", "read the file", "beanstalkd:", "XREADGROUP", *_PEERS)
"""How figures begin that measure the machine or a peer, not goqueue."""


def better(figure: Figure) -> Better | None:
    """Whether more or less of it is better; None where that has no answer. A goal says it, else the unit does."""
    if figure.name.startswith(YARDSTICKS):
        return None
    return BETTER_OF_GOAL.get(figure.goal[:1]) or BETTER_OF_UNIT.get(figure.unit)


class Stopwatch:
    seconds: float = 0.0


@contextmanager
def timed() -> Iterator[Stopwatch]:
    watch = Stopwatch()
    begin = time.perf_counter()
    yield watch
    watch.seconds = time.perf_counter() - begin


def show(title: str, figures: list[Figure], output: str) -> int:
    """Print them; 0 when every goal is met."""
    if output == "json":
        json.dump([asdict(figure) for figure in figures], sys.stdout, indent=2)
        print()
    else:
        Console().print(table_of(title, figures))
    return 0 if all(figure.met is not False for figure in figures) else 1


def keep(path: Path, about: dict[str, object], figures: list[Figure]) -> None:
    """For the page that shows them."""
    kept = {"machine": about, "figures": [asdict(figure) for figure in figures]}
    path.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")


def rows_of_page(figures: list[Figure]) -> list[str]:
    """How docs/performance.md shows them."""
    verdicts = {True: "yes", False: "no", None: ""}
    return [
        f"| {figure.name} | {_on_page(figure.value)} {figure.unit} | {figure.goal} | {verdicts[figure.met]} |"
        for figure in figures
    ]


def _on_page(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.2f}"


def table_of(title: str, figures: list[Figure]) -> Table:
    table = Table(title=title)
    for column in ("what", "figure", "unit", "goal", "met"):
        table.add_column(column, justify="right" if column == "figure" else "left")
    for figure in figures:
        met = {True: "yes", False: "NO", None: ""}[figure.met]
        table.add_row(figure.name, f"{figure.value:.3g}", figure.unit, figure.goal, met)
    return table

"""A run as data, as a table and as figures. What a page and its charts show is made from the data alone."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.bars import shown
from benchmarks.figures import Figure, show, table_of
from benchmarks.natural.goals import goals_of
from benchmarks.natural.playing import Result

FILE = "natural.json"
LIBRARIES = ("goqueue", "dramatiq", "celery", "rq", "pika", "nats-py", "redis", "confluent-kafka")
COLUMNS = ("who", "how", "durability", "messages/s", "slowest to fastest run", "p50", "p99", "client", "server")
CPU = "µs CPU/message"


@dataclass(frozen=True, slots=True)
class LeftOut:
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Line:
    """A row with the medians of its runs."""

    group: str
    contender: str
    who: str
    way: str
    durability: str
    messages: int
    rates: list[float]
    rate: float
    p50_ms: float | None
    p99_ms: float | None
    client_us: float
    server_us: float | None

    @property
    def name(self) -> str:
        return f"{self.who}: {self.way}"

    def figures(self) -> list[Figure]:
        """In the names of `benchmarks.figures`, for comparisons."""
        found = [
            ("rate", self.rate, "messages/s"),
            ("p50", self.p50_ms, "ms"),
            ("p99", self.p99_ms, "ms"),
            ("client's processor time", self.client_us, CPU),
            ("server's processor time", self.server_us, CPU),
        ]
        return [Figure(f"{self.name}: {what}", value, unit) for what, value, unit in found if value is not None]

    def cells(self) -> tuple[str, ...]:
        return (
            self.who,
            self.way,
            self.durability,
            shown(self.rate),
            f"{shown(min(self.rates))} to {shown(max(self.rates))}",
            _with_unit(self.p50_ms, "ms"),
            _with_unit(self.p99_ms, "ms"),
            _with_unit(self.client_us, "µs"),
            _with_unit(self.server_us, "µs"),
        )


@dataclass(frozen=True, slots=True)
class Report:
    machine: Mapping[str, object]
    versions: Mapping[str, str]
    left_out: list[LeftOut]
    """Which rows did not run, and why."""
    lines: list[Line]
    goals: list[Figure]

    def groups(self) -> list[str]:
        return list(dict.fromkeys(line.group for line in self.lines))

    def lines_of(self, group: str) -> list[Line]:
        return [line for line in self.lines if line.group == group]

    def reasons(self) -> dict[str, list[str]]:
        """The rows that were left out, by the reason."""
        found: dict[str, list[str]] = {}
        for each in self.left_out:
            found.setdefault(each.why, []).append(each.name)
        return found

    def keep(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        kept = {
            "machine": self.machine,
            "versions": self.versions,
            "left out": [asdict(each) for each in self.left_out],
            "rows": [asdict(line) for line in self.lines],
            "figures": [asdict(figure) for figure in self.goals],
        }
        (folder / FILE).write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")

    def show(self, output: str) -> int:
        """Print it; 0 when every goal is met."""
        if output == "json":
            return show("", [figure for line in self.lines for figure in line.figures()] + self.goals, output)
        console = Console()
        for group in self.groups():
            console.print(self._table(group))
        for why, names in self.reasons().items():
            console.print(f"left out: {', '.join(names)}: {why}", markup=False, highlight=False)
        console.print(table_of("goals: medians of the ratios within each round, and costs", self.goals))
        return 0 if all(figure.met is not False for figure in self.goals) else 1

    def _table(self, group: str) -> Table:
        table = Table(title=f"{group}: 100-byte values; client and server: processor time a message")
        for number, column in enumerate(COLUMNS):
            table.add_column(column, justify="left" if number < 3 else "right")
        for line in self.lines_of(group):
            table.add_row(*line.cells())
        return table


def report_of(about: Mapping[str, object], left_out: list[LeftOut], results: list[Result]) -> Report:
    return Report(about, _versions(), left_out, [_line(result) for result in results], goals_of(results))


def kept_report(folder: Path) -> Report:
    kept: dict[str, Any] = json.loads((folder / FILE).read_text())
    return Report(
        kept["machine"],
        kept["versions"],
        [LeftOut(**each) for each in kept["left out"]],
        [Line(**each) for each in kept["rows"]],
        [Figure(**each) for each in kept["figures"]],
    )


def _line(result: Result) -> Line:
    row = result.row
    return Line(
        row.group.value,
        row.contender,
        row.who,
        row.way,
        row.durability,
        result.count,
        [round(sample.rate, 4) for sample in result.samples],
        _rounded(result.median("rate")) or 0.0,
        _rounded(result.median("p50_ms")),
        _rounded(result.median("p99_ms")),
        _rounded(result.median("client_us")) or 0.0,
        _rounded(result.median("broker_us")),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _with_unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{shown(value)} {unit}"


def _versions() -> dict[str, str]:
    return {name: found for name in LIBRARIES if (found := _version(name))}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""

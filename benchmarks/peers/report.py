"""A run as a table, as a page's table and as data."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.bars import shown
from benchmarks.figures import Figure, table_of
from benchmarks.peers.alternation import Row
from benchmarks.peers.workload import What

COLUMNS = ("what", "who", "how", "durability", "median", "slowest to fastest run")


@dataclass(frozen=True, slots=True)
class Report:
    machine: dict[str, object]
    versions: dict[str, str]
    left_out: dict[str, str]
    """Which peer did not run, and why."""
    rows: list[Row]
    ratios: list[Figure]

    def exit_code(self) -> int:
        return 0 if all(figure.met is not False for figure in self.ratios) else 1

    def data(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "versions": self.versions,
            "left out": self.left_out,
            "rows": [_row_data(row) for row in self.rows],
            "ratios": [asdict(figure) for figure in self.ratios],
        }

    def as_json(self) -> str:
        return json.dumps(self.data(), indent=2, ensure_ascii=False) + "\n"

    def print_tables(self, console: Console) -> None:
        table = Table(title="goqueue beside its peers: 100-byte values")
        for column in COLUMNS:
            table.add_column(column, justify="right" if column == "median" else "left")
        for cells in self._cells():
            table.add_row(*cells)
        console.print(table)
        console.print(table_of("ratios, medians of those within each round", self.ratios))

    def as_markdown(self) -> str:
        ratios: list[tuple[str, ...]] = [
            (each.name, f"{each.value:.2f} ×", each.goal, {True: "yes", False: "no", None: ""}[each.met])
            for each in self.ratios
        ]
        return _markdown(COLUMNS, self._cells()) + "\n" + _markdown(("ratio", "figure", "goal", "met"), ratios)

    def _cells(self) -> list[tuple[str, ...]]:
        left_out = [("", name, f"left out: {why}", "", "", "") for name, why in self.left_out.items()]
        return [_row_cells(row) for row in self.rows] + left_out


def _row_data(row: Row) -> dict[str, object]:
    workload = row.workload
    return {
        "key": workload.key,
        "what": workload.what.value,
        "peer": workload.peer,
        "way": workload.way,
        "durability": workload.durability,
        "unit": workload.what.unit,
        "messages": row.count,
        "runs": [round(each, 4) for each in row.runs],
        "median": round(row.median, 4),
    }


def _row_cells(row: Row) -> tuple[str, ...]:
    workload = row.workload
    unit = "/s" if workload.what.unit == "messages/s" else f" {workload.what.unit}"
    slowest, fastest = sorted([min(row.runs), max(row.runs)], reverse=workload.what is What.SINGLE)
    spread = f"{shown(slowest)} to {shown(fastest)}"
    return workload.what.value, workload.peer, workload.way, workload.durability, shown(row.median) + unit, spread


def _markdown(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)

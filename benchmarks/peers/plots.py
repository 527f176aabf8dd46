"""A chart for each kind of workload."""

from pathlib import Path

from benchmarks.bars import Bar
from benchmarks.bars import picture as picture_of_bars
from benchmarks.peers.alternation import Row
from benchmarks.peers.own import NAME as OWN
from benchmarks.peers.workload import What

SUBTITLE = "100-byte values; medians of alternating runs; thin lines: from the slowest to the fastest run"
TITLES = {
    What.PUBLISH: "Publish: confirmed messages a second (more is better)",
    What.READ: "Read: messages a second (more is better)",
    What.SINGLE: "One confirmed publish: median milliseconds (less is better)",
}


def draw_all(rows: list[Row], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [_draw(what, [row for row in rows if row.workload.what is what], folder) for what in What]


def _draw(what: What, rows: list[Row], folder: Path) -> Path:
    path = folder / f"{what.value.replace(' ', '-')}.svg"
    path.write_text(picture(what, sorted(rows, key=lambda row: row.median, reverse=what is not What.SINGLE)))
    return path


def picture(what: What, rows: list[Row]) -> str:
    return picture_of_bars(TITLES[what], SUBTITLE, [_bar(row) for row in rows])


def _bar(row: Row) -> Bar:
    workload = row.workload
    note = f"{workload.way}; {workload.durability}"
    return Bar(workload.peer, note, row.runs, row.median, workload.peer == OWN)

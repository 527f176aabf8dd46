"""Bars as SVG, without a library: legible in a browser, in a diff and on paper."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

from benchmarks.peers.alternation import Row
from benchmarks.peers.own import NAME as OWN
from benchmarks.peers.workload import What

WIDTH, LABELS, BAR, GAP, TOP = 900, 430, 22, 16, 58
OURS, THEIRS = "#1f6feb", "#9aa4b2"
FONT = "font-family='system-ui, sans-serif'"
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
    height = TOP + len(rows) * (BAR + GAP) + 10
    longest = max((max(row.runs) for row in rows), default=1.0)
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' {FONT}>",
            "<rect width='100%' height='100%' fill='#ffffff'/>",
            _text(16, 26, TITLES[what], size=16, weight="600"),
            _text(16, 45, SUBTITLE, grey=True),
            *(line for number, row in enumerate(rows) for line in _bar(number, row, longest)),
            "</svg>\n",
        ]
    )


def _bar(number: int, row: Row, longest: float) -> Iterable[str]:
    room = WIDTH - LABELS - 100
    top = TOP + number * (BAR + GAP)
    middle = top + BAR / 2
    length, low, high = (room * each / longest for each in (row.median, min(row.runs), max(row.runs)))
    workload = row.workload
    colour = OURS if workload.peer == OWN else THEIRS
    yield _text(16, middle - 1, workload.peer, weight="600")
    yield _text(16, middle + 12, f"{workload.way}; {workload.durability}", size=10, grey=True)
    yield f"<rect x='{LABELS}' y='{top}' width='{length:.1f}' height='{BAR}' rx='2' fill='{colour}'/>"
    yield f"<path d='M{LABELS + low:.1f} {middle}H{LABELS + high:.1f}' stroke='#24292f' stroke-width='1'/>"
    yield _text(LABELS + max(length, high) + 8, middle + 4, shown(row.median))


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _text(x: float, y: float, text: str, *, size: int = 12, weight: str = "400", grey: bool = False) -> str:
    colour = "#57606a" if grey else "#24292f"
    style = f"font-size='{size}' font-weight='{weight}' fill='{colour}'"
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(text)}</text>"

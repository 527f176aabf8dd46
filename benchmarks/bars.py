"""Bars as SVG, without a library: legible in a browser, in a diff and on paper."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABELS, BAR, GAP, TOP = 900, 430, 22, 16, 58
OURS, THEIRS = "#1f6feb", "#9aa4b2"
FONT = "font-family='system-ui, sans-serif'"


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    note: str
    runs: Sequence[float]
    value: float
    is_ours: bool


def picture(title: str, subtitle: str, bars: Sequence[Bar]) -> str:
    height = TOP + len(bars) * (BAR + GAP) + 10
    longest = max((max(bar.runs) for bar in bars), default=1.0)
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' {FONT}>",
            "<rect width='100%' height='100%' fill='#ffffff'/>",
            _text(16, 26, title, size=16, weight="600"),
            _text(16, 45, subtitle, grey=True),
            *(line for number, bar in enumerate(bars) for line in _lines(number, bar, longest)),
            "</svg>\n",
        ]
    )


def _lines(number: int, bar: Bar, longest: float) -> Iterable[str]:
    room = WIDTH - LABELS - 100
    top = TOP + number * (BAR + GAP)
    middle = top + BAR / 2
    length, low, high = (room * each / longest for each in (bar.value, min(bar.runs), max(bar.runs)))
    colour = OURS if bar.is_ours else THEIRS
    yield _text(16, middle - 1, bar.label, weight="600")
    yield _text(16, middle + 12, bar.note, size=10, grey=True)
    yield f"<rect x='{LABELS}' y='{top}' width='{length:.1f}' height='{BAR}' rx='2' fill='{colour}'/>"
    yield f"<path d='M{LABELS + low:.1f} {middle}H{LABELS + high:.1f}' stroke='#24292f' stroke-width='1'/>"
    yield _text(LABELS + max(length, high) + 8, middle + 4, shown(bar.value))


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _text(x: float, y: float, text: str, *, size: int = 12, weight: str = "400", grey: bool = False) -> str:
    colour = "#57606a" if grey else "#24292f"
    style = f"font-size='{size}' font-weight='{weight}' fill='{colour}'"
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(text)}</text>"

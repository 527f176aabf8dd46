"""A run as SVG: time from left to right, a row for each partition, a colour for whoever received its messages.

A receipt colours the time until the next one was due. Where that came much too late there is white. Rows
lie in the order of their owners in the quiet time, so that these are bands.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from html import escape
from itertools import pairwise
from typing import NamedTuple

from benchmarks.rebalance.reading import Outcome, first_receipts, longest_gap, outcomes
from benchmarks.rebalance.receipts import Receipt
from benchmarks.rebalance.scene import Event, Kind, Run

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1080, 68, 22, 76, 40
LABELS = 58
"""The height of the events' labels above each panel."""
PANEL = 330
FONT = "font-family='system-ui, sans-serif'"
INK, GREY, LINE = "#24292f", "#57606a", "#24292f"
COLOURS = (
    "#4e79a7",
    "#f28e2b",
    "#59a14f",
    "#e15759",
    "#76b7b2",
    "#edc948",
    "#b07aa1",
    "#9c755f",
    "#ff9da7",
    "#3d4451",
)
LATE_INTERVALS = 3.0
"""So many intervals after the last receipt the next one is much too late; less is the machine's doing."""
TITLE = "Who received what while members came and went"
WORDS = {
    Kind.STEADY: ("nothing", "happens"),
    Kind.JOIN: ("{} comes", "back"),
    Kind.LEAVE: ("{}", "leaves"),
    Kind.KILL: ("{} is killed and does not come back;", "it is given up after 5 s"),
    Kind.RESTART: ("{} is killed,", "started again"),
}


def letter(seat: int) -> str:
    return chr(ord("A") + seat)


class Stretch(NamedTuple):
    """Of one partition, with one owner, without a gap."""

    seat: int
    begin: float
    end: float


def stretches(track: list[Receipt], interval: float) -> Iterator[Stretch]:
    begin = track[0].at
    for before, after in pairwise(track):
        if after.seat != before.seat or after.at - before.at > LATE_INTERVALS * interval:
            yield Stretch(before.seat, begin, min(after.at, before.at + interval))
            begin = after.at
    yield Stretch(track[-1].seat, begin, track[-1].at + interval)


def picture(runs: list[Run]) -> str:
    height = TOP + len(runs) * (LABELS + PANEL + BOTTOM)
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' {FONT}>",
            "<rect width='100%' height='100%' fill='#ffffff'/>",
            _text(16, 26, TITLE, size=16, weight="600"),
            _text(16, 45, _subtitle(runs[0]), colour=GREY),
            *_legend(runs[0]),
            *(line for number, run in enumerate(runs) for line in _Panel(run, number).lines()),
            "</svg>\n",
        ]
    )


def _subtitle(run: Run) -> str:
    late = LATE_INTERVALS / run.per_second
    return (
        f"{run.partitions} partitions, {run.per_second:g} messages a second to each; a row is a partition, its "
        f"colour the consumer that receives it; white: nothing came for more than {late:g} s"
    )


def _legend(run: Run) -> Iterator[str]:
    seats = sorted({event.seat for event in run.events if event.seat is not None})
    for number, seat in enumerate(seats):
        x = 16 + number * 52
        yield f"<rect x='{x}' y='56' width='14' height='10' rx='2' fill='{COLOURS[seat % len(COLOURS)]}'/>"
        yield _text(x + 19, 65, letter(seat), size=11)
    note = (
        f"{letter(seats[-1])} has a member_id of its own; times are the longest gaps, of those that move if any do"
    )
    yield _text(16 + len(seats) * 52 + 6, 65, note, size=11, colour=GREY)


class _Panel:
    def __init__(self, run: Run, number: int) -> None:
        self._run = run
        self._top = TOP + LABELS + number * (LABELS + PANEL + BOTTOM)
        self._begin, self._end = run.events[0].at, run.events[-1].at
        self._tracks = first_receipts(run.receipts)

    def lines(self) -> Iterator[str]:
        yield from self._strokes()
        yield from self._frame()
        yield from self._joins()
        for outcome in outcomes(self._run)[self._first_told :]:
            yield from self._event(outcome)

    # What was received

    def _strokes(self) -> Iterator[str]:
        """Rows are one unit high and numbered, which keeps the file small."""
        paths: dict[int, list[str]] = defaultdict(list)
        for number, partition in enumerate(self._order()):
            for each in stretches(self._tracks[partition], 1 / self._run.per_second):
                if each.begin < self._end:
                    paths[each.seat].append(self._stroke(each, number))
        row = PANEL / self._run.partitions
        yield f"<g transform='translate(0 {self._top + row / 2:.2f}) scale(1 {row:.3f})'>"
        for seat, pieces in sorted(paths.items()):
            yield f"<path d='{''.join(pieces)}' stroke='{COLOURS[seat % len(COLOURS)]}'/>"
        yield "</g>"

    def _order(self) -> list[int]:
        quiet = next(each for each in outcomes(self._run) if each.event.kind is Kind.STEADY)
        owners = {each.partition: each.owners[-1] for each in quiet.stayed + quiet.moved}
        return sorted(self._tracks, key=lambda partition: (owners[partition], partition))

    def _stroke(self, each: Stretch, row: int) -> str:
        begin, end = (self._x(max(self._begin, min(moment, self._end))) for moment in (each.begin, each.end))
        return f"M{begin:.1f} {row}H{end:.1f}"

    def _x(self, moment: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (moment - self._begin) / (self._end - self._begin)

    # What happened

    @property
    def _first_told(self) -> int:
        """Those who join at the beginning are told together: in the outcomes, the first of the others."""
        return next(place for place, each in enumerate(self._run.events) if each.kind is not Kind.JOIN) - 1

    def _joins(self) -> Iterator[str]:
        joins = self._run.events[: self._first_told + 1]
        yield from self._label(joins[0].at, f"{letter(joins[0].seat or 0)} to {letter(joins[-1].seat or 0)} join,")
        found = outcomes(self._run)[: self._first_told]
        told = f"{sum(each.moves for each in found)} moves, {_ms(_gap_of_movers(found))}"
        yield _text(self._x(joins[0].at) + 4, self._top - 26, "one after the other", size=11)
        yield _text(self._x(joins[0].at) + 4, self._top - 10, told, size=10, colour=GREY)
        for event in joins[1:]:
            yield self._mark(event, self._top - 4)

    def _event(self, outcome: Outcome) -> Iterator[str]:
        event, x = outcome.event, self._x(outcome.event.at) + 4
        first, second = (words.format(letter(event.seat or 0)) for words in WORDS[event.kind])
        yield self._mark(event, self._top - 50)
        yield from self._label(event.at, first)
        yield _text(x, self._top - 26, second, size=11)
        yield _text(x, self._top - 10, _told(outcome), size=10, colour=GREY)

    def _label(self, moment: float, text: str) -> Iterator[str]:
        yield _text(self._x(moment) + 4, self._top - 40, text, size=11)

    def _mark(self, event: Event, top: float) -> str:
        x, bottom = self._x(event.at), self._top + PANEL + 3
        return f"<path d='M{x:.1f} {top:.1f}V{bottom}' stroke='{LINE}' stroke-width='.8' stroke-dasharray='2 2'/>"

    # Around it

    def _frame(self) -> Iterator[str]:
        bottom = self._top + PANEL
        yield _text(16, self._top + 12, self._run.mode, size=13, weight="600")
        yield f"<path d='M{LEFT} {bottom + 3}H{WIDTH - RIGHT}' stroke='{GREY}' stroke-width='.8'/>"
        for seconds in range(0, int(self._end - self._begin) + 1, 5):
            x = self._x(self._begin + seconds)
            yield f"<path d='M{x:.1f} {bottom + 3}v4' stroke='{GREY}' stroke-width='.8'/>"
            yield _text(x - 6, bottom + 19, f"{seconds} s", size=10, colour=GREY)


def _told(outcome: Outcome) -> str:
    if outcome.event.kind is Kind.STEADY:
        return f"gap {_ms(longest_gap(outcome.stayed))}"
    if outcome.event.kind is Kind.RESTART:
        return f"{outcome.moves} moves, {_ms(longest_gap(outcome.back))}"
    return f"{outcome.moves} moves, {_ms(_gap_of_movers([outcome]))}"


def _gap_of_movers(found: Iterable[Outcome]) -> float:
    return longest_gap(each for outcome in found for each in outcome.moved)


def _ms(seconds: float) -> str:
    return f"{1_000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _text(x: float, y: float, text: str, *, size: int = 12, weight: str = "400", colour: str = INK) -> str:
    style = f"font-size='{size}' font-weight='{weight}' fill='{colour}'"
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(text)}</text>"

"""The tables of a page, between two marks: they are written by the benchmark, never by hand.

`python -m benchmarks.natural.page` writes them, and the charts, anew from the figures that are kept.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figures import rows_of_page
from benchmarks.natural import plots
from benchmarks.natural.report import COLUMNS, Report, kept_report
from benchmarks.natural.rows import Group

BEGIN, END = "<!-- natural: begin -->", "<!-- natural: end -->"
DOCS = Path(__file__).parents[2] / "docs"
PAGE, PLOTS = DOCS / "performance.md", DOCS / "plots"


def section(report: Report) -> str:
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield from _about(report)
    for group in Group:
        if lines := report.lines_of(group.value):
            yield f"### {group.value}\n"
            yield f"![{group.value}](plots/{plots.file_of(group)})\n"
            yield from _table(COLUMNS, [line.cells() for line in lines])
            yield ""
    yield "### Goals of one message at a time\n"
    yield from _table(("what", "figure", "goal", "met"), [])
    yield from rows_of_page(report.goals)
    yield ""
    for why, names in report.reasons().items():
        yield f"Left out, since {why}: {'; '.join(names)}.\n"


def _about(report: Report) -> Iterator[str]:
    about = report.machine
    libraries = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    yield f"Measured on {about['date']}: {about['cores']} cores ({about['processor']}), {about['system']}, Python"
    yield f"{about['python']}, load {about['load before']} when it began; {libraries}."
    runs = max((len(line.rates) for line in report.lines), default=0)
    yield f"Medians of {runs} runs; *client* and *server* are the processor time of a message in each.\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(cells)} |"


def write(report: Report, page: Path) -> None:
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{section(report)}\n{END}{after}")


if __name__ == "__main__":
    kept = kept_report(PLOTS)
    plots.draw_all(kept, PLOTS)
    write(kept, PAGE)

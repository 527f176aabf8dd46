"""docs/metrics.md is made of the table of families: `python -m tests.http.metrics.page` writes it anew."""

from pathlib import Path

from goqueue.http.metrics.families import FAMILIES, PREFIX, Family

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
BEGIN, END = "<!-- families: written by python -m tests.http.metrics.page -->", "<!-- end of families -->"
HEADINGS = {
    "broker": "The broker",
    "storage": "Storage",
    "consumer": "Consumer groups",
    "delay": "Delayed messages",
    "lane": "Lanes",
}
"""By the first word of a family's name."""


def group_of(family: Family) -> str:
    return family.name.removeprefix(PREFIX).partition("_")[0]


def tables() -> str:
    return "\n".join(
        _table(heading, [each for each in FAMILIES if group_of(each) == group])
        for group, heading in HEADINGS.items()
    )


def _table(heading: str, families: list[Family]) -> str:
    rows = "".join(map(_row, families))
    return f"## {heading}\n\n| metric | kind | labels | what it says | read from |\n|---|---|---|---|---|\n{rows}"


def _row(family: Family) -> str:
    labels = " ".join(f"`{label}`" for label in family.labels) or "–"
    return f"| `{family.name}` | {family.kind.value} | {labels} | {family.help} | {family.source.value} |\n"


def with_tables(page: str) -> str:
    before, after = page[: page.index(BEGIN)], page[page.index(END) :]
    return f"{before}{BEGIN}\n\n{tables()}\n{after}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))

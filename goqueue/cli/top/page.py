"""What `top` shows: lines about the broker, a table of groups, one of topics. For a screen it is cut to size."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from goqueue.cli.program.output import Column, fitting, line_of, printable
from goqueue.cli.program.sizes import size_text
from goqueue.cli.top.rates import Figures, GroupRate, TopicRate

UNKNOWN = "–"
GROUP_COLUMNS = [
    Column("GROUP", 5),
    Column("LAG", 3, is_number=True),
    Column("DONE/S", 6, is_number=True),
    Column("IN FLIGHT", 9, is_number=True),
    Column("OLDEST", 6, is_number=True),
    Column("RETRIES", 7, is_number=True),
    Column("MEMBERS", 7, is_number=True),
    Column("STATE", 5),
]
TOPIC_COLUMNS = [
    Column("TOPIC", 5),
    Column("WRITTEN/S", 9, is_number=True),
    Column("SIZE", 4, is_number=True),
    Column("PARTITIONS", 10, is_number=True),
]
NAME_WIDTH_MIN = 8


@dataclass(frozen=True, slots=True)
class PageLine:
    text: str
    is_title: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def lines(self, width: int, height: int) -> Iterator[PageLine]:
        """At most `height` lines. When rows are left out, the last line counts them."""
        shown = self.rows if len(self.rows) < height else self.rows[: max(0, height - 2)]
        columns = _fitting(self.columns, shown, width)
        yield PageLine(line_of(columns, [each.title for each in columns])[:width], is_title=True)
        for row in shown:
            yield PageLine(line_of(columns, [_short(row[0], columns[0].width), *row[1 : len(columns)]])[:width])
        if len(shown) < len(self.rows):
            yield PageLine(f"and {len(self.rows) - len(shown):,} more"[:width])


@dataclass(frozen=True, slots=True)
class Page:
    head: Sequence[str]
    groups: Table
    topics: Table


def page_of(figures: Figures) -> Page:
    return Page(
        list(_head(figures)),
        Table(GROUP_COLUMNS, [_group_row(each) for each in figures.groups]),
        Table(TOPIC_COLUMNS, [_topic_row(each) for each in figures.topics]),
    )


def lines_of(page: Page, title: str, width: int, height: int) -> list[PageLine]:
    """The page on a screen: first the title, then of the rest what has room."""
    lines = [PageLine(title[:width], is_title=True), *(PageLine(each[:width]) for each in page.head)]
    left = height - len(lines)
    for_groups, for_topics = _shares(left, len(page.groups.rows), len(page.topics.rows))
    for table, share in ((page.groups, for_groups), (page.topics, for_topics)):
        if share >= 3:
            lines += [PageLine(""), *table.lines(width, share - 1)]
    return lines[:height]


def fields_of(figures: Figures) -> dict[str, Any]:
    """All of it for programs."""
    return {
        "status": figures.look.status,
        "degraded": list(figures.look.degraded),
        "seconds": figures.seconds,
        "rates": dict(figures.rates),
        "groups": [{**asdict(each.group), "per_second": each.per_second} for each in figures.groups],
        "topics": [{**asdict(each.topic), "per_second": each.per_second} for each in figures.topics],
        "counters": dict(figures.look.counters),
    }


def _shares(left: int, groups: int, topics: int) -> tuple[int, int]:
    """A table wants an empty line, its titles and its rows. What one does not want the other gets."""
    wanted_by_groups, wanted_by_topics = groups + 2, topics + 2
    half = left // 2
    for_topics = min(wanted_by_topics, max(half, left - wanted_by_groups))
    return min(wanted_by_groups, left - for_topics), for_topics


def _fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[Column]:
    """The name gives way first, then the last columns."""
    name, *others = fitting(columns, rows)
    while others and NAME_WIDTH_MIN + sum(each.width + 2 for each in others) > width:
        others.pop()
    room = width - sum(each.width + 2 for each in others)
    return [name._replace(width=max(1, min(name.width, room))), *others]


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _head(figures: Figures) -> Iterator[str]:
    counters, rates = figures.look.counters, figures.rates
    yield "messages/s  " + "  ".join(
        f"{name} {_number(rates.get(name))}" for name in ("published", "delivered", "acked", "read", "refused")
    )
    yield (
        f"broker      connections {counters['connections.open']:,}  requests/s {_number(rates.get('requests'))}"
        f"  memory {_size(counters.get('memory.bytes'))}"
        f"  disk {_size(counters.get('disk.free_bytes'))} free of {_size(counters.get('disk.total_bytes'))}"
    )
    waits = "  ".join(f"{name} {_milliseconds(counters.get(f'fsync.{name}_ms'))}" for name in ("p50", "p99", "max"))
    yield f"fsync       rounds/s {_number(rates.get('syncs'))}  {waits}"
    stalls = ", ".join(
        f"{counters.get(f'loop.stalls_{limit}_ms', UNKNOWN)} > {limit} ms" for limit in (20, 100, 1000)
    )
    yield f"loop        stalls {stalls}  max {_milliseconds(counters.get('loop.stall_max_ms'))}"
    impaired = ", ".join(figures.look.degraded)
    yield f"health      {printable(figures.look.status)}" + (
        f", degraded: {printable(impaired)}" if impaired else ""
    )


def _group_row(rate: GroupRate) -> list[str]:
    group = rate.group
    return [
        printable(group.name),
        f"{group.lag:,}",
        _number(rate.per_second),
        f"{group.in_flight:,}",
        UNKNOWN if group.oldest_seconds is None else age(group.oldest_seconds),
        f"{group.waiting:,}",
        f"{group.members:,}",
        printable(group.state),
    ]


def _topic_row(rate: TopicRate) -> list[str]:
    topic = rate.topic
    return [printable(topic.name), _number(rate.per_second), size_text(topic.size), f"{topic.partitions:,}"]


def _number(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if 0 < value < 10 else f"{value:,.0f}"


def _size(value: int | None) -> str:
    return UNKNOWN if value is None else size_text(value)


def _milliseconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f} ms"


def age(seconds: float) -> str:
    """In the largest unit that fits, and the next one: 2 h 3 min."""
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {smaller}"
    raise AssertionError("a minute is the smallest of them")

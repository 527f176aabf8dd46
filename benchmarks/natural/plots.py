"""A chart for each group of rows, and one of a few rows for the README."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import Bar, picture
from benchmarks.natural.report import Line, Report
from benchmarks.natural.rows import Group

SUBTITLE = (
    "100-byte values, plain code of each library; medians of alternating runs; thin lines: slowest to fastest"
)
RATE, COST = "messages a second (more is better)", "the server's microseconds a message (less is better)"
OF_README = "one-message-at-a-time.svg"
README_ROWS = {
    "goqueue.blocking: send, acks=leader": "enqueue: goqueue.blocking",
    "Dramatiq: .send": "enqueue: Dramatiq",
    "Celery: .delay": "enqueue: Celery",
    "RQ: enqueue": "enqueue: RQ",
    "goqueue.blocking: worker, 10 threads, one INCR": "worker, one INCR: goqueue.blocking",
    "Dramatiq: 1 process, 10 threads, one INCR": "worker, one INCR: Dramatiq",
    "Celery: -P threads -c 10, early acks, one INCR": "worker, one INCR: Celery",
    "RQ: SimpleWorker, one slot, no fork, one INCR": "worker, one INCR: RQ",
    "goqueue: async for, await ack": "ack each: goqueue",
    "goqueue: async for, await ack, unconfirmed": "ack each, unconfirmed: goqueue",
    "pika: consume, basic_ack each, prefetch 500": "ack each, unconfirmed: pika",
    "nats-py: pulls of 500, ack each, unconfirmed": "ack each, unconfirmed: nats-py",
}


def draw_all(report: Report, folder: Path) -> None:
    for name, drawn in pictures(report):
        (folder / name).write_text(drawn)


def pictures(report: Report) -> Iterator[tuple[str, str]]:
    """The names of the files, and what is in them."""
    for group in Group:
        if lines := report.lines_of(group.value):
            yield file_of(group), _of_group(group, lines)
    by_name = {line.name: line for line in report.lines}
    if chosen := [_rate(by_name[name], label) for name, label in README_ROWS.items() if name in by_name]:
        yield OF_README, picture(f"One message at a time: {RATE}", SUBTITLE, chosen)


def file_of(group: Group) -> str:
    return f"natural-{group.name.lower().replace('_', '-')}.svg"


def _of_group(group: Group, lines: list[Line]) -> str:
    if group is not Group.CONNECTIONS:
        bars = sorted((_rate(line, line.who) for line in lines), key=lambda bar: bar.value, reverse=True)
        return picture(f"{group.value}: {RATE}", SUBTITLE, bars)
    bars = sorted(map(_cost, lines), key=lambda bar: bar.value)
    return picture(f"{group.value}: {COST}", SUBTITLE, bars)


def _rate(line: Line, label: str) -> Bar:
    return Bar(label, f"{line.way}; {line.durability}", line.rates, line.rate, line.contender == "goqueue")


def _cost(line: Line) -> Bar:
    value = line.server_us or 0.0
    return Bar(line.who, f"{line.way}; {line.durability}", [value], value, line.contender == "goqueue")

"""`goqueue produce`: publishes the lines of stdin.

Each line gets its partition and is put into that partition's queue. A queue passes all that wait to the producer,
one call after the other: the order in a partition, and so of a key, is the order of the input. The queues are
bounded, so a fast stdin is held back. A bad line stops the reading; everything before it is published, and of later
lines only those that were under way.
"""

import gc
import json
import logging
import os
import stat
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from random import randrange
from typing import Any, NamedTuple, TypeAlias

import click
import trio

from goqueue.cli.messages.input import message_in_json, message_in_line
from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import JSON, acks_option, counted, output_option, printable
from goqueue.cli.program.progress import progress_bar
from goqueue.cli.program.running import Misuse
from goqueue.client.client import Client
from goqueue.client.producing.content import check_content, priority_of
from goqueue.client.producing.options import name_of
from goqueue.client.producing.producer import Producer
from goqueue.client.reading.message import Published
from goqueue.core.records.record import KEY_SIZE_MAX, VALUE_SIZE_MAX
from goqueue.core.sending.partitioner import Partitioner
from goqueue.core.topics.metadata import PARTITIONS_MAX
from goqueue.errors import GoQueueError, PublishFailed
from goqueue.nursery import PlainNursery

LINES, NDJSON = "lines", "ndjson"
LANES_MAX = 64
WAITING_PER_LANE = 4
COLLECT_AFTER = 200_000
READ_SIZE = 64 * 1024
LINE_SIZE_MAX = 2 * VALUE_SIZE_MAX
"""Room for the largest value as base64, and for the JSON around it."""

Advance = Callable[[int], None]
Parse = Callable[[bytes], dict[str, Any]]


@click.command(short_help="Publish what comes on stdin, line by line.")
@click.argument("topic")
@click.option("--format", "line_format", type=click.Choice([LINES, NDJSON]), default=LINES, show_default=True)
@click.option("--key-separator", metavar="TEXT", help="In lines: what stands between key and value.")
@acks_option
@broker_options
@output_option
def produce(
    *, topic: str, line_format: str, key_separator: str | None, acks: str, broker: BrokerAddress, output: str
) -> None:
    """Publish what comes on stdin: each line a value, or with `--format ndjson` an object.

    An object has "value" (text, or null: a tombstone, which deletes its key) or "value_base64", and may have "key"
    or "key_base64", "headers" (of text, or of {"base64": …}), "priority" and "partition". What
    `consume --format ndjson` writes can be read again. With `-o json` each confirmed message is a line on stdout:
    its line in the input, topic, partition, offset, and whether it was a repeat by its "message_id".
    """
    if key_separator == "" or (key_separator and line_format == NDJSON):
        raise click.UsageError("--key-separator is some text, and for --format lines only")
    if sys.stdin is None:
        raise Misuse("stdin is closed; let it come from a file or a pipe, or from /dev/null")
    separator = os.fsencode(key_separator) if key_separator else None
    parse: Parse = message_in_json if line_format == NDJSON else lambda line: message_in_line(line, separator)
    report = _write_published if output == JSON else _write_nothing
    tally = Tally(report)
    _tell_who_types(topic)
    with _progress() as advance, _seldom_collecting(), _telling_why_it_waits():
        ask(
            broker,
            lambda client: Production(client, topic, tally.note, advance, acks, randrange(PARTITIONS_MAX)).run(
                lines_of(_read_stdin), parse
            ),
        )
    _tell_how_many(tally, topic, acks)


@dataclass
class Tally:
    """Counts what was published."""

    report: "Report"
    messages: int = 0
    repeats: int = 0

    def note(self, confirmed: "Sequence[tuple[Line, Published]]") -> None:
        self.messages += len(confirmed)
        self.repeats += sum(each.repeated for _, each in confirmed)
        self.report(confirmed)


def _tell_who_types(topic: str) -> None:
    if sys.stdin.isatty():
        click.echo(f"each line becomes a message of {printable(topic)}; Ctrl-D ends", err=True)


def _tell_how_many(tally: Tally, topic: str, acks: str) -> None:
    """On stderr: what comes on stdout is for programs. After an error, the error names the line it came to."""
    repeats = f", {counted(tally.repeats, 'repeat')} among them" if tally.repeats else ""
    done = "sent unconfirmed" if acks == "none" else "published"
    click.echo(f"{counted(tally.messages, 'message')} {done} to {printable(topic)}{repeats}", err=True)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Thousands of lines are alive at once and none in a cycle: garbage collection took a third of the time."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _telling_why_it_waits() -> Iterator[None]:
    """Write the client's warnings to stderr: a broker that is away, or that refuses messages for now."""
    logger, handler = logging.getLogger("goqueue"), logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


# Lines


class Line(NamedTuple):
    number: int
    content: bytes


class BadLine(click.ClickException):
    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {printable(reason)}")
        self.number = number


async def _read_stdin() -> bytes:
    # Past the buffer: a thread that still waits inside one would break the end of the program.
    raw: Any = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    return await trio.to_thread.run_sync(raw.read, READ_SIZE, abandon_on_cancel=True)


async def lines_of(
    read: Callable[[], Awaitable[bytes]], size_max: int = LINE_SIZE_MAX
) -> AsyncGenerator[list[Line], None]:
    """The whole lines of each piece that is read. The last line may lack its end."""
    number, rest = 0, bytearray()
    while chunk := await read():
        first, *others = chunk.split(b"\n")
        rest += first
        if others:
            last = others.pop()
            whole = [bytes(rest), *others]
            yield list(map(Line, range(number + 1, number + 1 + len(whole)), whole))
            number, rest = number + len(whole), bytearray(last)
        if len(rest) > size_max:
            raise BadLine(number + 1, f"longer than {size_max:,} bytes")
    if rest:
        yield [Line(number + 1, bytes(rest))]


# Publishing


class Work(NamedTuple):
    """A line's message for the producer; all messages of a call share `options`."""

    line: Line
    value: bytes | None
    key: bytes | None
    options: dict[str, Any]


Report: TypeAlias = Callable[[Sequence[tuple[Line, Published]]], None]


@dataclass
class Production:
    """One run: lines in, confirmed messages out."""

    client: Client
    topic: str
    report: Report
    advance: Advance
    acks: str = "all"
    first_partition: int = 0
    """Where lines without a key begin, modulo the number of partitions."""
    _reading: trio.CancelScope = field(default_factory=trio.CancelScope)
    _failure: BadLine | None = None
    _partitioner: Partitioner = field(init=False)
    _lanes: list[trio.MemorySendChannel[list[Work]]] = field(default_factory=list)

    async def run(self, lines: AsyncGenerator[list[Line], None], parse: Parse) -> None:
        found = await self.client.topic(self.topic)
        self._partitioner = Partitioner(len(found.partitions), self.first_partition)
        async with self.client.producer(self.topic, acks=self.acks) as producer, PlainNursery() as nursery:
            for _ in range(min(LANES_MAX, len(found.partitions))):
                lane, waiting = trio.open_memory_channel[list[Work]](WAITING_PER_LANE)
                self._lanes.append(lane)
                nursery.start_soon(self._publish_all, producer, waiting)
            with self._reading:
                await self._deal_all(lines, parse)
            for lane in self._lanes:
                lane.close()
        if self._failure is not None:
            raise self._failure

    async def _deal_all(self, lines: AsyncGenerator[list[Line], None], parse: Parse) -> None:
        """Put lines into the queues, until a line is bad or was refused."""
        try:
            async with aclosing(lines):
                async for arrived in lines:
                    await self._deal(arrived, parse)
        except BadLine as failure:
            self._fail(failure)

    async def _deal(self, lines: list[Line], parse: Parse) -> None:
        """Lines before a bad one are queued before it raises."""
        dealt: list[list[Work]] = [[] for _ in self._lanes]
        bad = self._sort(lines, parse, dealt)
        for lane, work in zip(self._lanes, dealt, strict=True):
            if work:
                await lane.send(work)
        if bad is not None:
            raise bad

    def _sort(self, lines: list[Line], parse: Parse, dealt: list[list[Work]]) -> BadLine | None:
        count = len(dealt)
        for line in lines:
            if parse is message_in_json and not line.content.strip():
                continue
            try:
                work = self._work_of(line, parse(line.content))
            except GoQueueError as error:
                return BadLine(line.number, error.message)
            dealt[work.options["partition"] % count].append(work)
        return None

    def _work_of(self, line: Line, message: dict[str, Any]) -> Work:
        value, key = message.pop("value"), message.pop("key", None)
        if len(line.content) > KEY_SIZE_MAX or message.get("headers"):  # else no part of it can be too large
            check_content(value, key, message.get("headers"))
        if "priority" in message:
            message["priority"] = priority_of(message["priority"])
        if "message_id" in message:
            message["message_id"] = name_of(message["message_id"])
        chosen_by = key or message.get("message_id")  # a repeat goes to the partition of its first
        message["partition"] = self._partition_of(chosen_by, message.get("partition"))
        return Work(line, value, key, message)

    def _partition_of(self, key: bytes | None, partition: int | None) -> int:
        """Chosen here and not while publishing, where the order is not known."""
        chosen = self._partitioner.choose(key, partition)
        if not key and partition is None:
            self._partitioner.begin_next_batch()
        return chosen

    async def _publish_all(self, producer: Producer, waiting: trio.MemoryReceiveChannel[list[Work]]) -> None:
        async for arrived in waiting:
            for _, group in groupby(arrived, key=_goes_with):
                alike = list(group)
                await self._publish(producer, alike, alike[0].options)

    async def _publish(self, producer: Producer, alike: list[Work], options: dict[str, Any]) -> None:
        """The only method that sends."""
        if self._failure is not None:
            alike = [work for work in alike if work.line.number < self._failure.number]
        try:
            values, keys = [work.value for work in alike], [work.key for work in alike]
            results: Sequence[object] = await producer.send_many(values, keys, **options)
        except PublishFailed as error:
            results = error.results
        except GoQueueError as error:
            results = [error] * len(alike)
        self._take(alike, results)

    def _take(self, alike: list[Work], results: Sequence[object]) -> None:
        pairs = zip(alike, results, strict=True)
        confirmed = [(work.line, result) for work, result in pairs if isinstance(result, Published)]
        self.advance(sum(len(line.content) + 1 for line, _ in confirmed))
        self.report(confirmed)
        for work, result in zip(alike, results, strict=True):
            if isinstance(result, GoQueueError):
                self._fail(BadLine(work.line.number, result.message))

    def _fail(self, failure: BadLine) -> None:
        """Keep the first bad line for the error, and stop reading, even while stdin is quiet."""
        self._reading.cancel()
        if self._failure is None or failure.number < self._failure.number:
            self._failure = failure


def _goes_with(work: Work) -> object:
    """Messages with the same value may be sent in one call: an id names one message, so it goes alone."""
    return work.line.number if "message_id" in work.options else work.options


# Output


def _write_published(confirmed: Sequence[tuple[Line, Published]]) -> None:
    if confirmed:
        click.echo("\n".join(json.dumps(_published(line, each)) for line, each in confirmed))


def _published(line: Line, published: Published) -> dict[str, Any]:
    return {"line": line.number, **published._asdict(), "repeated": published.repeated}


def _write_nothing(confirmed: Sequence[tuple[Line, Published]]) -> None:
    """Without `-o json` nothing is written."""


@contextmanager
def _progress() -> Iterator[Advance]:
    """No bar while somebody types: it would be in the way."""
    if sys.stdin.isatty():
        yield lambda _: None
        return
    with progress_bar() as bar:
        if (size := _stdin_size()) is not None:
            bar.begin(size)
        yield bar.advance


def _stdin_size() -> int | None:
    try:
        found = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None

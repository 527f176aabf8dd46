"""`goqueue produce`: what comes on stdin becomes messages.

Each line gets its partition and is dealt to that partition's lane, which publishes one message at a time: order in
a partition, and so of a key, is the order of the input. What waits is bounded, so a fast stdin is held back. A bad
line stops the reading; everything before it is published, and of what comes after it only what was on its way.
"""

import json
import os
import stat
import sys
from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import click
import trio

from goqueue.cli.config import BrokerAddress, ask, broker_options
from goqueue.cli.output import JSON, output_option, printable, progress_bar, write_json
from goqueue.core.partitioner import Partitioner
from goqueue.core.record import VALUE_SIZE_MAX
from goqueue.errors import GoQueueError, InvalidMessage
from goqueue.net.client import Client
from goqueue.net.message import Published
from goqueue.nursery import PlainNursery

LINES, NDJSON = "lines", "ndjson"
LANES_MAX = 64
WAITING_PER_LANE = 8
READ_SIZE = 64 * 1024
LINE_SIZE_MAX = 2 * VALUE_SIZE_MAX
"""Room for the largest value as base64, and for what stands around it."""
FIELDS = {"key", "key_base64", "value", "value_base64", "headers", "priority", "partition"}
PASSED_OVER = {"topic", "offset", "timestamp"}
"""What `consume` writes and a new message gets anew."""

Advance = Callable[[int], None]
Parse = Callable[[bytes], dict[str, Any]]


@click.command()
@click.argument("topic")
@click.option("--format", "line_format", type=click.Choice([LINES, NDJSON]), default=LINES, show_default=True)
@click.option("--key-separator", metavar="TEXT", help="In lines: what stands between key and value.")
@broker_options
@output_option
def produce(topic: str, line_format: str, key_separator: str | None, broker: BrokerAddress, output: str) -> None:
    """Publish what comes on stdin: each line a value, or with `--format ndjson` an object.

    An object has "value" (text) or "value_base64", and may have "key" or "key_base64", "headers" (of text, or of
    {"base64": …}), "priority" and "partition". What `consume --format ndjson` writes can be read again. With
    `-o json` each confirmed message is a line on stdout: its line in the input, topic, partition and offset.
    """
    if key_separator == "" or (key_separator and line_format == NDJSON):
        raise click.UsageError("--key-separator is some text, and for --format lines only")
    separator = os.fsencode(key_separator) if key_separator else None
    parse: Parse = message_in_json if line_format == NDJSON else lambda line: message_in_line(line, separator)
    report = _write_published if output == JSON else _write_nothing
    with _progress() as advance:
        ask(broker, lambda client: Production(client, topic, report, advance).run(lines_of(_read_stdin), parse))


# Lines


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    content: bytes


Work: TypeAlias = tuple[Line, dict[str, Any]]


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
) -> AsyncGenerator[Line, None]:
    """The last line may lack its end."""
    number, rest = 0, bytearray()
    while chunk := await read():
        first, *others = chunk.split(b"\n")
        rest += first
        for other in others:
            number += 1
            yield Line(number, bytes(rest))
            rest = bytearray(other)
        if len(rest) > size_max:
            raise BadLine(number + 1, f"longer than {size_max:,} bytes")
    if rest:
        yield Line(number + 1, bytes(rest))


def message_in_line(line: bytes, separator: bytes | None) -> dict[str, Any]:
    if separator is None:
        return {"value": line}
    key, found, value = line.partition(separator)
    if not found:
        raise InvalidMessage(f"has no key: {separator.decode(errors='replace')!r} does not occur in it")
    return {"key": key or None, "value": value}


def message_in_json(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise InvalidMessage('is not an object like {"value": "text"}')
    if unknown := sorted(set(fields) - FIELDS - PASSED_OVER):
        raise InvalidMessage(f"{unknown[0]!r} is not a field; there are {', '.join(sorted(FIELDS))}")
    content = {"key": _bytes_of(fields, "key"), "value": _bytes_of(fields, "value"), "headers": _headers_of(fields)}
    if content["value"] is None:
        raise InvalidMessage("has neither value nor value_base64")
    return content | {name: fields[name] for name in ("priority", "partition") if fields.get(name) is not None}


def _bytes_of(fields: dict[str, Any], name: str) -> bytes | None:
    text, encoded = fields.get(name), fields.get(f"{name}_base64")
    if text is not None and encoded is not None:
        raise InvalidMessage(f"has both {name} and {name}_base64")
    return _encoded(name, text) if encoded is None else _decoded(f"{name}_base64", encoded)


def _headers_of(fields: dict[str, Any]) -> dict[str, bytes]:
    headers = fields.get("headers") or {}
    if not isinstance(headers, dict):
        raise InvalidMessage("headers are an object of names and texts")
    return {name: _header(name, value) for name, value in headers.items()}


def _header(name: str, value: object) -> bytes:
    if isinstance(value, dict) and set(value) == {"base64"}:
        return _decoded(f"header {name}", value["base64"])
    encoded = _encoded(f"header {name}", value)
    if encoded is None:
        raise InvalidMessage(f"header {name} is null; give text")
    return encoded


def _encoded(name: str, text: object) -> bytes | None:
    if text is None:
        return None
    try:
        return text.encode()  # type: ignore[attr-defined, no-any-return]
    except (AttributeError, UnicodeEncodeError):
        raise InvalidMessage(f"{name} is not text; other bytes go as base64") from None


def _decoded(name: str, encoded: object) -> bytes:
    try:
        return b64decode(encoded, validate=True)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise InvalidMessage(f"{name} is not base64") from None


# Publishing


@dataclass
class Production:
    """One run: lines in, confirmed messages out."""

    client: Client
    topic: str
    report: Callable[[Line, Published], None]
    advance: Advance
    _reading: trio.CancelScope = field(default_factory=trio.CancelScope)
    _failure: BadLine | None = None
    _partitioner: Partitioner = field(init=False)
    _lanes: list[trio.MemorySendChannel[Work]] = field(default_factory=list)

    async def run(self, lines: AsyncGenerator[Line, None], parse: Parse) -> None:
        found = await self.client.topic(self.topic)
        self._partitioner = Partitioner(len(found.partitions))
        async with PlainNursery() as nursery:
            for _ in range(min(LANES_MAX, len(found.partitions))):
                lane, work = trio.open_memory_channel[Work](WAITING_PER_LANE)
                self._lanes.append(lane)
                nursery.start_soon(self._publish_all, work)
            with self._reading:
                await self._deal(lines, parse)
            for lane in self._lanes:
                lane.close()
        if self._failure is not None:
            raise self._failure

    async def _deal(self, lines: AsyncGenerator[Line, None], parse: Parse) -> None:
        """To the lanes, until a line is bad or was refused."""
        try:
            async with aclosing(lines):
                async for line in lines:
                    if line.content.strip() or parse is not message_in_json:
                        await self._deal_one(line, parse)
        except BadLine as failure:
            self._fail(failure)

    async def _deal_one(self, line: Line, parse: Parse) -> None:
        try:
            message = parse(line.content)
            message["partition"] = self._partition_of(message)
        except GoQueueError as error:
            raise BadLine(line.number, error.message) from None
        await self._lanes[message["partition"] % len(self._lanes)].send((line, message))

    def _partition_of(self, message: dict[str, Any]) -> int:
        """Chosen here and not while publishing, where nothing says who comes first."""
        return self._partitioner.choose_all([message.get("key")], message.get("partition"))[0]

    async def _publish_all(self, work: trio.MemoryReceiveChannel[Work]) -> None:
        async for line, message in work:
            if self._failure is not None and line.number > self._failure.number:
                continue
            try:
                published = await self._publish(message)
            except GoQueueError as error:
                self._fail(BadLine(line.number, error.message))
            else:
                self.advance(len(line.content) + 1)
                self.report(line, published)

    async def _publish(self, message: dict[str, Any]) -> Published:
        """The one call that sends."""
        return await self.client.publish(self.topic, **message)

    def _fail(self, failure: BadLine) -> None:
        """The first bad line is the one to name; nothing is read any more, also when stdin has nothing just now."""
        self._reading.cancel()
        if self._failure is None or failure.number < self._failure.number:
            self._failure = failure


# What is shown


def _write_published(line: Line, published: Published) -> None:
    write_json({"line": line.number, **published._asdict()})


def _write_nothing(line: Line, published: Published) -> None:
    """Who wants to know says `-o json`."""


@contextmanager
def _progress() -> Iterator[Advance]:
    """Not for somebody who types: the bar would stand in the way."""
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

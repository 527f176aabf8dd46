"""PublishRun: some messages in JSON, a message a line, or one message as it is."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import orjson
from pydantic import ConfigDict, Field

from goqueue.client.producing.content import acks_of
from goqueue.core.names import check_publishable
from goqueue.errors import GoQueueError, UnknownPartition
from goqueue.http.messages.incoming import (
    VALUE_FIELDS,
    GatheredMessages,
    MessageGathering,
    read_message,
    untraced,
)
from goqueue.http.messages.publishing import PARTLY, PublishRun, error_in_json
from goqueue.http.routes.topics import TOPIC_ERRORS, idempotency_key
from goqueue.http.routing.answers import json_response, retry_headers
from goqueue.http.routing.reading import JSON_SIZE_MAX, media_type, parse_exactly, parse_json
from goqueue.http.routing.route import NDJSON, OCTETS, Body, HttpCall, Model, Route
from goqueue.http.server.errors import BodyTooLarge, InvalidRequest, status_of
from goqueue.http.server.exchange import JSON, Exchange, Response
from goqueue.net.wire.messages import DescribeTopics, Produce
from goqueue.storage.slices import Slices

GROUP = "Messages"
MESSAGES_MAX = 10_000
VALUE_SIZE_MAX = 16 * 1024 * 1024
"""Limit of a value that is the body."""
LINES_MAX = 1_000
"""Limit of lines that are published together."""
ANSWER_BYTES = 64 * 1024
"""Lines of the answer are sent when there are as many: a client may read nothing before it has sent everything."""


class PublishQuery(Model):
    acks: Literal["all", "leader", "none", "0", "1", "2"] = "all"
    key: str | None = None
    """This and what follows: only with a body that is one message."""
    key_base64: str | None = None
    partition: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    priority: str | None = None
    delay: float | None = None
    deliver_at: str | None = None
    ttl: float | None = None
    message_id: str | None = None
    headers: str | None = None
    """A JSON object of names and texts."""


_BASE64: dict[str, Any] = {"contentEncoding": "base64", "pattern": "^([A-Za-z0-9+/]{4})*$"}
_ONE_VALUE: dict[str, Any] = {"oneOf": [{"required": [name]} for name in VALUE_FIELDS]}
_SECONDS_SHAPE: dict[str, Any] = {"minimum": 0, "maximum": 31_536_000}


class HeaderBytes(Model):
    base64: Annotated[str, Field(json_schema_extra=_BASE64)]


class NewMessage(Model):
    model_config = ConfigDict(json_schema_extra=_ONE_VALUE)

    value: str | None = None
    """Text; null is a tombstone. Exactly one of the three forms of a value is given."""
    value_base64: Annotated[str, Field(json_schema_extra=_BASE64)] | None = None
    value_json: Any = None
    key: str | None = None
    key_base64: Annotated[str, Field(json_schema_extra=_BASE64)] | None = None
    headers: dict[str, str | HeaderBytes] | None = None
    priority: Literal["critical", "high", "normal", "low", "background"] | Literal[0, 1, 2, 3, 4] | None = None
    partition: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    delay: Annotated[float, Field(json_schema_extra=_SECONDS_SHAPE)] | None = None
    """Seconds."""
    deliver_at: float | str | None = None
    ttl: Annotated[float, Field(json_schema_extra=_SECONDS_SHAPE)] | None = None
    message_id: str | None = None


class NewMessages(Body):
    messages: list[NewMessage]


class PublishResult(Model):
    """Where a message is, or the code of its refusal and the rest of the error."""

    partition: int | None = None
    offset: int | None = None
    """Null with `acks=none`."""
    repeated: bool = False
    """An earlier message has the same id, and this is its offset."""
    code: str | None = None
    message: str | None = None
    retryable: bool | None = None
    details: dict[str, Any] | None = None


class PublishAnswer(Model):
    results: list[PublishResult]


class ParsedMessages(NamedTuple):
    messages: Sequence[Any]
    exactly: Callable[[], Sequence[Any]]
    """The same messages, with every number as it was sent; it takes long."""
    refused: dict[int, GoQueueError]
    """Those that are no JSON, by place."""


async def publish(call: HttpCall[PublishQuery, None]) -> Response | None:
    check_publishable(call.path["topic"])
    kind = media_type(call.exchange.head)
    if kind == OCTETS:
        return await _publish_body(call)
    if any(getattr(call.query, name) is not None for name in _OF_ONE_MESSAGE):
        raise InvalidRequest(f"{', '.join(_OF_ONE_MESSAGE)} in the query belong to a body of {OCTETS}")
    return await (_publish_lines(call) if kind == NDJSON else _publish_json(call))


_OF_ONE_MESSAGE = tuple(name for name in PublishQuery.model_fields if name != "acks")


async def _publish_json(call: HttpCall[PublishQuery, None]) -> Response:
    data = await call.exchange.body(JSON_SIZE_MAX)
    body = parse_json(data)
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list):
        raise InvalidRequest('the body is {"messages": [{"value": …}]}, and nothing beside')
    unknown = next((name for name in body if name != "messages"), None)
    if unknown is not None:
        raise InvalidRequest(f"there is no field {unknown!r} here, beside messages", fields=[unknown])
    if len(messages) > MESSAGES_MAX:
        raise BodyTooLarge(
            f"there are {len(messages):,} messages; send {MESSAGES_MAX:,} at a time, or each on a line ({NDJSON})",
            limit=MESSAGES_MAX,
        )
    parsed = ParsedMessages(messages, partial(_messages_exactly, data), {})
    done = await _published(call, parsed, idempotency_key(call.exchange))
    return json_response({"results": done.results}, done.status())


def _messages_exactly(data: bytes) -> Sequence[Any]:
    messages: Sequence[Any] = parse_exactly(data)["messages"]
    return messages


async def _publish_body(call: HttpCall[PublishQuery, None]) -> Response:
    """The body is the value, and the query has what else there is to say."""
    query = call.query
    value = await call.exchange.body(VALUE_SIZE_MAX)
    told = {name: getattr(query, name) for name in _OF_ONE_MESSAGE if getattr(query, name) is not None}
    if query.headers is not None:
        told["headers"] = parse_json(query.headers.encode(), "the parameter headers")
    _, key, plan = read_message({"value": "", **told}, _now(call))

    async def gather(gathering: MessageGathering) -> GatheredMessages:
        gathering.add_read(0, value, key, plan)
        return gathering.gathered(1)

    done = await _publish(call, gather, idempotency_key(call.exchange))
    return json_response({"results": done.results}, done.status())


# Lines


async def _publish_lines(call: HttpCall[PublishQuery, None]) -> None:
    """A message a line, published as they come; the answer has a line for each batch, with what failed in it. A
    failure that concerns the rest of the body ends the answer, with its error as the last line."""
    exchange, name = call.exchange, idempotency_key(call.exchange)
    await call.gateway.topics.find(call.path["topic"], call.ask)  # an unknown topic is a 404
    reports, count = _Reports(exchange), 0
    try:
        async for lines in _Lines(exchange):
            await reports.add(lines, await _published_lines(call, lines, count, name))
            count += len(lines)
    except GoQueueError as error:
        if count == 0:
            raise
        await reports.add_error(error)
    await reports.end()


async def _published_lines(
    call: HttpCall[PublishQuery, None], lines: Sequence["BodyLine"], first: int, name: str | None
) -> PublishRun:
    messages, refused, slices = list[Any](), dict[int, GoQueueError](), Slices()
    for place, (_, text) in enumerate(lines):
        try:
            messages.append(parse_json(text, "the line"))
        except GoQueueError as error:
            messages.append(None)
            refused[place] = untraced(error)
            await slices.step()
    parsed = ParsedMessages(messages, partial(_lines_exactly, lines, refused), refused)
    return await _published(call, parsed, name, first)


def _lines_exactly(lines: Sequence["BodyLine"], refused: dict[int, GoQueueError]) -> Sequence[Any]:
    messages = list[Any]()
    for place, (_, text) in enumerate(lines):
        try:
            messages.append(None if place in refused else parse_exactly(text, "the line"))
        except GoQueueError as error:
            messages.append(None)
            refused[place] = untraced(error)
    return messages


class BodyLine(NamedTuple):
    number: int
    text: bytes


class _Lines:
    """The lines of a body that have something in them, as many at a time as have come."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._number = 0
        self._rest = bytearray()
        self._ready: Iterator[list[BodyLine]] = iter(())
        self._is_over = False

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> list[BodyLine]:
        while True:
            lines = next(self._ready, None)
            if lines is not None:
                return lines
            if self._is_over:
                raise StopAsyncIteration
            self._exchange.keep(len(self._rest))
            part = await self._exchange.next_part()
            self._is_over = not part
            filled = self._cut(part)
            self._ready = iter([filled[at : at + LINES_MAX] for at in range(0, len(filled), LINES_MAX)])

    def _cut(self, part: bytes) -> list[BodyLine]:
        """The lines that end in this part and are not empty. A long line in many parts is not copied for each of
        them."""
        self._rest += part
        if len(self._rest) > JSON_SIZE_MAX + len(part):
            raise BodyTooLarge(f"a line has at most {JSON_SIZE_MAX:,} bytes", limit=JSON_SIZE_MAX)
        if part and b"\n" not in part:
            return []
        texts = bytes(self._rest).split(b"\n")
        self._rest = bytearray(texts.pop() if part else b"")
        numbered = enumerate(texts, self._number + 1)
        lines = [BodyLine(number, text) for number, text in numbered if text and not text.isspace()]
        self._number += len(texts)
        return lines


class _Reports:
    """The answer: a line for each batch. It has the status of all, unless it had to begin before their end."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._waiting = bytearray()
        self._published = 0
        self._statuses: set[int] = set()

    async def add(self, lines: Sequence[BodyLine], done: PublishRun) -> None:
        failed = [
            {"line": line.number, **result}
            for line, result in zip(lines, done.results, strict=True)
            if result and "code" in result
        ]
        published = len(lines) - len(failed)
        repeated = sum(bool(result and result.get("repeated")) for result in done.results)
        self._published += published
        self._statuses |= done.statuses
        told = {"first": lines[0].number, "published": published, "failed": failed}
        await self._write(told | ({"repeated": repeated} if repeated else {}))

    async def add_error(self, error: GoQueueError) -> None:
        self._statuses.add(status_of(error))
        await self._write({**error_in_json(error), "request_id": self._exchange.request_id})

    async def _write(self, line: Mapping[str, Any]) -> None:
        self._waiting += orjson.dumps(line) + b"\n"
        if len(self._waiting) > ANSWER_BYTES:
            if self._exchange.status is None:
                await self._exchange.begin(Response(content_type=NDJSON))
            await self._exchange.send(bytes(self._waiting))
            self._waiting.clear()

    async def end(self) -> None:
        if self._exchange.status is None:
            status = PARTLY if self._statuses and self._published else max(self._statuses, default=200)
            await self._exchange.answer(Response(status, bytes(self._waiting), NDJSON, retry_headers(status)))
            return
        await self._exchange.send(bytes(self._waiting))
        await self._exchange.end()


# All of them


async def _published(
    call: HttpCall[PublishQuery, None], parsed: ParsedMessages, name: str | None, first: int = 0
) -> PublishRun:
    async def gather(gathering: MessageGathering) -> GatheredMessages:
        gathered = await gathering.gather(parsed.messages)
        if gathered.may_be_rounded:
            gathered = await gathering.anew().gather(parsed.exactly())
        gathered.refused.update(parsed.refused)
        return gathered

    return await _publish(call, gather, name, first)


async def _publish(
    call: HttpCall[PublishQuery, None],
    gather: Callable[[MessageGathering], Awaitable[GatheredMessages]],
    name: str | None,
    first: int = 0,
) -> PublishRun:
    acks = acks_of(int(call.query.acks) if call.query.acks.isdecimal() else call.query.acks)
    topics, topic_name = call.gateway.topics, call.path["topic"]
    while True:
        topic = await topics.find(topic_name, call.ask)
        partitioner = topics.partitioner(topic, call.gateway.broker.environment.random)
        gathered = await gather(MessageGathering(_now(call), partitioner, name, first))
        if _misses_partitions(gathered) and await topics.look(topic_name, call.ask) != topic:
            continue  # there are more by now
        done = PublishRun(call.ask, topic, acks, gathered)
        await done.run()
        if not done.topic_is_gone:
            return done
        topics.forget(topic_name)  # it was made again under its name, or the next look says that it is gone


def _misses_partitions(gathered: GatheredMessages) -> bool:
    return any(isinstance(error, UnknownPartition) for error in gathered.refused.values())


def _now(call: HttpCall[Any, Any]) -> int:
    return int(call.gateway.broker.environment.clock.now())


ROUTES = (
    Route(
        "POST",
        "/topics/{topic}/messages",
        publish,
        "Publish messages: some in JSON, one on each line, or one whose value is the body.",
        GROUP,
        query=PublishQuery,
        takes=(JSON, NDJSON, OCTETS),
        documented=(NewMessages,),
        answer=PublishAnswer,
        gives=(JSON, NDJSON),
        also={207: "Some were published; each result says what became of its message."},
        errors=(
            *TOPIC_ERRORS,
            *("too_large", "invalid_message", "schema_refused", "disk_full", "topic_full", "unavailable"),
        ),
        asks=(DescribeTopics, Produce),
        example="""-d '{"messages": [{"key": "42", "value": "hello"}]}' $URL/topics/orders/messages""",
    ),
)

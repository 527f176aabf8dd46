"""Reading without a group: a page at a time, one message, or a stream that goes on."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast

import orjson
import trio
from pydantic import Field

from goqueue.client.link.moments import UNREADABLE, clamped_microseconds_of
from goqueue.client.reading.message import Message
from goqueue.errors import GoQueueError, UnknownTopic
from goqueue.http.messages.outgoing import Form, message_in_json
from goqueue.http.messages.publishing import error_in_json
from goqueue.http.messages.reading import TakenMessages, TopicReading, cursor_of, positions_of
from goqueue.http.routes.topics import PARTITION_ERRORS, number_in_path
from goqueue.http.routing.route import EVENTS, NDJSON, OCTETS, HttpCall, Model, Route
from goqueue.http.routing.topics import NamedTopic
from goqueue.http.server.errors import InvalidRequest, NotAcceptable, NotFound
from goqueue.http.server.exchange import JSON, Response
from goqueue.net.wire.errors import GoingAway
from goqueue.net.wire.messages import (
    DescribeTopics,
    Fetch,
    OffsetAtTime,
    OffsetFound,
    PartitionDescription,
    Topics,
)
from goqueue.nursery import PlainNursery
from goqueue.storage.slices import Slices
from goqueue.types import Offset

GROUP = "Messages"
LIMIT, LIMIT_MAX = 100, 1_000
BYTES_MAX = 4 * 1024 * 1024
BYTES_LIMIT = 16 * 1024 * 1024
WAIT_SECONDS_MAX = 60.0
REST_SECONDS = 1.0
"""Partitions that cannot be read are not asked again by a stream for this long."""
STREAM_WAIT_SECONDS = 15.0
"""A stream without messages for this long says that it is alive, where its form has a way to."""


class ReadQuery(Model):
    partition: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """None: all of them."""
    offset: str | None = None
    """A number, `earliest` or `latest`. Without it, and without the two below, all there is."""
    from_time: str | None = None
    """Seconds since 1970, or ISO text."""
    cursor: str | None = None
    """`next` of the answer before."""
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] | None = None
    """100; a stream has none by itself."""
    wait: Annotated[float, Field(ge=0, le=WAIT_SECONDS_MAX)] = 0.0
    """Seconds to wait for the first message."""
    max_bytes: Annotated[int, Field(ge=1, le=BYTES_LIMIT)] = BYTES_MAX
    """Limit of keys, values and headers."""
    encoding: Form = Form.AUTO
    follow: bool = False
    """Go on for ever; `Accept` says whether as NDJSON or as server-sent events."""


class OneQuery(Model):
    encoding: Form = Form.AUTO


class MessageAnswer(Model):
    topic: str
    partition: int
    offset: int
    timestamp: float
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    value_json: Any = None
    headers: dict[str, Any]
    priority: str
    attempt: int | None = None
    receipt: str | None = None


class ReadAnswer(Model):
    messages: list[MessageAnswer]
    next: str
    errors: list[dict[str, Any]] | None = None
    """Partitions that cannot be read now."""


# Where to begin


async def _begun(call: HttpCall[ReadQuery, None]) -> TopicReading:
    query, name = call.query, call.path["topic"]
    partition = query.partition
    if "partition" in call.path:
        if partition is not None:
            raise InvalidRequest("the path names the partition; leave it out of the query")
        partition = number_in_path(call.path["partition"])
    given = [each for each in ("offset", "from_time", "cursor") if getattr(query, each) is not None]
    if len(given) > 1:
        raise InvalidRequest(f"{' and '.join(given)} are given; give one of them")
    [described] = cast(Topics, await call.ask(DescribeTopics((name,)))).topics
    topic = call.gateway.topics.note(described)
    if partition is not None:
        topic.check_partition(partition)
    wanted = range(topic.partitions) if partition is None else [partition]
    resumed = query.cursor or _last_event_id(call)
    if resumed is not None:
        positions = _resumed(topic, resumed, wanted, described.partitions)
    else:
        positions = {each: await _first(call, topic, described.partitions[each]) for each in wanted}
    call.gateway.reads += 1
    return TopicReading(call.ask, topic, positions, turn=call.gateway.reads)


def _last_event_id(call: HttpCall[ReadQuery, None]) -> str | None:
    """A browser sends it when it connects again. It goes before what the address says, which was for the first
    time."""
    values = call.exchange.head.values(b"last-event-id")
    return values[0].decode("latin-1") if values and values[0] and call.query.follow else None


def _resumed(
    topic: NamedTopic, cursor: str, wanted: Sequence[int], partitions: Sequence[PartitionDescription]
) -> dict[int, Offset]:
    """A partition that was added since begins at its first message."""
    positions = positions_of(cursor)
    for number in positions:
        topic.check_partition(number)
    return {each: positions.get(each, partitions[each].start) for each in wanted}


async def _first(call: HttpCall[ReadQuery, None], topic: NamedTopic, partition: PartitionDescription) -> Offset:
    query = call.query
    if query.from_time is not None:
        time = float(query.from_time) if _is_number(query.from_time) else query.from_time
        try:
            at = clamped_microseconds_of(time)
        except UNREADABLE as error:
            raise InvalidRequest(f"from_time={query.from_time!r} is no time ({error})") from None
        found = cast(OffsetFound, await call.ask(OffsetAtTime(topic.uuid, partition.partition, at)))
        return partition.end if found.offset is None else found.offset
    if query.offset in (None, "earliest"):
        return partition.start
    if query.offset == "latest":
        return partition.end
    if not (query.offset.isascii() and query.offset.isdecimal() and len(query.offset) <= 19):
        raise InvalidRequest(f"offset={query.offset!r} is neither a number, `earliest` nor `latest`")
    if len(call.path) == 1 and query.partition is None:
        raise InvalidRequest("an offset is one of a partition; give partition, or a cursor over all of them")
    return int(query.offset)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# A page


async def read(call: HttpCall[ReadQuery, None]) -> Response | None:
    reading, query = await _begun(call), call.query
    if query.follow:
        await _Stream(call, reading).run()
        return None
    found: list[TakenMessages] = []

    async def take() -> None:
        found.append(await _take(call, reading, query.limit or LIMIT, query.wait))

    if query.wait and not await call.exchange.unless_gone(take):
        return None
    if not query.wait:
        await take()
    call.exchange.reserve(found[0].size)
    return Response(body=await _page(found[0], reading, query.encoding))


async def _take(call: HttpCall[ReadQuery, None], reading: TopicReading, limit: int, wait: float) -> TakenMessages:
    now = call.gateway.broker.environment.clock.now()
    try:
        return await reading.take(limit, call.query.max_bytes, wait, now)
    except UnknownTopic:
        call.gateway.topics.forget(call.path["topic"])
        raise
    except GoingAway:
        return TakenMessages([], {})  # whoever waited asks again elsewhere


async def _page(taken: TakenMessages, reading: TopicReading, form: Form) -> bytes:
    """In slices: an answer of many megabytes holds up nobody."""
    shown, slices = list[bytes](), Slices()
    for message in taken.messages:
        shown.append(orjson.dumps(message_in_json(message, form)))
        await slices.step()
    rest: dict[str, Any] = {"next": cursor_of(reading.positions)}
    if taken.errors:
        rest["errors"] = [{"partition": number, **error_in_json(each)} for number, each in taken.errors.items()]
    return b"".join([b'{"messages":[', b",".join(shown), b"],", orjson.dumps(rest)[1:]])


# A stream


class _Stream:
    """Messages as they come, until the client goes, its limit is reached, or the broker goes away."""

    def __init__(self, call: HttpCall[ReadQuery, None], reading: TopicReading) -> None:
        self._call = call
        self._reading = reading
        self._exchange = call.exchange
        accepted = b",".join(call.exchange.head.values(b"accept")).decode("latin-1")
        self._is_events = EVENTS in accepted
        self._told: dict[int, str] = {}
        """The partitions that cannot be read, with the codes."""
        if (
            not self._is_events
            and accepted
            and not any(each in accepted for each in (NDJSON, "*/*", "application/*"))
        ):
            raise NotAcceptable(f"a stream comes as {NDJSON} or {EVENTS}; ask for one of them in Accept")

    async def run(self) -> None:
        """What is there already comes first: if it cannot be read, that has its status."""
        limit = self._call.query.limit
        first = await _take(self._call, self._reading, LIMIT_MAX if limit is None else limit, 0)
        await self._exchange.begin(
            Response(content_type=EVENTS if self._is_events else NDJSON, headers={"cache-control": "no-store"})
        )
        if self._exchange.head.method == "HEAD" or await self._exchange.unless_gone(
            partial(self._pass_on, first, limit)
        ):
            await self._exchange.end()

    async def _pass_on(self, taken: TakenMessages | None, left: int | None) -> None:
        while taken is not None:
            await self._send(taken)
            left = None if left is None else left - len(taken.messages)
            if left == 0:
                return
            taken = await self._next(taken, LIMIT_MAX if left is None else left)

    async def _next(self, before: TakenMessages, limit: int) -> TakenMessages | None:
        """None when the broker goes away, or after an error that stays, which is told."""
        found: list[TakenMessages] = []

        async def take() -> None:
            if before.errors and not before.messages:
                await trio.sleep(REST_SECONDS)
            found.append(await _take(self._call, self._reading, limit, STREAM_WAIT_SECONDS))

        try:
            await until(self._exchange.leaving, take)
        except GoQueueError as error:
            if error.retryable:
                return TakenMessages([], dict.fromkeys(self._reading.positions, error))
            await self._exchange.send(self._event("error", orjson.dumps(error_in_json(error))))
            return None
        return found[0] if found else None

    def _news_of(self, errors: Mapping[int, GoQueueError]) -> list[bytes]:
        """Partitions that can no longer be read; each is told once."""
        new = {number: error for number, error in errors.items() if self._told.get(number) != error.code}
        self._told = {number: error.code for number, error in errors.items()}
        return [
            self._event("error", orjson.dumps({"partition": number, **error_in_json(error)}))
            for number, error in new.items()
        ]

    async def _send(self, taken: TakenMessages) -> None:
        lines, slices = list[bytes](), Slices()
        form = self._call.query.encoding
        positions = dict(self._reading.positions)
        after = _positions_after_each(taken.messages, positions)
        for message, place in zip(taken.messages, after, strict=True):
            lines.append(self._line(orjson.dumps(message_in_json(message, form)), place))
            await slices.step()
        lines += self._news_of(taken.errors)
        if not lines and self._is_events:
            lines.append(b": nothing new\n\n")
        await self._exchange.send(b"".join(lines))

    def _line(self, message: bytes, cursor: str) -> bytes:
        if not self._is_events:
            return message + b"\n"
        return b"id: %b\ndata: %b\n\n" % (cursor.encode(), message)

    def _event(self, name: str, data: bytes) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (name.encode(), data) if self._is_events else data + b"\n"


def _positions_after_each(messages: Sequence[Message], end: dict[int, Offset]) -> list[str]:
    """The cursor behind each message: what follows it in this answer has not been seen there."""
    positions = dict(end)
    for message in reversed(messages):
        positions[message.partition] = message.offset
    cursors = []
    for message in messages:
        positions[message.partition] = message.offset + 1
        cursors.append(cursor_of(positions))
    return cursors


async def until(event: trio.Event, work: Callable[[], Awaitable[None]]) -> None:
    """Work, and give it up when the event is set."""

    async def give_up() -> None:
        await event.wait()
        nursery.cancel_scope.cancel()

    async with PlainNursery() as nursery:
        nursery.start_soon(give_up)
        await work()
        nursery.cancel_scope.cancel()


# One message


async def show(call: HttpCall[OneQuery, None]) -> Response:
    return Response(body=orjson.dumps(message_in_json(await _one(call), call.query.encoding)))


async def value(call: HttpCall[None, None]) -> Response:
    """Never as a page: whatever somebody published is not run by a browser."""
    found = await _one(call)
    headers = {"content-disposition": "attachment", "x-content-type-options": "nosniff"}
    return Response(body=found.value or b"", content_type=OCTETS, headers=headers)


async def _one(call: HttpCall[Any, None]) -> Message:
    partition, offset = number_in_path(call.path["partition"]), number_in_path(call.path["offset"])
    topic = await call.gateway.topics.find(call.path["topic"], call.ask)
    topic.check_partition(partition)
    reading = TopicReading(call.ask, topic, {partition: offset})
    try:
        found = await reading.take(1, BYTES_LIMIT, 0, call.gateway.broker.environment.clock.now())
    except UnknownTopic:  # it was made again under its name, or this says that it is gone
        topic = await call.gateway.topics.look(call.path["topic"], call.ask)
        reading = TopicReading(call.ask, topic, {topic.check_partition(partition): offset})
        found = await reading.take(1, BYTES_LIMIT, 0, call.gateway.broker.environment.clock.now())
    if not found.messages or found.messages[0].offset != offset:
        raise NotFound(
            f"there is no message at offset {offset} of {topic.name}/{partition}: it was compacted or has expired,"
            " is a record of the broker's own, or is not written yet"
        )
    return found.messages[0]


PAGE_ERRORS = (*PARTITION_ERRORS, "offset_out_of_range", "damaged_data", "data_lost")
ONE = "/topics/{topic}/partitions/{partition}/messages/{offset}"
_PAGE = Route(
    "GET",
    "/topics/{topic}/messages",
    read,
    "Read messages without a group: a page at a time, or a stream with `follow=true`.",
    GROUP,
    query=ReadQuery,
    answer=ReadAnswer,
    gives=(JSON, NDJSON, EVENTS),
    errors=(*PAGE_ERRORS, "not_acceptable"),
    asks=(DescribeTopics, OffsetAtTime, Fetch),
    example='"$URL/topics/orders/messages?limit=10"',
)
ROUTES = (
    _PAGE,
    replace(
        _PAGE,
        path="/topics/{topic}/partitions/{partition}/messages",
        summary="Read messages of one partition.",
        example='"$URL/topics/orders/partitions/0/messages?offset=latest"',
    ),
    Route(
        "GET",
        ONE,
        show,
        "Show one message.",
        GROUP,
        query=OneQuery,
        answer=MessageAnswer,
        errors=PAGE_ERRORS,
        asks=(DescribeTopics, Fetch),
    ),
    Route(
        "GET",
        f"{ONE}/value",
        value,
        "Download the value of one message, byte for byte.",
        GROUP,
        gives=(OCTETS,),
        errors=PAGE_ERRORS,
        asks=(DescribeTopics, Fetch),
    ),
)

"""Delayed messages: what waits, and what can be done about it before its time."""

import re
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from goqueue.client.delayed import Delayed, DelayedQuestions, PagePosition, WhichDelayed
from goqueue.http.routes.topics import PARTITION_ERRORS, number_in_path
from goqueue.http.routing.answers import json_response
from goqueue.http.routing.bytes import Base64, key_in_json
from goqueue.http.routing.caller import RequestCaller
from goqueue.http.routing.route import HttpCall, Model, NoFields, Route
from goqueue.http.server.errors import InvalidRequest, NotFound
from goqueue.http.server.exchange import Response
from goqueue.net.wire import delays as wire
from goqueue.net.wire.messages import DescribeTopics
from goqueue.types import Offset

GROUP = "Delayed messages"
LISTED = 100
LISTED_MAX = 1_000

Partition = Annotated[int, Field(ge=0, lt=2**32)]


class DelayedQuery(Model):
    state: Literal["pending", "finished"] = "pending"
    partition: Partition | None = None
    message_id: str | None = None
    """Only pending messages that were published with this id."""
    key: str | None = None
    after: str | None = None
    """`next` of the page before."""
    limit: Annotated[int, Field(ge=1, le=LISTED_MAX)] = LISTED


class DelayedAnswer(Model):
    topic: str
    partition: int
    offset: int
    state: str
    due: float | None
    finished_at: float | None
    delivered_offset: int | None
    priority: str
    key: str | None = None
    key_base64: Base64 | None = None
    message_id: str | None = None


class DelayedListAnswer(Model):
    delayed: list[DelayedAnswer]
    pending: int | None = None
    next: str | None = None


class CancelAnswer(Model):
    cancelled: bool


class NewTime(Model):
    delay: float | None = None
    """Seconds from now."""
    deliver_at: Annotated[float | str | None, Field(validation_alias=AliasChoices("deliver_at", "deliverAt"))] = (
        None
    )
    """A time: seconds since 1970, or ISO text."""


class Rescheduled(Model):
    rescheduled: bool


class DeliverAnswer(Model):
    delivered: bool


def questions(call: HttpCall[Any, Any]) -> DelayedQuestions:
    return DelayedQuestions(RequestCaller(call.ask, call.gateway.broker.environment.clock))


async def list_delayed(call: HttpCall[DelayedQuery, None]) -> Response:
    asked, topic = call.query, call.path["topic"]
    if asked.message_id is not None:
        key = None if asked.key is None else asked.key.encode()
        found = await questions(call).find(topic, asked.message_id, asked.partition, key)
        return json_response({"delayed": [_in_json(each) for each in found[: asked.limit]]})
    after = None if asked.after is None else position_of(asked.after)
    page = await questions(call).page(topic, asked.partition, after, asked.limit, asked.state)
    answer: dict[str, Any] = {"delayed": [_in_json(each) for each in page], "pending": page.pending}
    if page.next is not None:
        answer["next"] = text_of(page.next)
    return json_response(answer)


async def show(call: HttpCall[None, None]) -> Response:
    topic, place = call.path["topic"], _place(call)
    for state in ("pending", "finished"):
        after = PagePosition(place.partition, place.offset - 1) if place.offset else None
        page = await questions(call).page(topic, place.partition, after, 1, state)
        if page and page[0].offset == place.offset:
            return json_response(_in_json(page[0]))
    raise NotFound(f"{topic}/{place.partition} has no delayed message at offset {place.offset}")


async def cancel(call: HttpCall[None, None]) -> Response:
    return json_response({"cancelled": await questions(call).cancel(call.path["topic"], _which(call))})


async def reschedule(call: HttpCall[None, NewTime]) -> Response:
    asked = call.body
    moved = await questions(call).move(call.path["topic"], _which(call), asked.delay, asked.deliver_at)
    return json_response({"rescheduled": moved})


async def deliver(call: HttpCall[None, NoFields]) -> Response:
    return json_response({"delivered": await questions(call).move(call.path["topic"], _which(call), 0, None)})


def _place(call: HttpCall[Any, Any]) -> PagePosition:
    return PagePosition(number_in_path(call.path["partition"]), number_in_path(call.path["offset"]))


def _which(call: HttpCall[Any, Any]) -> WhichDelayed:
    return WhichDelayed(*_place(call))


def _in_json(message: Delayed) -> dict[str, Any]:
    named = None if message.message_id is None else message.message_id.decode(errors="replace")
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "state": message.state,
        "due": message.due,
        "finished_at": message.finished_at,
        "delivered_offset": message.delivered_offset,
        "priority": str(message.priority),
        **key_in_json(message.key),
        **({} if named is None else {"message_id": named}),
    }


def position_of(text: str) -> tuple[int, Offset]:
    """The place that `text_of` wrote."""
    if re.fullmatch(r"\d{1,10}:\d{1,19}", text, re.ASCII) is None:
        raise InvalidRequest(f"after={text!r} is no place; give the `next` of the page before")
    partition, _, offset = text.partition(":")
    return int(partition), int(offset)


def text_of(position: PagePosition) -> str:
    return f"{position.partition}:{position.offset}"


PATH = "/topics/{topic}/delayed/{partition}/{offset}"
CHANGE_ERRORS = (*PARTITION_ERRORS, "disk_full")
ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/delayed",
        list_delayed,
        "List delayed messages in the order of partitions and offsets, or those with a `message_id`.",
        GROUP,
        query=DelayedQuery,
        answer=DelayedListAnswer,
        errors=PARTITION_ERRORS,
        asks=(DescribeTopics, wire.ListDelayed, wire.FindDelayed),
        example="$URL/topics/orders/delayed",
    ),
    Route(
        "GET",
        PATH,
        show,
        "Show one delayed message.",
        GROUP,
        answer=DelayedAnswer,
        errors=PARTITION_ERRORS,
        asks=(DescribeTopics, wire.ListDelayed),
    ),
    Route(
        "PATCH",
        PATH,
        reschedule,
        "Give a pending message another time. `rescheduled` is false if it was no longer pending.",
        GROUP,
        body=NewTime,
        answer=Rescheduled,
        errors=(*CHANGE_ERRORS, "invalid_message"),
        asks=(DescribeTopics, wire.MoveDelayed),
    ),
    Route(
        "DELETE",
        PATH,
        cancel,
        "Cancel a pending message. `cancelled` is true when it will never be delivered.",
        GROUP,
        answer=CancelAnswer,
        errors=CHANGE_ERRORS,
        asks=(DescribeTopics, wire.CancelDelayed),
    ),
    Route(
        "POST",
        f"{PATH}/deliver",
        deliver,
        "Deliver a pending message now. `delivered` is false if it was no longer pending.",
        GROUP,
        body=NoFields,
        answer=DeliverAnswer,
        errors=CHANGE_ERRORS,
        asks=(DescribeTopics, wire.MoveDelayed),
    ),
)

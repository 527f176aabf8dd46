"""Members of groups: joining, staying alive, polling, committing, leaving."""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any, TypeAlias, cast
from uuid import uuid4

import orjson
from pydantic import BeforeValidator, Field

from goqueue.client.consuming.options import (
    VISIBILITY_SECONDS,
    VISIBILITY_SECONDS_MAX,
    VISIBILITY_SECONDS_MIN,
    start_text,
)
from goqueue.core.groups.member import SESSION_SECONDS, SESSION_SECONDS_MAX, SESSION_SECONDS_MIN
from goqueue.core.groups.settings import SETTINGS
from goqueue.core.groups.subscription import TOPICS_MAX, Subscription
from goqueue.core.names import check_group_name
from goqueue.core.topics.metadata import PARTITIONS_MAX
from goqueue.http.members.polling import Poll, PollRequest, assignment_in_json
from goqueue.http.members.seats import Seat
from goqueue.http.messages.outgoing import Form
from goqueue.http.messages.publishing import PARTLY, error_in_json
from goqueue.http.routes.groups import GROUP_ERRORS, Start
from goqueue.http.routes.reading import BYTES_LIMIT, BYTES_MAX, LIMIT, LIMIT_MAX, MessageAnswer
from goqueue.http.routes.topics import Config
from goqueue.http.routing.answers import NOTHING, json_response, plain
from goqueue.http.routing.route import HttpCall, Model, Name, Route
from goqueue.http.routing.settings import known_settings, settings_schema
from goqueue.http.server.errors import InvalidRequest, Overloaded, status_of
from goqueue.http.server.exchange import Exchange, Response
from goqueue.net.wire import groups as wire
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.messages import Fetch
from goqueue.storage.slices import Slices

GROUP = "Members"
POLL_SECONDS, POLL_SECONDS_MAX = 30.0, 60.0
CLIENT_NAME_MAX = 100
OFFSETS_MAX = 10_000
"""Limit of the offsets of one commit."""


Settings: TypeAlias = Annotated[
    Config, Field(json_schema_extra=settings_schema(SETTINGS)), known_settings(SETTINGS)
]


class JoinBody(Model):
    topics: Annotated[str, Field(min_length=1)] | Annotated[list[Name], Field(min_length=1, max_length=TOPICS_MAX)]
    """Names, or one pattern."""
    client_id: str = "http"
    member_id: str | None = None
    """The id of a member that comes back; without it one is drawn."""
    settings: Settings = {}  # noqa: RUF012  # it is only read
    """Settings of the group: `mode`, `shared`, `max_deliveries` …; those of a group that is there have to fit."""
    start: Start = "earliest"
    session_timeout: Annotated[float, Field(ge=SESSION_SECONDS_MIN, le=SESSION_SECONDS_MAX)] = SESSION_SECONDS
    """Seconds of silence after which the member is expelled."""


class AssignedAnswer(Model):
    topic: str
    partition: int


class JoinAnswer(Model):
    member_id: str
    generation: int
    assignment: list[AssignedAnswer]
    settings: Config


class HeartbeatBody(Model):
    member_id: str
    generation: int | None = None
    """In a stream: everything that this generation revokes is let go of."""


class MembershipAnswer(Model):
    generation: int
    assignment: list[AssignedAnswer]


class LeaveBody(Model):
    member_id: str


class PollQuery(Model):
    member_id: str
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = LIMIT
    timeout: Annotated[float, Field(ge=0, le=POLL_SECONDS_MAX)] = POLL_SECONDS
    visibility: Annotated[float, Field(ge=VISIBILITY_SECONDS_MIN, le=VISIBILITY_SECONDS_MAX)] = VISIBILITY_SECONDS
    max_bytes: Annotated[int, Field(ge=1, le=BYTES_LIMIT)] = BYTES_MAX
    encoding: Form = Form.AUTO
    generation: int | None = None


class PollAnswer(Model):
    generation: int
    assignment: list[AssignedAnswer]
    messages: list[MessageAnswer]
    errors: list[dict[str, Any]] | None = None
    """Partitions that give nothing, and why."""


def _few_enough(offsets: object) -> object:
    """Counted before each is looked at."""
    count = (
        sum(len(each) for each in offsets.values() if isinstance(each, dict)) if isinstance(offsets, dict) else 0
    )
    if count > OFFSETS_MAX:
        raise ValueError(f"there are {count:,} offsets; commit {OFFSETS_MAX:,} at a time")
    return offsets


class OffsetsBody(Model):
    member_id: str | None = None
    """None: a commit from outside, to a group without members."""
    generation: int | None = None
    offsets: Annotated[
        dict[str, Annotated[dict[str, Annotated[int, Field(ge=0)]], Field(max_length=PARTITIONS_MAX)]],
        Field(max_length=TOPICS_MAX),
        BeforeValidator(_few_enough),
    ]
    """By topic and partition: everything below is done."""


class CommitAnswer(Model):
    results: list[dict[str, Any]]


async def join(call: HttpCall[None, JoinBody]) -> Response:
    asked, group = call.body, check_group_name(call.path["group"])
    member = asked.member_id or _drawn_member(asked.client_id)
    instance = uuid4().int >> 65
    seats, mode = call.gateway.seats, str(asked.settings.get("mode", "queue"))
    async with seats.joining(group, member):
        seat = seats.new((group, member), instance, mode, asked.session_timeout, call.exchange.address)
        request = wire.JoinGroup(
            group,
            member,
            asked.client_id[:CLIENT_NAME_MAX],
            _subscription(asked.topics),
            {"mode": mode, **asked.settings},
            start_text(asked.start),
            round(1_000 * asked.session_timeout),
            is_static=asked.member_id is not None,
            instance=instance,
        )
        try:
            membership = cast(wire.Membership, await seat.ask(request, call.exchange.request_id))
        except BaseException:
            seat.session.close()
            raise
        seats.put(seat)
        seat.mode = str(membership.settings.get("mode", mode))
        seat.adopt(membership)
        seat.generation = membership.generation
    return json_response(
        {
            "member_id": member,
            **_membership_in_json(seat),
            "settings": {name: plain(value) for name, value in membership.settings.items()},
        }
    )


def _drawn_member(client: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "-", client)[:CLIENT_NAME_MAX].lstrip("_") or "http"
    return f"{name}-{uuid4().hex[:12]}"


def _subscription(topics: str | list[str]) -> tuple[str, ...]:
    asked = Subscription.to(topics).to_plain()
    return (asked,) if isinstance(asked, str) else tuple(asked)


def _membership_in_json(seat: Seat) -> dict[str, Any]:
    return {"generation": seat.newest, "assignment": assignment_in_json(seat.assignment)}


def _seat(call: HttpCall[Any, Any], member: str) -> Seat:
    return cast(Seat, call.gateway.seats.find(check_group_name(call.path["group"]), member))


async def heartbeat(call: HttpCall[None, HeartbeatBody]) -> Response:
    seat = _seat(call, call.body.member_id)

    async def beat() -> None:
        if seat.mode == "stream" and call.body.generation == seat.newest:
            seat.generation = seat.newest
        await seat.refresh()

    await call.gateway.seats.of(seat, beat)
    return json_response(_membership_in_json(seat))


async def leave(call: HttpCall[None, LeaveBody]) -> Response:
    seat, seats = _seat(call, call.body.member_id), call.gateway.seats
    request = wire.LeaveGroup(seat.group, seat.member, seat.instance, keeps_place=False)

    async def say() -> None:
        await seat.ask(request, call.exchange.request_id)

    await seats.of(seat, say)
    seats.clear(seat)
    return NOTHING


async def poll(call: HttpCall[PollQuery, None]) -> Response | None:
    """Answers by itself: what cannot be sent is given back."""
    query, exchange = call.query, call.exchange
    seat = _seat(call, query.member_id)
    wanted = PollRequest(query.limit, query.max_bytes, query.timeout, query.visibility, query.generation)
    polling = Poll(seat, wanted, call.gateway.broker.environment.clock.now(), exchange.request_id)
    body = b""

    async def work() -> None:
        nonlocal body
        await call.gateway.seats.of(seat, polling.run)
        body = await _polled(polling, seat, query.encoding)

    if not await exchange.unless_gone(work, polling.end):
        await polling.give_back()
        return None
    await _answer(exchange, polling, body)
    return None


async def _answer(exchange: Exchange, polling: Poll, body: bytes) -> None:
    polling.keep()
    try:
        await exchange.answer(Response(body=body))
    except Overloaded:
        await polling.give_back()
        raise
    except BaseException:
        polling.rewind()
        raise


async def _polled(polling: Poll, seat: Seat, form: Form) -> bytes:
    messages, at_once = polling.in_json(form), polling.shown_at_once
    shown, slices = list[bytes](), Slices()
    while some := list(islice(messages, at_once)):
        shown.append(orjson.dumps(some)[1:-1])
        await slices.step()
    head = orjson.dumps(_membership_in_json(seat))[:-1]
    errors = [
        {"topic": topic, "partition": partition, **error_in_json(error)}
        for (topic, partition), error in polling.errors.items()
    ]
    rest = b',"errors":' + orjson.dumps(errors) + b"}" if errors else b"}"
    return b"".join([head, b',"messages":[', b",".join(shown), b"]", rest])


async def commit(call: HttpCall[None, OffsetsBody]) -> Response:
    body, group = call.body, check_group_name(call.path["group"])
    seat = None if body.member_id is None else _seat(call, body.member_id)
    if seat is not None and body.generation is None:
        raise InvalidRequest("generation is missing: a member commits in the generation that it believes in")
    places = [
        (topic, _partition(partition), offset)
        for topic, partitions in body.offsets.items()
        for partition, offset in partitions.items()
    ]
    topics = {name: await call.gateway.topics.find(name, call.ask) for name in body.offsets}
    asked = tuple(
        wire.CommitPartition(topics[topic].uuid, partition, offset) for topic, partition, offset in places
    )
    who = (None, 0, asked, 0) if seat is None else (seat.member, body.generation or 0, asked, seat.instance)
    ask = call.ask if seat is None else seat.ask
    answer = cast(wire.OffsetsCommitted, await ask(wire.CommitOffsets(group, *who)))
    results, statuses = list[Mapping[str, Any]](), set[int]()
    for (topic, partition, offset), outcome in zip(places, answer.partitions, strict=True):
        if outcome.error is None:
            results.append({"topic": topic, "partition": partition, "offset": offset})
            if seat is not None:
                seat.go_on_at((topics[topic].uuid, partition), offset)
        else:
            error = error_of(outcome.error)
            statuses.add(status_of(error))
            results.append({"topic": topic, "partition": partition, **error_in_json(error)})
    all_failed = len(results) == sum("code" in each for each in results)
    status = 200 if not statuses else max(statuses) if all_failed else PARTLY
    return json_response({"results": results}, status)


def _partition(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise InvalidRequest(f"{text!r} is no partition; offsets are by topic and number")
    return int(text)


MEMBER_ERRORS = (*GROUP_ERRORS, "unknown_member", "fenced")
ROUTES = (
    Route(
        "POST",
        "/groups/{group}/join",
        join,
        "Become a member of a group, or come back as one.",
        GROUP,
        body=JoinBody,
        answer=JoinAnswer,
        errors=("invalid_name", "invalid_config", "group_conflict", "fenced", "disk_full", "unavailable"),
        asks=(wire.JoinGroup,),
        example="""-d '{"topics": ["orders"], "member_id": "worker-1"}' $URL/groups/billing/join""",
    ),
    Route(
        "POST",
        "/groups/{group}/heartbeat",
        heartbeat,
        "Give a sign of life, and hear of the newest assignment.",
        GROUP,
        body=HeartbeatBody,
        answer=MembershipAnswer,
        errors=MEMBER_ERRORS,
        asks=(wire.Heartbeat,),
        example="""-d '{"member_id": "worker-1"}' $URL/groups/billing/heartbeat""",
    ),
    Route(
        "GET",
        "/groups/{group}/poll",
        poll,
        "Wait for messages, and receive them. An open poll is a sign of life.",
        GROUP,
        query=PollQuery,
        answer=PollAnswer,
        errors=(*MEMBER_ERRORS, "stale_generation", "in_flight_full", "too_many_requests"),
        asks=(wire.Heartbeat, wire.Receive, wire.Settle, wire.AskOffsets, Fetch),
        is_safe=False,
        example='"$URL/groups/billing/poll?member_id=worker-1&timeout=1"',
    ),
    Route(
        "POST",
        "/groups/{group}/offsets",
        commit,
        "Commit how far a member of a stream is, or from outside how far a group without members is.",
        GROUP,
        body=OffsetsBody,
        answer=CommitAnswer,
        also={207: "Some were committed; each result says what became of its partition."},
        errors=(*MEMBER_ERRORS, "stale_generation", "group_conflict", "unknown_topic", "unknown_partition"),
        asks=(wire.CommitOffsets,),
    ),
    Route(
        "POST",
        "/groups/{group}/leave",
        leave,
        "Leave a group. What the member holds is given back, uncounted.",
        GROUP,
        body=LeaveBody,
        status=204,
        errors=MEMBER_ERRORS,
        asks=(wire.LeaveGroup,),
        example="""-d '{"member_id": "worker-1"}' $URL/groups/billing/leave""",
    ),
)

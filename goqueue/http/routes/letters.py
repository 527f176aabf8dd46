"""Dead letters: how many there are, and what is decided about them."""

from typing import Annotated, cast

from pydantic import Field

from goqueue.client.letters import counts_of
from goqueue.http.routes.topics import TOPIC_ERRORS
from goqueue.http.routing.answers import json_response
from goqueue.http.routing.route import HttpCall, Model, Route
from goqueue.http.server.exchange import Response
from goqueue.net.wire import letters as wire

GROUP = "Dead letters"
Count = Annotated[int, Field(ge=0, lt=2**32)]


class LetterSelection(Model):
    """Which dead letters: those that wait and fit all that is given."""

    group: str | None = None
    partition: Count | None = None
    offsets: list[Annotated[int, Field(ge=0)]] | None = None
    reason: str | None = None
    """A part of the reason why they were given up."""


class RedriveBody(LetterSelection):
    to: str | None = None
    """Another topic; by itself they go back to the group that gave them up."""
    all_groups: bool = False
    max_messages: Count | None = None
    per_second: Annotated[int, Field(ge=1, lt=2**32)] | None = None
    dry_run: bool = False
    again: bool = False
    """Also those that were sent back or dismissed before."""


class DismissBody(LetterSelection):
    note: str = ""
    max_messages: Count | None = None
    dry_run: bool = False


class RedriveAnswer(Model):
    redriven: int
    remaining: int
    redriven_in_all: int
    dismissed_in_all: int
    why: str
    """Why none was sent; else empty."""


class DismissAnswer(Model):
    dismissed: int
    remaining: int
    redriven_in_all: int
    dismissed_in_all: int
    why: str


class LetterCountsAnswer(Model):
    waiting: int
    redriven: int
    dismissed: int
    redriven_at: float | None
    dismissed_at: float | None
    is_doubtful: bool
    """The broker lost what it knew of some: they count as waiting."""


async def redrive(call: HttpCall[None, RedriveBody]) -> Response:
    asked = call.body
    request = wire.Redrive(
        call.path["topic"],
        asked.group,
        asked.partition,
        None if asked.offsets is None else tuple(asked.offsets),
        asked.reason,
        asked.to,
        asked.all_groups,
        asked.max_messages,
        asked.per_second,
        asked.dry_run,
        asked.again,
    )
    return json_response(cast(wire.Redriven, await call.ask(request))._asdict())


async def dismiss(call: HttpCall[None, DismissBody]) -> Response:
    asked = call.body
    request = wire.Dismiss(
        call.path["topic"],
        asked.group,
        asked.partition,
        None if asked.offsets is None else tuple(asked.offsets),
        asked.reason,
        asked.note,
        asked.max_messages,
        asked.dry_run,
    )
    return json_response(cast(wire.Dismissed, await call.ask(request))._asdict())


async def count(call: HttpCall[None, None]) -> Response:
    counted = cast(wire.LettersCounted, await call.ask(wire.CountLetters(call.path["topic"])))
    counts = counts_of(counted.partitions)
    return json_response({name: getattr(counts, name) for name in LetterCountsAnswer.model_fields})


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/dead-letters/counts",
        count,
        "Count the dead letters of a topic, by state.",
        GROUP,
        answer=LetterCountsAnswer,
        errors=TOPIC_ERRORS,
        asks=(wire.CountLetters,),
        example="$URL/topics/orders/dead-letters/counts",
    ),
    Route(
        "POST",
        "/topics/{topic}/redrive",
        redrive,
        "Send dead letters back to the group that gave them up, to all groups, or to another topic.",
        GROUP,
        body=RedriveBody,
        answer=RedriveAnswer,
        errors=(*TOPIC_ERRORS, "unknown_group", "unknown_partition", "too_many_requests", "unavailable"),
        asks=(wire.Redrive,),
        example="""-d '{"dry_run": true}' $URL/topics/orders/redrive""",
    ),
    Route(
        "POST",
        "/topics/{topic}/dismiss",
        dismiss,
        "Dismiss dead letters: they stay in the log, and are not sent back.",
        GROUP,
        body=DismissBody,
        answer=DismissAnswer,
        errors=(*TOPIC_ERRORS, "unknown_group", "unknown_partition", "too_many_requests", "unavailable"),
        asks=(wire.Dismiss,),
        example="""-d '{"dry_run": true}' $URL/topics/orders/dismiss""",
    ),
)

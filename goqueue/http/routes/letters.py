"""Dead letters: how many there are, and what is decided about them."""

from typing import Annotated, Any, Literal, cast

from pydantic import Field

from goqueue.client.letters import DeadLetter, counts_of, page_of, wanted_letters
from goqueue.client.reading.message import Message
from goqueue.http.messages.outgoing import Form, message_in_json
from goqueue.http.messages.reading import TopicReading
from goqueue.http.routes.delayed import LISTED, LISTED_MAX, position_of, text_of
from goqueue.http.routes.reading import MessageAnswer
from goqueue.http.routes.topics import TOPIC_ERRORS
from goqueue.http.routing.answers import json_response
from goqueue.http.routing.caller import RequestCaller
from goqueue.http.routing.route import HttpCall, Model, Name, Route
from goqueue.http.server.exchange import Response
from goqueue.net.wire import letters as wire
from goqueue.net.wire.fields import INTEGER_MAX, LIST_COUNT_MAX, PROSE_SIZE_MAX
from goqueue.net.wire.messages import DescribeTopics, Fetch
from goqueue.storage.slices import Slices
from goqueue.types import Offset

GROUP = "Dead letters"
STRETCH_BYTES = 4 * 1024 * 1024
"""Bytes of dead letters that are read at once."""
Prose = Annotated[str, Field(max_length=PROSE_SIZE_MAX // 4)]
Count = Annotated[int, Field(ge=0, lt=2**32)]


class LetterSelection(Model):
    """Which dead letters: those that wait and fit all that is given."""

    group: Name | None = None
    partition: Count | None = None
    offsets: (
        Annotated[list[Annotated[int, Field(ge=0, le=INTEGER_MAX)]], Field(max_length=LIST_COUNT_MAX)] | None
    ) = None
    reason: Prose | None = None
    """A part of the reason why they were given up."""


class RedriveBody(LetterSelection):
    to: Name | None = None
    """Another topic; by itself they go back to the group that gave them up."""
    all_groups: bool = False
    max_messages: Count | None = None
    per_second: Annotated[int, Field(ge=1, lt=2**32)] | None = None
    dry_run: bool = False
    again: bool = False
    """Also those that were sent back or dismissed before."""


class DismissBody(LetterSelection):
    note: Prose = ""
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


class LettersQuery(Model):
    group: Name | None = None
    """Only those that this group gave up."""
    reason: Prose | None = None
    """A part of the reason why they were given up."""
    partition: Count | None = None
    state: Literal["waiting", "redriven", "dismissed"] | None = None
    after: str | None = None
    """`next` of the page before."""
    limit: Annotated[int, Field(ge=1, le=LISTED_MAX)] = LISTED
    encoding: Form = Form.AUTO


class LetterAnswer(Model):
    topic: str
    """The topic that it came from."""
    partition: int
    """This and the offset are those in the dead-letter topic."""
    offset: int
    state: str
    died_at: float
    decided_at: float | None
    sent_to: str | None
    for_all_groups: bool
    note: str
    group: str | None
    attempts: int
    reason: str
    first_delivery: float | None
    last_delivery: float | None
    origin_partition: int | None
    origin_offset: int | None
    message: MessageAnswer


class LettersAnswer(Model):
    letters: list[LetterAnswer]
    next: str | None = None


async def list_letters(call: HttpCall[LettersQuery, None]) -> Response:
    asked, environment = call.query, call.gateway.broker.environment
    topic = call.path["topic"]
    wanted = wanted_letters(
        topic, state=asked.state, group=asked.group, partition=asked.partition, offsets=None, reason=asked.reason
    )
    after = None if asked.after is None else position_of(asked.after)

    async def stretch(name: str, partition: int, start: Offset, end: Offset) -> list[Message]:
        place = TopicReading(call.ask, await call.gateway.topics.find(name, call.ask), {partition: start})
        found = list[Message]()
        while place.positions[partition] < end:
            taken = await place.take(end - start, STRETCH_BYTES, 0, environment.clock.now())
            found += [each for each in taken.messages if each.offset < end]
            if not taken.messages:
                break
        return found

    page = await page_of(RequestCaller(call.ask, environment.clock), stretch, wanted, after, asked.limit)
    shown, slices = list[dict[str, Any]](), Slices()
    for each in page:
        shown.append(_letter_in_json(each, asked.encoding))
        await slices.step()
    answer: dict[str, Any] = {"letters": shown}
    if page.next is not None:
        answer["next"] = text_of(page.next)
    return json_response(answer)


def _letter_in_json(letter: DeadLetter, form: Form) -> dict[str, Any]:
    told = {name: getattr(letter, name) for name in LetterAnswer.model_fields if name != "message"}
    return {**told, "message": message_in_json(letter.message, form)}


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
        "/topics/{topic}/dead-letters",
        list_letters,
        "List dead letters of a topic with their state and reason, a page at a time.",
        GROUP,
        query=LettersQuery,
        answer=LettersAnswer,
        errors=(*TOPIC_ERRORS, "unknown_partition", "partition_unavailable", "partition_lost", "damaged_data"),
        asks=(DescribeTopics, wire.FindDecisions, Fetch),
        example='"$URL/topics/orders/dead-letters?state=waiting"',
    ),
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

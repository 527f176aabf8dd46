"""Topics: what there is, what each partition has, and what operators do to them."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, TypeAlias, cast
from uuid import UUID

from pydantic import Field

from goqueue.core.topics.config import SETTINGS
from goqueue.core.topics.metadata import PARTITIONS_MAX
from goqueue.errors import OffsetOutOfRange
from goqueue.http.messages.reading import placed
from goqueue.http.routing.answers import NOTHING, json_response, plain
from goqueue.http.routing.route import HttpCall, Model, Name, NoFields, Route
from goqueue.http.routing.settings import settings_schema
from goqueue.http.server.errors import InvalidRequest
from goqueue.http.server.exchange import Exchange, Response
from goqueue.net.wire import messages as wire
from goqueue.net.wire.fields import INTEGER_MAX

GROUP = "Topics"
PARTITIONS = 3
"""The partitions of a topic, unless the request says another number."""
KEY_SIZE_MAX = 120
LISTED_MAX = 1_000

SETTINGS_MAX = 100
Config: TypeAlias = Annotated[dict[str, str | int | float | bool | None], Field(max_length=SETTINGS_MAX)]
Limit = Annotated[int, Field(ge=1, le=LISTED_MAX)]


class NewTopic(Model):
    name: Name
    partitions: Annotated[int, Field(ge=1, le=PARTITIONS_MAX)] = PARTITIONS
    config: Annotated[Config, Field(json_schema_extra=settings_schema(SETTINGS))] = {}  # noqa: RUF012  # only read


class ChangedTopic(Model):
    config: Annotated[Config, Field(json_schema_extra=settings_schema(SETTINGS, may_reset=True))] | None = None
    partitions: Annotated[int, Field(ge=1, le=PARTITIONS_MAX)] | None = None
    """How many there shall be."""


class TopicsQuery(Model):
    prefix: str = ""
    after: str = ""
    """The last name of the page before."""
    limit: Limit = LISTED_MAX


class OffsetBefore(Model):
    offset: Annotated[int, Field(ge=0, le=INTEGER_MAX)]


class PartitionErrorAnswer(Model):
    code: str
    message: str
    retryable: bool


class DamageAnswer(Model):
    first: int
    last: int
    path: str


class HeldAnswer(Model):
    group: str | None
    committed: int | None
    messages: int
    first: int
    last: int
    segments: int
    size: int


class PartitionAnswer(Model):
    partition: int
    start: int
    end: int
    size: int | None
    messages: int | None
    error: PartitionErrorAnswer | None
    damage: list[DamageAnswer]
    held: HeldAnswer | None


class TopicAnswer(Model):
    name: str
    uuid: str
    config: Config
    partitions: list[PartitionAnswer]


class TopicSummary(Model):
    name: str
    uuid: str
    partitions: int
    messages: int
    size: int


class TopicsAnswer(Model):
    topics: list[TopicSummary]
    next: str | None = None


class PartitionsAnswer(Model):
    partitions: list[PartitionAnswer]


def topic_in_json(topic: wire.TopicDescription) -> dict[str, Any]:
    return {
        "name": topic.name,
        "uuid": str(UUID(bytes=topic.uuid)),
        "config": {name: plain(value) for name, value in topic.config.items()},
        "partitions": [_partition_in_json(each) for each in topic.partitions],
    }


def _partition_in_json(partition: wire.PartitionDescription) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "start": partition.start,
        "end": partition.end,
        "size": partition.size,
        "messages": partition.messages,
        "error": error_in_json(partition.error),
        "damage": [each._asdict() for each in partition.damage],
        "held": partition.hold and partition.hold._asdict(),
    }


def error_in_json(error: wire.Error | None) -> Mapping[str, Any] | None:
    return error and {"code": error.code, "message": error.message, "retryable": error.retryable}


def creation_token(exchange: Exchange) -> bytes | None:
    """A repeat under the same `Idempotency-Key` is answered as the first was."""
    key = idempotency_key(exchange)
    return None if key is None else sha256(b"goqueue create topic " + key.encode()).digest()[:16]


def idempotency_key(exchange: Exchange) -> str | None:
    values = exchange.head.values(b"idempotency-key")
    if not values:
        return None
    if len(values) > 1 or not 0 < len(values[0]) <= KEY_SIZE_MAX:
        raise InvalidRequest(f"a request has one Idempotency-Key of 1 to {KEY_SIZE_MAX} bytes")
    try:
        return values[0].decode("ascii")
    except UnicodeDecodeError:
        raise InvalidRequest("an Idempotency-Key has only characters of ASCII") from None


async def create(call: HttpCall[None, NewTopic]) -> Response:
    asked = call.body
    created = await call.ask(
        wire.CreateTopic(asked.name, asked.partitions, dict(asked.config), creation_token(call.exchange))
    )
    return json_response(topic_in_json(_only(call, created)), 201)


async def describe_all(call: HttpCall[TopicsQuery, None]) -> Response:
    """A page of names and sizes, in the order of names."""
    asked = call.query
    found = cast(wire.Topics, await call.ask(wire.DescribeTopics(None))).topics
    wanted = sorted(each for each in found if each.name.startswith(asked.prefix) and each.name > asked.after)
    page = wanted[: asked.limit]
    answer: dict[str, Any] = {"topics": [_summary(each) for each in page]}
    if len(wanted) > len(page):
        answer["next"] = page[-1].name
    return json_response(answer)


def _summary(topic: wire.TopicDescription) -> dict[str, Any]:
    return {
        "name": topic.name,
        "uuid": str(UUID(bytes=topic.uuid)),
        "partitions": len(topic.partitions),
        "messages": sum(each.messages or 0 for each in topic.partitions),
        "size": sum(each.size or 0 for each in topic.partitions),
    }


async def describe(call: HttpCall[None, None]) -> Response:
    return json_response(topic_in_json(await _described(call)))


async def partitions(call: HttpCall[None, None]) -> Response:
    return json_response({"partitions": topic_in_json(await _described(call))["partitions"]})


async def change(call: HttpCall[None, ChangedTopic]) -> Response:
    """A change that is refused changes nothing: so the number of partitions, which is changed last, is looked at
    first."""
    name, asked = call.path["topic"], call.body
    if asked.config is None and asked.partitions is None:
        raise InvalidRequest("there is nothing to change; give config, or partitions")
    topic = await _described(call)
    if asked.config is not None and (asked.partitions is None or asked.partitions >= len(topic.partitions)):
        topic = _only(call, await call.ask(wire.AlterTopic(name, dict(asked.config))))
    if asked.partitions is not None:
        topic = _only(call, await call.ask(wire.AddPartitions(name, asked.partitions)))
    return json_response(topic_in_json(topic))


async def delete(call: HttpCall[None, None]) -> Response:
    """By its UUID, so that a late repeat deletes no topic that was made again."""
    topic = await _described(call)
    await call.ask(wire.DeleteTopic(topic.name, topic.uuid))
    call.gateway.topics.forget(topic.name)
    return NOTHING


async def purge(call: HttpCall[None, NoFields]) -> Response:
    await call.ask(wire.Purge(call.path["topic"]))
    return NOTHING


async def delete_before(call: HttpCall[None, OffsetBefore]) -> Response:
    topic, partition, offset = call.path["topic"], number_in_path(call.path["partition"]), call.body.offset
    try:
        await call.ask(wire.DeleteBefore(topic, partition, offset))
    except OffsetOutOfRange as error:
        raise placed(error, topic, partition, offset) from None
    return NOTHING


def number_in_path(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidRequest(f"{text!r} in the path is no number")
    return int(text)


async def _described(call: HttpCall[Any, Any]) -> wire.TopicDescription:
    return _only(call, await call.ask(wire.DescribeTopics((call.path["topic"],))))


def _only(call: HttpCall[Any, Any], answer: object) -> wire.TopicDescription:
    [topic] = cast(wire.Topics, answer).topics
    call.gateway.topics.note(topic)
    return topic


TOPIC_ERRORS = ("unknown_topic", "invalid_name")
PARTITION_ERRORS = (*TOPIC_ERRORS, "unknown_partition", "partition_unavailable", "partition_lost")
ROUTES = (
    Route(
        "POST",
        "/topics",
        create,
        "Create a topic. A repeat with the same Idempotency-Key is answered as the first was.",
        GROUP,
        body=NewTopic,
        answer=TopicAnswer,
        status=201,
        errors=("invalid_name", "invalid_config", "topic_exists", "disk_full", "unavailable"),
        asks=(wire.CreateTopic,),
        example="""-d '{"name": "orders", "partitions": 3}' $URL/topics""",
    ),
    Route(
        "GET",
        "/topics",
        describe_all,
        "List topics in the order of their names, a page at a time.",
        GROUP,
        query=TopicsQuery,
        answer=TopicsAnswer,
        asks=(wire.DescribeTopics,),
        example="$URL/topics",
    ),
    Route(
        "GET",
        "/topics/{topic}",
        describe,
        "Show a topic: its settings, and the offsets and sizes of its partitions.",
        GROUP,
        answer=TopicAnswer,
        errors=TOPIC_ERRORS,
        asks=(wire.DescribeTopics,),
        example="$URL/topics/orders",
    ),
    Route(
        "GET",
        "/topics/{topic}/partitions",
        partitions,
        "Show the partitions of a topic.",
        GROUP,
        answer=PartitionsAnswer,
        errors=TOPIC_ERRORS,
        asks=(wire.DescribeTopics,),
        example="$URL/topics/orders/partitions",
    ),
    Route(
        "PATCH",
        "/topics/{topic}",
        change,
        "Alter settings of a topic, or give it more partitions.",
        GROUP,
        body=ChangedTopic,
        answer=TopicAnswer,
        errors=(*TOPIC_ERRORS, "invalid_config", "disk_full", "unavailable"),
        asks=(wire.DescribeTopics, wire.AlterTopic, wire.AddPartitions),
        example="""-X PATCH -d '{"config": {"max_message_bytes": 65536}}' $URL/topics/orders""",
    ),
    Route(
        "DELETE",
        "/topics/{topic}",
        delete,
        "Delete a topic and all its messages.",
        GROUP,
        status=204,
        errors=(*TOPIC_ERRORS, "unavailable"),
        asks=(wire.DescribeTopics, wire.DeleteTopic),
    ),
    Route(
        "POST",
        "/topics/{topic}/purge",
        purge,
        "Delete all messages of a topic, and keep the topic.",
        GROUP,
        body=NoFields,
        status=204,
        errors=(*TOPIC_ERRORS, "unavailable", "partition_unavailable"),
        asks=(wire.Purge,),
        example="-X POST $URL/topics/orders/purge",
    ),
    Route(
        "POST",
        "/topics/{topic}/partitions/{partition}/delete-before",
        delete_before,
        "Delete the messages of a partition below an offset.",
        GROUP,
        body=OffsetBefore,
        status=204,
        errors=(*PARTITION_ERRORS, "offset_out_of_range"),
        asks=(wire.DeleteBefore,),
        example="""-d '{"offset": 0}' $URL/topics/orders/partitions/0/delete-before""",
    ),
)

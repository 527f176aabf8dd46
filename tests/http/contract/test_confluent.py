"""Confluent's own client works unchanged against a broker, and the broker holds its bytes to their schemas."""

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.common.schema_registry_client import ConfigCompatibilityLevel
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

import goqueue.blocking
from goqueue.errors import BatchRefused, SchemaRefused

ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
WIDER = {**ORDER, "properties": {**ORDER["properties"], "tags": {"type": "array"}}}  # type: ignore[dict-item]
STRICTER = {**ORDER, "required": ["id", "note"]}


class Addresses(NamedTuple):
    websocket: str
    http: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    data: Path = tmp_path_factory.mktemp("confluent") / "data"
    options = ["--data", str(data), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "-o", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "goqueue", "serve", *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield Addresses(**json.loads(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


@pytest.fixture(params=["", "/schemas"])
def registry(broker: Addresses, request: pytest.FixtureRequest) -> Iterator[SchemaRegistryClient]:
    """With the root of the port as the registry's address, and with the one beneath `/schemas`."""
    with a_client(broker, request.param) as client:
        yield client


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    return "".join(each if each.isalnum() else "-" for each in request.node.name)


def a_client(broker: Addresses, root: str = "") -> SchemaRegistryClient:
    """It keeps what it heard, so who wants to know what the broker says now asks with another one."""
    return SchemaRegistryClient({"url": broker.http + root, "max.retries": 0})


def schema(content: Any, **more: Any) -> Schema:
    return Schema(json.dumps(content), "JSON", **more)


def values_of(topic: str, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, headers)


def refused(call: Callable[..., object], *given: Any, **named: Any) -> tuple[int, int]:
    with pytest.raises(SchemaRegistryError) as refusal:
        call(*given, **named)
    return refusal.value.http_status_code, refusal.value.error_code


# The client of the registry


def test_a_schema_is_registered_and_found(registry: SchemaRegistryClient, broker: Addresses, topic: str) -> None:
    subject = f"{topic}-value"
    made = registry.register_schema_full_response(subject, schema(ORDER))
    assert (made.version, made.schema.schema_type, made.subject) == (1, "JSON", subject)
    with a_client(broker) as other:
        assert other.register_schema(subject, schema(ORDER)) == made.schema_id
        assert other.lookup_schema(subject, schema(ORDER)).version == 1
        assert other.get_schema(made.schema_id).schema_str == json.dumps(ORDER)
        assert other.get_schema(made.schema_id, subject_name=subject) == other.get_schema_by_guid(made.guid)
        assert other.get_latest_version(subject).guid == made.guid
        assert other.get_version(subject, 1) == other.get_latest_version(subject)
    assert subject in registry.get_subjects()
    assert registry.get_subjects(subject_prefix=topic, offset=0, limit=5) == [subject]
    assert subject in registry.get_subjects_by_schema_id(made.schema_id)
    places = registry.get_schema_versions(made.schema_id)
    assert (subject, 1) in [(each.subject, each.version) for each in places]
    assert registry.get_schema_types() == ["JSON", "AVRO"]
    assert registry.get_contexts() == ["."]


def test_a_subject_may_have_any_name(registry: SchemaRegistryClient, topic: str) -> None:
    for name in (f"{topic}/a b", f"{topic}%2Fx", f"{topic}+ü?#"):
        registry.register_schema(name, schema(ORDER))
        assert registry.get_versions(name) == [1]
        assert registry.get_subjects(subject_prefix=name) == [name]


def test_what_cannot_be_is_refused_with_its_number(registry: SchemaRegistryClient, topic: str) -> None:
    assert refused(registry.get_schema, 2_000_000_000) == (404, 40403)
    assert refused(registry.get_latest_version, topic) == (404, 40401)
    assert refused(registry.register_schema, topic, Schema("{", "JSON")) == (422, 42201)
    assert refused(registry.register_schema, topic, Schema("{}", "PROTOBUF")) == (422, 42201)
    registry.register_schema(topic, schema(ORDER))
    assert refused(registry.get_version, topic, 7) == (404, 40402)
    assert refused(registry.lookup_schema, topic, schema(WIDER)) == (404, 40403)
    assert refused(registry.register_schema, topic, schema(STRICTER))[0] == 409


def test_schemas_are_compared_at_the_level_that_is_set(registry: SchemaRegistryClient, topic: str) -> None:
    registry.register_schema(topic, schema(ORDER))
    assert registry.test_compatibility(topic, schema(WIDER))
    assert not registry.test_compatibility(topic, schema(STRICTER), version=1, verbose=True, normalize=True)
    assert not registry.test_compatibility_all_versions(topic, schema(STRICTER), verbose=True)
    assert registry.set_compatibility(topic, "forward") == {"compatibility": "FORWARD"}
    assert registry.get_compatibility(topic) == "FORWARD"
    assert registry.test_compatibility(topic, schema(STRICTER))
    registry.set_config(topic, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    assert registry.get_config(topic).compatibility_level == ConfigCompatibilityLevel.NONE
    assert registry.delete_config(topic).compatibility_level == ConfigCompatibilityLevel.NONE
    assert refused(registry.get_config, topic) == (404, 40408)
    assert registry.get_compatibility() == "BACKWARD"


def test_modes_are_set_and_taken_back(registry: SchemaRegistryClient, topic: str) -> None:
    assert registry.get_global_mode() == "READWRITE"
    assert refused(registry.get_mode, topic) == (404, 40409)
    assert registry.update_mode(topic, "READONLY") == "READONLY"
    assert registry.get_mode(topic) == "READONLY"
    assert refused(registry.register_schema, topic, schema(ORDER)) == (422, 42205)
    assert registry.update_mode(topic, "IMPORT", force=True) == "IMPORT"
    assert registry.delete_mode(topic) == "IMPORT"
    assert registry.update_global_mode("READWRITE", force=True) == "READWRITE"


def test_versions_and_subjects_are_deleted(registry: SchemaRegistryClient, topic: str) -> None:
    registry.register_schema(topic, schema(ORDER))
    registry.register_schema(topic, schema(WIDER))
    assert refused(registry.delete_version, topic, 1, permanent=True) == (404, 40407)
    assert registry.delete_version(topic, 1) == 1
    assert registry.get_versions(topic) == [2]
    assert registry.get_versions(topic, deleted=True) == [1, 2]
    assert registry.get_versions(topic, deleted_only=True) == [1]
    assert registry.delete_version(topic, 1, permanent=True) == 1
    assert registry.delete_subject(topic) == [2]
    assert topic not in registry.get_subjects()
    assert topic in registry.get_subjects(deleted_only=True)
    assert registry.delete_subject(topic, permanent=True) == [2]
    assert topic not in registry.get_subjects(deleted=True)


# Serializers

Serializer = Callable[..., JSONSerializer]


def test_a_serializer_registers_its_schema_and_a_deserializer_finds_it(
    registry: SchemaRegistryClient, broker: Addresses, topic: str
) -> None:
    """It asks for an association first, and goes on by the name of the topic."""
    data = JSONSerializer(json.dumps(ORDER), registry)({"id": 7}, values_of(topic))
    assert data is not None
    assert data[:1] == b"\0"
    assert registry.get_versions(f"{topic}-value") == [1]
    with a_client(broker) as other:
        assert JSONDeserializer(None, schema_registry_client=other)(data, values_of(topic)) == {"id": 7}


def test_keys_have_a_subject_of_their_own(registry: SchemaRegistryClient, topic: str) -> None:
    JSONSerializer(json.dumps(ORDER), registry)({"id": 7}, SerializationContext(topic, MessageField.KEY))
    assert registry.get_subjects(subject_prefix=topic) == [f"{topic}-key"]


def test_a_serializer_may_use_what_is_registered(
    registry: SchemaRegistryClient, broker: Addresses, topic: str
) -> None:
    never = {"auto.register.schemas": False}
    with pytest.raises(SchemaRegistryError):
        JSONSerializer(json.dumps(ORDER), registry, conf=never)({"id": 7}, values_of(topic))
    properties = Metadata(None, MetadataProperties({"major": "1"}), None)
    first = registry.register_schema(f"{topic}-value", schema(ORDER, metadata=properties))
    second = registry.register_schema(f"{topic}-value", schema(WIDER))
    for conf, expected in [
        (never, first),
        ({**never, "use.latest.version": True}, second),
        ({**never, "use.schema.id": first}, first),
        ({**never, "use.latest.with.metadata": {"major": "1"}}, first),
    ]:
        with a_client(broker) as other:
            given = schema(ORDER, metadata=properties)
            data = JSONSerializer(given, other, conf=conf)({"id": 7}, values_of(topic))
        assert data is not None
        assert int.from_bytes(data[1:5]) == expected, conf


def test_normalized_the_order_of_members_does_not_matter(
    registry: SchemaRegistryClient, broker: Addresses, topic: str
) -> None:
    turned = json.dumps(dict(reversed(ORDER.items())))
    for text in (json.dumps(ORDER), turned):
        with a_client(broker) as other:
            conf = {"normalize.schemas": True}
            JSONSerializer(text, other, conf=conf)({"id": 7}, values_of(topic))
    assert registry.get_versions(f"{topic}-value") == [1]


def test_the_id_may_travel_in_a_header(registry: SchemaRegistryClient, broker: Addresses, topic: str) -> None:
    headers: dict[str, bytes] = {}
    conf = {"schema.id.serializer": header_schema_id_serializer}
    data = JSONSerializer(json.dumps(ORDER), registry, conf=conf)({"id": 7}, values_of(topic, headers))
    assert data is not None
    assert json.loads(data) == {"id": 7}
    assert len(headers["__value_schema_id"]) == 17
    with a_client(broker) as other:
        found = JSONDeserializer(None, schema_registry_client=other)(data, values_of(topic, headers))
    assert found == {"id": 7}


def test_a_schema_may_refer_to_another_one(registry: SchemaRegistryClient, broker: Addresses, topic: str) -> None:
    registry.register_schema(f"{topic}-customer", schema({"type": "object", "required": ["name"]}))
    references = [SchemaReference("customer.json", f"{topic}-customer", 1)]
    order = {"title": "Order", "type": "object", "properties": {"customer": {"$ref": "customer.json"}}}
    serialize = JSONSerializer(schema(order, references=references), registry)
    data = serialize({"customer": {"name": "Ann"}}, values_of(topic))
    with pytest.raises(SerializationError):
        serialize({"customer": {}}, values_of(topic))
    made = registry.get_latest_version(f"{topic}-value")
    assert made.schema.references == references
    assert registry.get_referenced_by(f"{topic}-customer", 1) == [made.schema_id]
    assert refused(registry.delete_subject, f"{topic}-customer") == (422, 42206)
    with a_client(broker) as other:
        deserialize = JSONDeserializer(None, schema_registry_client=other)
        assert deserialize(data, values_of(topic)) == {"customer": {"name": "Ann"}}


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (topic_subject_name_strategy, "{topic}-value"),
        (topic_record_subject_name_strategy, "{topic}-{title}"),
        (record_subject_name_strategy, "{title}"),
    ],
)
def test_the_subject_is_named_as_the_client_likes(
    strategy: Any, subject: str, registry: SchemaRegistryClient, topic: str
) -> None:
    title = f"com.acme/{topic} of ours"
    text = json.dumps({**ORDER, "title": title})
    JSONSerializer(text, registry, conf={"subject.name.strategy": strategy})({"id": 7}, values_of(topic))
    assert registry.get_versions(subject.format(topic=topic, title=title)) == [1]


# Bytes of its serializers on their way through the broker


def over_websocket(broker: Addresses, topic: str, value: bytes, headers: dict[str, bytes]) -> None:
    with goqueue.blocking.connect(broker.websocket) as client:
        client.publish(topic, value, headers=headers)


def over_http(broker: Addresses, topic: str, value: bytes, headers: dict[str, bytes]) -> None:
    told = {name: {"base64": b64encode(each).decode()} for name, each in headers.items()}
    message = {"value_base64": b64encode(value).decode(), "headers": told}
    status, answer = posted(broker, f"/topics/{topic}/messages", {"messages": [message]})
    if status != 200:
        [result] = answer["results"]
        assert (status, result["code"]) == (422, "schema_refused"), answer
        raise SchemaRefused(result["message"])


def posted(broker: Addresses, path: str, given: Any) -> tuple[int, Any]:
    connection = HTTPConnection(urlsplit(broker.http).netloc, timeout=30)
    connection.request("POST", path, json.dumps(given), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    status, told = answer.status, json.loads(answer.read())
    connection.close()
    return status, told


def read_back(broker: Addresses, topic: str) -> list[tuple[bytes, dict[str, bytes]]]:
    with goqueue.blocking.connect(broker.websocket) as client:
        return [(each.value or b"", dict(each.headers)) for each in client.read(topic, partition=0, end="latest")]


@pytest.mark.parametrize("publish", [over_websocket, over_http])
@pytest.mark.parametrize("in_header", [False, True])
def test_the_broker_holds_framed_bytes_to_the_schema_that_they_name(
    publish: Any, in_header: bool, registry: SchemaRegistryClient, broker: Addresses, topic: str
) -> None:
    """G16: on every way in, behind the framing, against that id; and the bytes come back as they were."""
    conf = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}
    headers: dict[str, bytes] = {}
    serialize = JSONSerializer(json.dumps(ORDER), registry, conf={**conf, "validate": False})
    good = serialize({"id": 7}, values_of(topic, headers))
    bad = serialize({"id": "seven"}, values_of(topic, {}))
    registry.register_schema(f"{topic}-value", schema(WIDER))
    newer = JSONSerializer(json.dumps(WIDER), registry, conf={**conf, "validate": False})
    newer_headers: dict[str, bytes] = {}
    tagged = newer({"id": 8, "tags": []}, values_of(topic, newer_headers))
    assert good is not None
    assert bad is not None
    assert tagged is not None
    with goqueue.blocking.connect(broker.websocket) as client:
        client.create_topic(topic, partitions=1)
    publish(broker, topic, good, headers)
    publish(broker, topic, tagged, newer_headers)
    if not in_header:
        old = good[:5] + tagged[5:]  # the first version has no tags, and is closed
        with pytest.raises((SchemaRefused, BatchRefused), match=r"tags|additionalProperties"):
            publish(broker, topic, old, {})
    with pytest.raises((SchemaRefused, BatchRefused), match=r"\$\.id: type"):
        publish(broker, topic, bad, headers)
    with a_client(broker) as other:
        deserialize = JSONDeserializer(
            None, schema_registry_client=other, conf={"schema.id.deserializer": dual_schema_id_deserializer}
        )
        found = [deserialize(value, values_of(topic, named)) for value, named in read_back(broker, topic)]
    assert found == [{"id": 7}, {"id": 8, "tags": []}]


def test_a_message_that_names_a_schema_of_another_subject_is_refused(
    registry: SchemaRegistryClient, broker: Addresses, topic: str
) -> None:
    JSONSerializer(json.dumps(ORDER), registry)({"id": 7}, values_of(topic))
    foreign = JSONSerializer(json.dumps(WIDER), registry)({"id": 7}, values_of(f"{topic}-2"))
    assert foreign is not None
    with goqueue.blocking.connect(broker.websocket) as client:
        client.create_topic(topic, partitions=1)
    for publish in (over_websocket, over_http):
        with pytest.raises((SchemaRefused, BatchRefused)):
            publish(broker, topic, foreign, {})
        with pytest.raises((SchemaRefused, BatchRefused)):
            publish(broker, topic, b"\0\x7f\xff\xff\xff{}", {})


def test_bytes_that_were_published_as_base64_come_back_so(broker: Addresses, topic: str) -> None:
    """What HTTP carries as base64 are the same bytes."""
    with a_client(broker) as registry:
        data = JSONSerializer(json.dumps(ORDER), registry)({"id": 7}, values_of(topic))
    assert data is not None
    with goqueue.blocking.connect(broker.websocket) as client:
        client.create_topic(topic, partitions=1)
    over_http(broker, topic, data, {})
    connection = HTTPConnection(urlsplit(broker.http).netloc, timeout=30)
    connection.request("GET", f"/topics/{topic}/messages")
    [message] = json.loads(connection.getresponse().read())["messages"]
    connection.close()
    assert b64decode(message["value_base64"]) == data

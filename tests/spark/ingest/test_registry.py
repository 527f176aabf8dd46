"""`goqueue spark ingest --schema registry`: messages are read by the version that they name."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pyarrow.parquet
import pytest

from goqueue import blocking
from goqueue.core.schemas.validation.framing import (
    SCHEMA_ID_HEADER,
    VALUE_SCHEMA_HEADER,
    WrongFraming,
    header_of,
    named_by_headers,
    prefix_of,
    unframed,
)
from goqueue.errors import InvalidConfig, UnknownSchema, UnknownSubject
from tests.spark.ingest.test_ingest import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.spark.ingest.job import IngestSummary

Run = Callable[..., "IngestSummary"]
Properties = Mapping[str, Any]

WHOLE, TEXT, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}


def closed(properties: Properties, *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


FIRST = closed({"id": WHOLE, "customer": TEXT}, "id")
SECOND = closed(
    {"id": WHOLE, "customer": TEXT, "cents": NUMBER, "at": closed({"street": TEXT, "town": TEXT})}, "id"
)


@pytest.fixture
def run(spark: "SparkSession", url: str, topic: str, tmp_path: Path) -> Run:
    from goqueue.spark.ingest import FromRegistry, Ingest, ingest  # noqa: PLC0415

    def run(*chosen: Any, **changed: Any) -> "IngestSummary":
        given = {"url": url, "topics": [topic], "path": str(tmp_path / "orders"), "schema": FromRegistry(*chosen)}
        return ingest(spark, Ingest(**{**given, **changed}))

    return run


@pytest.fixture
def subject(client: blocking.Client, topic: str) -> str:
    """Of a topic that takes whatever is published, as before somebody has registered a schema."""
    client.create_topic(topic, partitions=1)
    client.alter_topic(topic, {"schema_validation": "off"})
    return f"{topic}-value"


def packed(**said: Any) -> bytes:
    return json.dumps(said).encode()


def notes_of(path: str) -> dict[str, Any]:
    """What each file says of the schema by which its rows were read."""
    found = {}
    for each in Path(path.removeprefix("file:")).rglob("log_date=*/*.parquet"):
        said = pyarrow.parquet.read_metadata(each).metadata[b"org.apache.spark.sql.parquet.row.metadata"]
        columns = {column["name"]: column["metadata"] for column in json.loads(said)["fields"]}
        found[each.name] = columns["_topic"].get("goqueue.schema")
    return found


def about_of(path: str) -> Any:
    (file,) = Path(path.removeprefix("file:"), "_goqueue/table").glob("*.json")
    return json.loads(file.read_text())


def chosen(done: "IngestSummary") -> int:
    assert done.schema is not None
    version: int = done.schema["version"]
    return version


def test_messages_of_several_versions_come_into_one_table(
    run: Run, client: blocking.Client, topic: str, subject: str
) -> None:
    first, second = (client.register_schema(subject, each, force=True) for each in (FIRST, SECOND))
    other = client.register_schema(f"another-{topic}", {"type": "string", "title": topic})
    stranger = (b"\x01" + uuid4().bytes)[:17]
    for value, headers in {
        packed(id=1, cents=1.5, at={"town": "Bath"}): {},
        packed(id=2, cents=2): header_of(second.id),
        prefix_of(second.id) + packed(id=3, customer="c3"): {},
        packed(id=4, customer="c4"): header_of(first.id),
        prefix_of(first.id) + packed(id=5): {},
        packed(id=6): {VALUE_SCHEMA_HEADER: b"\x01" + first.guid.bytes},
        b"\x01" + first.guid.bytes + packed(id=7): header_of(first.id),
        packed(id=8, cents=8): header_of(first.id),
        packed(id=9): header_of(other.id),
        stranger + packed(id=10): {},
        packed(id=11): {SCHEMA_ID_HEADER: b"eleven"},
        prefix_of(first.id) + packed(id=12): header_of(second.id),
        b"\x00\x01": {},
        prefix_of(second.id) + packed(id="14"): {},
    }.items():
        client.publish(topic, value, headers=headers)
    done = run()
    assert done.quarantined == {
        "the message has an unknown field": 1,
        f"it names a schema that is no version of subject {subject}": 2,
        "header schema-id is no decimal number": 1,
        "the header and the prefix name different schemas": 1,
        "the prefix is no schema id": 1,
        "/id is not a whole number": 1,
    }
    rows = {row["id"]: row for row in read(done.path)}
    assert sorted(rows) == [1, 2, 3, 4, 5, 6, 7]
    assert [rows[each]["customer"] for each in (3, 4, 5)] == ["c3", "c4", None]
    assert (rows[1]["cents"], rows[4]["cents"], rows[4]["at"]) == (1.5, None, None)
    assert rows[1]["at"] == {"street": None, "town": "Bath"}
    kept = {row["value"] for row in read(done.quarantine)}
    assert prefix_of(second.id) + packed(id="14") in kept, "as it came"
    about = {"subject": subject, "version": 2, "id": second.id}
    assert done.schema == done.to_json()["schema"] == about_of(done.path)["schema"] == about
    notes = {each["version"]: each for each in notes_of(done.path).values()}
    assert notes == {1: {**about, "version": 1, "id": first.id}, 2: about}
    assert sum(done.offsets[topic].values()) == 14
    assert run().messages == 0


def test_a_table_goes_on_from_a_file_and_from_version_to_version(
    run: Run, client: blocking.Client, topic: str, subject: str
) -> None:
    from goqueue.spark.ingest import FromRegistry  # noqa: PLC0415

    with pytest.raises(UnknownSubject):
        run()
    client.register_schema(subject, FIRST)
    client.publish(topic, packed(id=1))
    by_file = run(schema=FIRST)
    assert (by_file.rows, by_file.schema, about_of(by_file.path)["schema"]) == (1, None, None)
    client.publish(topic, packed(id=2))
    assert chosen(run()) == 1
    second = client.register_schema(subject, SECOND)
    client.publish(topic, packed(id=3, cents=3), headers=header_of(second.id))
    named = run(None, 1)  # and reads the newer one by what it says
    assert (named.rows, chosen(named)) == (1, 1)
    client.publish(topic, packed(id=4, cents=4))
    assert run().schema == {"subject": subject, "version": 2, "id": second.id}
    with pytest.raises(InvalidConfig, match=r"/cents is in the table but not in it"):
        run(subject, 1)
    with pytest.raises(UnknownSchema):
        run(subject, 7)
    with pytest.raises(InvalidConfig, match="with several topics the schema's subject has to be named"):
        run(topics=[topic, "another"])
    assert FromRegistry("mine").subject_for([topic, "another"]) == "mine"


def test_a_version_that_cannot_become_the_table_leaves_its_messages_in_the_quarantine(
    run: Run, client: blocking.Client, topic: str, subject: str
) -> None:
    """Also one that is registered, or deleted, while it is read. Whole numbers become numbers."""
    number, text, odd, whole, newest = (
        client.register_schema(subject, closed({"id": each}), force=True)
        for each in (NUMBER, TEXT, {"type": ["string", "integer"]}, WHOLE, {**NUMBER, "title": "newest"})
    )
    client.delete_schema(subject, whole.version)
    for each, said in ((number, 1.5), (text, "2"), (odd, 3), (whole, 4), (newest, 5)):
        client.publish(topic, packed(id=said), headers=header_of(each.id))
    done = run()
    assert sorted(row["id"] for row in read(done.path)) == [1.5, 4.0, 5.0]
    faults = sorted(done.quarantined)
    assert faults[0] == (
        f"version 2 of subject {subject} has other types: /id is string in it and double in the table"
    )
    assert faults[1].startswith(f"version 3 of subject {subject}: the schema cannot be a table at #/properties/id")
    assert done.quarantined.total() == len(faults) == 2


def test_referenced_schemas_are_columns_too(run: Run, client: blocking.Client, topic: str, subject: str) -> None:
    town = client.register_schema(
        f"town-{topic}", {"$defs": {"name": TEXT}, **closed({"name": {"$ref": "#/$defs/name"}})}
    )
    place = closed({"street": TEXT, "town": {"$ref": "town.json"}})
    address = client.register_schema(f"address-{topic}", place, [("town.json", town.subject, 1)])
    client.register_schema(
        subject, closed({"id": WHOLE, "to": {"$ref": "address.json"}}), [("address.json", address.subject, 1)]
    )
    client.publish(topic, packed(id=1, to={"street": "High", "town": {"name": "Bath"}}))
    client.publish(topic, packed(id=2, to={"street": "High", "town": {"name": 3}}))
    done = run()
    (row,) = read(done.path)
    assert row["to"] == {"street": "High", "town": {"name": "Bath"}}
    assert done.quarantined == {"/to/town/name is not a string": 1}


def test_other_versions_are_asked_for_once_and_new_ones_when_they_are_named(
    client: blocking.Client, topic: str, subject: str, url: str
) -> None:
    from goqueue.spark.ingest.fromregistry import SubjectVersions, found_version  # noqa: PLC0415

    first = client.register_schema(subject, FIRST)
    versions = SubjectVersions(lambda: blocking.connect(url), found_version(client, subject, "latest"))
    assert set(versions.by_name()) >= {str(first.id), first.guid.hex}
    second = client.register_schema(subject, SECOND)
    before = versions.by_name()
    assert str(second.id) not in before
    versions.look_again()
    after = versions.by_name()
    assert after[str(second.id)].document() == SECOND
    assert after[str(first.id)] is before[str(first.id)] is versions.own


def test_avro_is_no_table(client: blocking.Client, topic: str) -> None:
    from goqueue.spark.ingest.fromregistry import found_version  # noqa: PLC0415

    client.set_compatibility(f"avro-{topic}", "NONE")
    client.register_schema(f"avro-{topic}", '"string"', schema_type="AVRO")
    with pytest.raises(InvalidConfig, match="is AVRO; a table needs JSON Schema"):
        found_version(client, f"avro-{topic}", "latest").document()


GUID = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
FRAMED: list[tuple[dict[str, bytes], bytes | None]] = [
    (headers, value)
    for headers in (
        {},
        {"shop": b"north"},
        {SCHEMA_ID_HEADER: b"7"},
        {SCHEMA_ID_HEADER: b"007"},
        {SCHEMA_ID_HEADER: b"7\n"},
        {SCHEMA_ID_HEADER: b""},
        {SCHEMA_ID_HEADER: b"\xff"},
        {SCHEMA_ID_HEADER: b"12345678901"},
        {SCHEMA_ID_HEADER: b"4294967295", VALUE_SCHEMA_HEADER: b"x"},
        {VALUE_SCHEMA_HEADER: prefix_of(2**32 - 1)},
        {VALUE_SCHEMA_HEADER: b"\x01" + GUID.bytes},
        {VALUE_SCHEMA_HEADER: prefix_of(7) + b"x"},
        {VALUE_SCHEMA_HEADER: b"\x01" + GUID.bytes + b"x"},
        {VALUE_SCHEMA_HEADER: b"7"},
        {VALUE_SCHEMA_HEADER: b""},
    )
    for value in (b"{}", b"", prefix_of(7) + b"{}", b"\x01" + GUID.bytes, b"\x00\x00", b"\x01" + b"x" * 15, None)
]


def as_the_broker_reads(headers: dict[str, bytes], value: bytes | None) -> tuple[str | None, bytes | None]:
    try:
        by_header = named_by_headers(headers, is_key=False)
        framed = unframed(value) if value is not None else None
    except WrongFraming:
        return "!", value
    names = [by_header] if framed is None else [by_header, framed.name]
    said = [each.hex if isinstance(each, UUID) else str(each) for each in names if each is not None]
    return " ".join(dict.fromkeys(said)) or None, framed.payload if framed else None


def test_names_and_payloads_are_those_that_the_broker_reads(spark: "SparkSession") -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from goqueue.spark.ingest.naming import named, payload  # noqa: PLC0415
    from goqueue.spark.schema import HEADERS_TYPE  # noqa: PLC0415

    rows = [(list(headers.items()), value, number) for number, (headers, value) in enumerate(FRAMED)]
    given = spark.createDataFrame(rows, f"headers {HEADERS_TYPE.simpleString()}, value binary, number int")
    name, rest = named(F.col("headers"), F.col("value")), payload(F.col("value"))
    for row in given.select("number", name.alias("name"), rest.alias("rest")).collect():
        wanted, payload_wanted = as_the_broker_reads(*FRAMED[row["number"]])
        if wanted == "!":
            assert row["name"].startswith("!"), FRAMED[row["number"]]
        else:
            assert (row["name"], row["rest"]) == (wanted, payload_wanted), FRAMED[row["number"]]

"""The registry's names on a client, against a broker in memory."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import goqueue
from goqueue.client.schemas.registry import SchemaQuestions
from goqueue.net.wire import schemas as wire
from goqueue.testing import Machine, machine
from tests.client.schemas.orders import ORDER_SCHEMA, NewerOrder, Order

OTHER: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


@pytest.fixture
async def world() -> AsyncIterator[Machine]:
    async with machine() as made:
        yield made


@pytest.fixture
async def client(world: Machine) -> AsyncIterator[goqueue.Client]:
    async with world.client() as client:
        yield client


async def test_a_schema_is_registered_once_and_found_again(client: goqueue.Client) -> None:
    first = await client.register_schema("orders-value", ORDER_SCHEMA)
    assert (first.subject, first.version, first.id, first.type) == ("orders-value", 1, 1, "JSON")
    assert first.schema.startswith('{"type":"object","properties":')
    assert await client.register_schema("orders-value", first.schema.encode()) == first
    assert await client.schema("orders-value") == await client.schema("orders-value", 1) == first
    assert await client.schema("orders") == first
    assert await client.schema_by_id(first.id) == first
    assert await client.find_schema("orders-value", ORDER_SCHEMA) == first
    with pytest.raises(goqueue.UnknownSchema):
        await client.find_schema("orders-value", OTHER)
    with pytest.raises(goqueue.UnknownSubject) as unknown:
        await client.schema("nothing")
    assert unknown.value.error_code == 40401


async def test_types_are_registered_by_their_schema_and_grow(client: goqueue.Client) -> None:
    await client.register_schema("orders-value", Order)
    newer = await client.register_schema("orders-value", NewerOrder)
    assert (newer.version, await client.schema_versions("orders-value")) == (2, [1, 2])
    assert (await client.schema("orders-value")).schema == newer.schema


async def test_a_schema_that_is_not_compatible_is_refused_and_the_check_says_why(client: goqueue.Client) -> None:
    await client.register_schema("orders-value", ORDER_SCHEMA)
    found = await client.check_schema("orders-value", OTHER)
    assert (found.is_compatible, found.level) == (False, "BACKWARD")
    assert {(each.type, each.path, each.version) for each in found} >= {("TYPE_CHANGED", "#/properties/id", 1)}
    assert all(each.help.endswith(".") for each in found)
    with pytest.raises(goqueue.IncompatibleSchema):
        await client.register_schema("orders-value", OTHER)
    await client.set_compatibility("orders-value", "none")
    assert await client.compatibility("orders-value") == "NONE"
    fine = await client.check_schema("orders-value", OTHER)
    assert (list(fine), fine.is_compatible, fine.level) == ([], True, "NONE")
    assert (await client.register_schema("orders-value", OTHER)).version == 2


async def test_levels_and_modes_are_of_all_subjects_or_of_one(client: goqueue.Client) -> None:
    await client.register_schema("orders-value", ORDER_SCHEMA)
    assert await client.compatibility() == "BACKWARD"
    await client.set_compatibility(None, "FULL_TRANSITIVE")
    await client.set_compatibility("orders-value", "FORWARD")
    assert (await client.compatibility("orders-value"), await client.compatibility("x")) == (
        "FORWARD",
        "FULL_TRANSITIVE",
    )
    for _ in range(2):  # there is nothing left to take back
        await client.set_compatibility("orders-value", None)
    assert await client.compatibility("orders-value") == "FULL_TRANSITIVE"
    await client.set_schema_mode("orders-value", "readonly")
    assert (await client.schema_mode("orders-value"), await client.schema_mode()) == ("READONLY", "READWRITE")
    with pytest.raises(goqueue.SchemaConflict):
        await client.register_schema("orders-value", Order)
    await client.set_schema_mode("orders-value", None)
    assert await client.schema_mode("orders-value") == "READWRITE"


async def test_schemas_of_another_registry_keep_their_ids(client: goqueue.Client) -> None:
    await client.set_schema_mode("orders-value", "IMPORT")
    moved = await client.register_schema("orders-value", ORDER_SCHEMA, schema_id=4_711, version=3)
    assert (moved.id, moved.version) == (4_711, 3)
    await client.set_schema_mode("orders-value", None)
    assert (await client.register_schema("lines-value", {"type": "array"})).id > 4_711


async def test_what_is_deleted_is_shown_to_those_who_ask_and_given_to_nobody_again(client: goqueue.Client) -> None:
    for schema in (Order, NewerOrder):
        await client.register_schema("orders-value", schema)
    with pytest.raises(goqueue.SchemaConflict):
        await client.delete_schema("orders-value", 1, permanent=True)
    assert await client.delete_schema("orders-value", "latest") == [2]
    assert await client.schema_versions("orders-value") == [1]
    assert await client.schema_versions("orders-value", deleted=True) == [1, 2]
    assert (await client.schema("orders-value", 2, deleted=True)).is_deleted
    assert await client.delete_schema("orders-value") == [1]
    assert (await client.subjects(), await client.subjects(deleted=True)) == ([], ["orders-value"])
    assert await client.delete_schema("orders-value", permanent=True) == [1, 2]
    assert (await client.register_schema("orders-value", ORDER_SCHEMA)).version == 3


async def test_a_schema_may_refer_to_others(client: goqueue.Client) -> None:
    line = await client.register_schema("line", {"type": "string"})
    lines = {"type": "array", "items": {"$ref": "line.json"}}
    registered = await client.register_schema("lines", lines, [("line.json", "line", 1)])
    assert registered.references == (goqueue.Reference("line.json", "line", 1),)
    assert await client.register_schema("copy", registered) != registered
    with pytest.raises(goqueue.SchemaConflict):
        await client.delete_schema(line.subject)
    with pytest.raises(goqueue.InvalidSchema):
        await client.register_schema("lines", lines)


class Paged:
    """A registry with so many subjects, which tells them three at a time."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    async def call(self, request: Any, kind: Any) -> Any:
        assert isinstance(request, wire.ListSubjects)
        page = self._names[request.offset : request.offset + 3]
        return kind(tuple(page), request.offset + 3 < len(self._names))


@pytest.mark.parametrize("count", [0, 3, 7])
async def test_a_list_of_many_pages_is_one_list(count: int) -> None:
    names = [f"topic-{number}-value" for number in range(count)]
    assert await SchemaQuestions(Paged(names)).subjects("") == names


async def test_subjects_are_listed_by_their_beginning(client: goqueue.Client) -> None:
    for name in ("orders-value", "lines-value", "lines-key"):
        await client.register_schema(name, True)
    assert await client.subjects() == ["lines-key", "lines-value", "orders-value"]
    assert await client.subjects("lines-") == ["lines-key", "lines-value"]


async def test_it_is_all_there_after_a_crash(client: goqueue.Client, world: Machine) -> None:
    first = await client.register_schema("orders-value", Order)
    await client.set_compatibility("orders-value", "FULL")
    await world.crash()
    await world.start()
    assert await client.schema("orders-value") == first
    assert await client.compatibility("orders-value") == "FULL"


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda client: client.schema("orders", 0), "version=0"),
        (lambda client: client.schema("orders", "newest"), "version='newest'"),
        (lambda client: client.schema_by_id("1"), "schema_id='1'"),
        (lambda client: client.schema(3), "subject=3"),
        (lambda client: client.register_schema("orders", None), "is no schema"),
        (lambda client: client.register_schema("orders", {}, schema_type="XML"), "there are JSON, AVRO"),
        (lambda client: client.set_compatibility("orders", "SOMETIMES"), "there are NONE, BACKWARD"),
        (lambda client: client.set_schema_mode("orders", "OFF"), "there are READWRITE"),
        (lambda client: client.delete_schema("orders", permanent="yes"), "permanent="),
        (lambda client: client.subjects("\ud800"), "prefix="),
    ],
)
async def test_arguments_that_cannot_be_meant_are_refused(client: goqueue.Client, call: Any, fault: str) -> None:
    with pytest.raises(goqueue.InvalidConfig) as refused:
        await call(client)
    assert fault in str(refused.value)

"""The requests for schemas, sent through a session without a socket."""

from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest
from trio.testing import MockClock

from goqueue.actors.front import schemas as front
from goqueue.actors.front.bounds import Bounds
from goqueue.actors.front.serving import SERVING
from goqueue.actors.front.session import BrokerSession
from goqueue.errors import InvalidSchema, ProtocolError, UnknownSchema, UnknownSubject
from goqueue.net.wire import schemas as wire
from goqueue.net.wire.schemas import SchemaBody
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker

OBJECT = SchemaBody('{"type": "object"}')
WITH_NOTE = SchemaBody('{"type": "object", "description": "note"}')
READING: list[Any] = [
    wire.LookUpSchema("orders", OBJECT),
    wire.GetSchema("orders"),
    wire.GetSchema(id=1),
    wire.ListSubjects(),
    wire.ListVersions("orders"),
    wire.ListSchemas(),
    wire.FindUses(id=1),
    wire.FindReferrers("orders"),
    wire.CheckSchema("orders", WITH_NOTE),
    wire.ReadSchemaSettings("orders"),
    wire.CountSchemas(),
]


@pytest.fixture
async def session(autojump_clock: MockClock) -> AsyncIterator[BrokerSession]:
    """With a subject that has two versions."""
    async with broker(SimulatedDisk(Random(0))) as running:
        session = BrokerSession(running, SERVING, Bounds())
        for schema in (OBJECT, WITH_NOTE):
            await session.call(wire.RegisterSchema("orders", schema))
        yield session


@pytest.mark.parametrize("request_", READING, ids=lambda each: type(each).__name__)
async def test_what_only_reads_calls_nobody(request_: Any, session: BrokerSession) -> None:
    """The owner of the registry may be busy with a large schema, or start again."""
    alone = replace(session.broker, registry=cast(Any, None))
    answer = await BrokerSession(alone, SERVING, Bounds()).call(request_)
    assert answer is not None


async def test_a_registration_says_whether_it_made_a_version(session: BrokerSession) -> None:
    again = cast(wire.SchemaRegistered, await session.call(wire.RegisterSchema("orders-value", OBJECT)))
    assert (again.described.subject, again.described.version, again.is_new) == ("orders", 1, False)
    assert again.described.schema == OBJECT


@pytest.mark.parametrize(
    "request_",
    [
        wire.GetSchema(),
        wire.FindUses(),
        wire.ChangeSchemaSettings("orders", level="FULL", reset_mode=True),
        wire.ChangeSchemaSettings("orders", mode="READONLY", reset_config=True),
    ],
)
async def test_a_request_that_means_nothing_is_refused(request_: Any, session: BrokerSession) -> None:
    with pytest.raises(ProtocolError):
        await session.call(request_)
    settings = cast(wire.SchemaSettings, await session.call(wire.ReadSchemaSettings("orders")))
    assert settings == wire.SchemaSettings(None, None, None)


async def test_a_schema_is_of_a_type_that_is_kept(session: BrokerSession) -> None:
    for name in ("PROTOBUF", "json", "x" * 256):
        with pytest.raises(InvalidSchema, match="choose JSON or AVRO") as refused:
            await session.call(wire.RegisterSchema("orders", OBJECT._replace(type=name)))
        assert refused.value.error_code == 42201
    found = cast(wire.SchemaFound, await session.call(wire.LookUpSchema("orders", OBJECT._replace(type=""))))
    assert found.described.schema == OBJECT


async def test_by_metadata_the_newest_that_has_all_of_them(session: BrokerSession) -> None:
    for number, metadata in enumerate(
        (
            '{"properties": {"a": "1", "b": "2"}}',
            '{"properties": {"a": "1"}}',
            '{"tags": {}}',
            '{"properties": {"a": 1}}',
        )
    ):
        schema = SchemaBody(f'{{"type": "object", "maxProperties": {9 - number}}}', metadata=metadata)
        await session.call(wire.RegisterSchema("tagged", schema, force=True))
    for wanted, version in [({"a": "1"}, 2), ({"a": "1", "b": "2"}, 1), ({}, 4)]:
        found = cast(wire.SchemaFound, await session.call(wire.GetSchema("tagged", metadata=dict(wanted))))
        assert found.described.version == version, wanted
    for missing in ({"a": "2"}, {"a": 1}, {"c": None}):
        with pytest.raises(UnknownSchema):
            await session.call(wire.GetSchema("tagged", metadata=dict(missing)))
    with pytest.raises(UnknownSubject):
        await session.call(wire.GetSchema("nobody", metadata={}))


async def test_a_page_of_schemas_ends_before_it_is_too_large(
    session: BrokerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count_max, offset, versions, has_more in [(1, 0, [1], True), (2, 0, [1, 2], False), (2, 1, [2], False)]:
        page = cast(wire.Schemas, await session.call(wire.ListSchemas(offset=offset, count_max=count_max)))
        assert ([each.version for each in page.schemas], page.has_more) == (versions, has_more)
    monkeypatch.setattr(front, "PAGE_SIZE", len(OBJECT.text))
    page = cast(wire.Schemas, await session.call(wire.ListSchemas()))
    assert ([each.version for each in page.schemas], page.has_more) == ([1], True)
    page = cast(wire.Schemas, await session.call(wire.ListSchemas(offset=1)))
    assert ([each.version for each in page.schemas], page.has_more) == ([2], False), (
        "one alone goes, whatever its size"
    )


async def test_after_a_change_settings_are_as_they_are_and_after_a_reset_as_they_were(
    session: BrokerSession,
) -> None:
    for asked, expected in [
        (wire.ChangeSchemaSettings("orders", level="FULL"), ("FULL", None, None)),
        (wire.ChangeSchemaSettings("orders", mode="READONLY"), ("FULL", None, "READONLY")),
        (wire.ChangeSchemaSettings("orders", reset_mode=True), ("FULL", None, "READONLY")),
        (wire.ReadSchemaSettings("orders"), ("FULL", None, None)),
        (wire.ReadSchemaSettings("orders", with_default=True), ("FULL", False, "READWRITE")),
        (wire.ChangeSchemaSettings("orders", reset_config=True), ("FULL", None, None)),
        (wire.ReadSchemaSettings("orders"), (None, None, None)),
        (wire.ReadSchemaSettings(None), ("BACKWARD", False, "READWRITE")),
    ]:
        answer = await session.call(cast(Any, asked))
        assert answer == wire.SchemaSettings(*expected), asked

"""Subjects and their versions, as clients of Confluent's registry ask for them."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from trio.testing import MockClock

from tests.http.routes.registry.world import CLOSED, STRICTER, WIDER, body, registry, text


@pytest.mark.parametrize("root", ["", "/schemas"])
async def test_a_schema_is_registered_and_found_again(root: str, autojump_clock: MockClock) -> None:
    async with registry(root) as client:
        made = await client.register("orders-value", CLOSED, "?normalize=False")
        assert (made["id"], made["version"], made["schemaType"], made["subject"]) == (1, 1, "JSON", "orders-value")
        assert made["schema"] == text(CLOSED)
        assert len(made["guid"]) == 36
        assert await client.register("orders-value", CLOSED) == made
        assert (
            await client.good("POST", "/subjects/orders-value?normalize=False&deleted=False", body(CLOSED)) == made
        )
        assert await client.good("GET", "/subjects/orders-value/versions/1") == made
        assert await client.good("GET", "/subjects/orders-value/versions/latest") == made
        assert await client.good("GET", "/subjects/orders-value/versions/1/schema") == CLOSED
        assert await client.good("GET", "/subjects") == ["orders-value"]
        assert await client.good("GET", "/subjects/orders-value/versions") == [1]


async def test_the_text_is_answered_as_it_was_registered(autojump_clock: MockClock) -> None:
    odd = '{ "type" :\n"object", "description": "\\u00e4 é 💡" , "maxProperties": 1e2 }'
    async with registry() as client:
        assert (await client.register("orders", odd))["schema"] == odd
        answered = await client.ask("GET", "/subjects/orders/versions/1/schema")
        assert answered.body.decode() == odd


async def test_a_schema_that_may_not_follow_is_409_and_one_that_may_is_the_next_version(
    autojump_clock: MockClock,
) -> None:
    async with registry() as client:
        await client.register("orders", CLOSED)
        assert (await client.register("orders", WIDER))["version"] == 2
        refused = await client.ask("POST", "/subjects/orders/versions", body(STRICTER))
        assert (refused.status, refused.json()["error_code"]) == (409, 409)
        assert "#/" in refused.json()["message"]
        forced = await client.register("orders", STRICTER, "?force=true")
        assert (forced["version"], await client.good("GET", "/subjects/orders/versions")) == (3, [1, 2, 3])


async def test_one_schema_has_one_id_in_all_subjects(autojump_clock: MockClock) -> None:
    async with registry() as client:
        first, other = await client.register("orders", CLOSED), await client.register("refunds", CLOSED)
        assert (other["id"], other["guid"], other["version"]) == (first["id"], first["guid"], 1)


async def test_normalized_the_order_of_members_does_not_matter(autojump_clock: MockClock) -> None:
    turned = dict(reversed(CLOSED.items()))
    async with registry() as client:
        await client.register("orders", CLOSED)
        assert await client.refused("POST", "/subjects/orders", body(turned)) == (404, 40403)
        assert (await client.good("POST", "/subjects/orders?normalize=True", body(turned)))["version"] == 1
        await client.good("PUT", "/config/orders", {"normalize": True})
        assert (await client.register("orders", turned, "?normalize=False"))["version"] == 1


@pytest.mark.parametrize("name", ["a/b", "com.acme.Order", "an order", "grün/💡", "100%", "..", "a?b#c", ":.:x"])
async def test_a_subject_may_have_any_name_and_is_found_by_it(name: str, autojump_clock: MockClock) -> None:
    raw = quote(name, safe="")
    async with registry() as client:
        made = await client.register(raw, CLOSED)
        assert made["subject"] == name
        assert await client.good("GET", f"/subjects/{raw}/versions/1") == made
        assert await client.good("GET", f"/subjects?subjectPrefix={raw}") == [name]
        assert await client.good("DELETE", f"/subjects/{raw}") == [1]


async def test_a_topic_and_its_values_are_one_subject_listed_as_it_was_first_registered(
    autojump_clock: MockClock,
) -> None:
    async with registry() as client:
        await client.register("orders", CLOSED)
        assert (await client.register("orders-value", WIDER))["version"] == 2
        await client.register("orders-key", CLOSED)
        assert await client.good("GET", "/subjects") == ["orders", "orders-key"]


async def test_subjects_and_versions_are_listed_by_pages_and_by_what_is_deleted(autojump_clock: MockClock) -> None:
    async with registry() as client:
        for name in ("c", "a", "b"):
            await client.register(name, CLOSED)
        await client.register("a", WIDER)
        await client.good("DELETE", "/subjects/c")
        await client.good("DELETE", "/subjects/a/versions/1")
        for query, names in [
            ("", ["a", "b"]),
            ("?deleted=True", ["a", "b", "c"]),
            ("?deleted_only=True", ["c"]),
            ("?deleted=false&deleted_only=False&offset=1&limit=-1", ["b"]),
            ("?offset=0&limit=1", ["a"]),
            ("?limit=0", []),
            ("?offset=7", []),
            ("?subjectPrefix=b", ["b"]),
            ("?subjectPrefix=:*:", ["a", "b"]),
        ]:
            assert await client.good("GET", f"/subjects{query}") == names, query
        for query, numbers in [
            ("", [2]),
            ("?deleted=true", [1, 2]),
            ("?deletedOnly=true", [1]),
            ("?deleted=true&offset=1&limit=5", [2]),
        ]:
            assert await client.good("GET", f"/subjects/a/versions{query}") == numbers, query


async def test_a_version_is_deleted_softly_and_then_for_good(autojump_clock: MockClock) -> None:
    async with registry() as client:
        await client.register("orders", CLOSED)
        await client.register("orders", WIDER)
        assert await client.refused("DELETE", "/subjects/orders/versions/1?permanent=true") == (404, 40407)
        assert await client.good("DELETE", "/subjects/orders/versions/1") == 1
        assert await client.refused("DELETE", "/subjects/orders/versions/1") == (404, 40406)
        assert await client.refused("GET", "/subjects/orders/versions/1") == (404, 40402)
        assert (await client.good("GET", "/subjects/orders/versions/1?deleted=True"))["deleted"] is True
        assert (await client.good("GET", "/schemas/ids/1"))["schema"] == text(CLOSED)
        assert await client.good("DELETE", "/subjects/orders/versions/1?permanent=true") == 1
        assert await client.refused("GET", "/subjects/orders/versions/1?deleted=true") == (404, 40402)
        assert await client.refused("GET", "/schemas/ids/1") == (404, 40403)
        again = await client.register("orders", CLOSED, "?force=true")
        assert (again["id"], again["version"]) == (3, 3)
        assert await client.good("DELETE", "/subjects/orders/versions/latest") == 3


async def test_a_subject_is_deleted_softly_and_then_for_good(autojump_clock: MockClock) -> None:
    async with registry() as client:
        await client.register("orders", CLOSED)
        await client.register("orders", WIDER)
        assert await client.refused("DELETE", "/subjects/orders?permanent=true") == (404, 40405)
        assert await client.good("DELETE", "/subjects/orders") == [1, 2]
        assert await client.refused("DELETE", "/subjects/orders") == (404, 40404)
        assert await client.refused("GET", "/subjects/orders/versions") == (404, 40401)
        assert await client.good("GET", "/subjects/orders/versions?deleted=true") == [1, 2]
        assert await client.good("DELETE", "/subjects/orders?permanent=True") == [1, 2]
        assert await client.refused("DELETE", "/subjects/orders") == (404, 40401)
        assert await client.good("GET", "/subjects?deleted=true") == []


async def test_what_others_refer_to_stays(autojump_clock: MockClock) -> None:
    reference = {"name": "customer.json", "subject": "customers", "version": 1}
    order = {"type": "object", "properties": {"customer": {"$ref": "customer.json"}}}
    async with registry() as client:
        assert await client.refused("POST", "/subjects/orders/versions", body(order, references=[reference])) == (
            422,
            42201,
        )
        await client.register("customers", CLOSED)
        made = await client.register("orders", order, references=[reference])
        assert made["references"] == [reference]
        assert await client.good("GET", "/subjects/customers/versions/1/referencedby?offset=0&limit=-1") == [
            made["id"]
        ]
        assert await client.refused("DELETE", "/subjects/customers") == (422, 42206)
        assert await client.refused("DELETE", "/subjects/customers/versions/1") == (422, 42206)
        await client.good("DELETE", "/subjects/orders")
        assert await client.good("GET", "/subjects/customers/versions/latest/referencedby") == []
        assert await client.good("DELETE", "/subjects/customers") == [1]


async def test_metadata_find_the_newest_version_that_has_them(autojump_clock: MockClock) -> None:
    async with registry() as client:
        for number, team in enumerate(("a b", "c%d", "a b"), start=1):
            metadata = {"properties": {"team": team, "major": "1"}}
            made = await client.register("orders", CLOSED, metadata={**metadata, "tags": {"n": [str(number)]}})
            assert made["metadata"]["properties"]["team"] == team
        for query, version in [
            ("key=team&value=a%20b", 3),
            ("key=team&value=a%2520b", 3),
            ("key=team&value=c%2525d", 2),
            ("key=team&key=major&value=c%25d&value=1&deleted=False", 2),
            ("deleted=True", 3),
        ]:
            assert (await client.good("GET", f"/subjects/orders/metadata?{query}"))["version"] == version, query
        assert await client.refused("GET", "/subjects/orders/metadata?key=team&value=x") == (404, 40402)
        assert await client.refused("GET", "/subjects/nobody/metadata?key=team&value=x") == (404, 40401)
        assert await client.refused("GET", "/subjects/orders/metadata?key=team") == (400, 400)


async def test_avro_is_stored_where_nothing_is_compared_and_protobuf_is_refused(autojump_clock: MockClock) -> None:
    avro = {"schema": '{"type": "record", "name": "o", "fields": []}', "schemaType": "AVRO"}
    async with registry() as client:
        assert await client.refused("POST", "/subjects/orders/versions", avro) == (422, 42201)
        await client.good("PUT", "/config/orders", {"compatibility": "NONE"})
        assert (await client.good("POST", "/subjects/orders/versions", avro))["schemaType"] == "AVRO"
        assert (await client.good("GET", "/schemas/ids/1"))["schemaType"] == "AVRO"
        protobuf = {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}
        assert await client.refused("POST", "/subjects/o/versions", protobuf) == (422, 42201)


async def test_without_a_type_it_is_json(autojump_clock: MockClock) -> None:
    async with registry() as client:
        made = await client.good("POST", "/subjects/orders/versions", {"schema": text(CLOSED)})
        assert made["schemaType"] == "JSON"


async def test_what_an_answer_had_may_come_back(autojump_clock: MockClock) -> None:
    """Who reads a schema here and registers it there sends what it read."""
    async with registry() as client:
        made = await client.register("orders", CLOSED)
        assert await client.good("POST", "/subjects/orders", made) == made
        assert (await client.good("POST", "/compatibility/subjects/orders/versions/latest", made))["is_compatible"]
        empty: dict[str, Any] = {
            "references": [],
            "metadata": None,
            "ruleSet": None,
            "propagateSchemaTags": False,
            "id": -1,
        }
        assert await client.good("POST", "/subjects/orders/versions", {**body(CLOSED), **empty}) == made


async def test_schemas_of_another_registry_are_taken_over_with_their_numbers(autojump_clock: MockClock) -> None:
    async with registry() as client:
        assert await client.refused("POST", "/subjects/orders/versions", body(CLOSED, id=70)) == (422, 42205)
        assert await client.good("PUT", "/mode/orders?force=False", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
        made = await client.register("orders", CLOSED, id=70, version=7)
        assert (made["id"], made["version"]) == (70, 7)
        assert await client.refused("POST", "/subjects/orders/versions", body(WIDER, id=70, version=8)) == (
            422,
            42207,
        )
        await client.good("PUT", "/mode/orders", {"mode": "READWRITE"})
        assert (await client.register("orders", WIDER))["id"] == 71


async def test_a_subject_that_is_read_only_takes_nothing_new(autojump_clock: MockClock) -> None:
    async with registry() as client:
        made = await client.register("orders", CLOSED)
        await client.good("PUT", "/mode", {"mode": "READONLY"})
        assert await client.register("orders", CLOSED) == made
        assert await client.refused("POST", "/subjects/orders/versions", body(WIDER)) == (422, 42205)
        assert await client.refused("DELETE", "/subjects/orders") == (422, 42205)


@pytest.mark.parametrize("version", ["abc", "0", "-1", "2147483648", "99999999999999999999", "1.0", "%201", "٣"])
async def test_what_is_no_version_is_42202(version: str, autojump_clock: MockClock) -> None:
    version = quote(version, safe="%")
    async with registry() as client:
        await client.register("orders", CLOSED)
        for method, path in [("GET", ""), ("GET", "/schema"), ("GET", "/referencedby"), ("DELETE", "")]:
            refused = await client.refused(method, f"/subjects/orders/versions/{version}{path}")
            assert refused == (422, 42202), (method, path)
        asked = f"/compatibility/subjects/orders/versions/{version}"
        assert await client.refused("POST", asked, body(CLOSED)) == (422, 42202)
        assert await client.good("GET", "/subjects/orders/versions/LATEST")


async def test_what_is_not_there_is_404_with_its_number(autojump_clock: MockClock) -> None:
    async with registry() as client:
        await client.register("orders", CLOSED)
        for method, path, number in [
            ("GET", "/subjects/nobody/versions", 40401),
            ("GET", "/subjects/nobody/versions/1", 40401),
            ("GET", "/subjects/nobody/versions/latest/referencedby", 40401),
            ("DELETE", "/subjects/nobody", 40401),
            ("DELETE", "/subjects/nobody/versions/1", 40401),
            ("GET", "/subjects/orders/versions/2", 40402),
            ("GET", "/subjects/orders/versions/2147483647", 40402),
            ("DELETE", "/subjects/orders/versions/2", 40402),
        ]:
            assert await client.refused(method, path) == (404, number), path
        assert await client.refused("POST", "/subjects/nobody", body(CLOSED)) == (404, 40401)
        assert await client.refused("POST", "/subjects/orders", body(WIDER)) == (404, 40403)


def test_the_schemas_of_these_tests_are_what_their_names_say() -> None:
    assert json.loads(text(CLOSED)) == CLOSED
